#include "shim/managed_pools.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

namespace spillway::shim {

using policy::Address;
using policy::Bytes;
using policy::DeviceIndex;
using Wait = OrderedHeap::Wait;

namespace {

// Requests below the first share arenas of the second size, as a call for each would cost more than it saves.
constexpr Bytes kSharing = Bytes(std::uint64_t{8} << 20);
constexpr Bytes kShared = Bytes(std::uint64_t{32} << 20);
// No arena for several takes more of the device than this part of its budget.
constexpr std::uint64_t kShareOfBudget = 8;
// For a driver that is stuck in a free.
constexpr std::chrono::seconds kWaitForRelease{2};
constexpr Bytes kNone = Bytes();
constexpr Bytes kEverything = Bytes(std::numeric_limits<std::uint64_t>::max());

Bytes whole_chunks(Bytes bytes) {
  const std::uint64_t chunk = policy::kChunk.count();
  return Bytes((bytes.count() + chunk - 1) / chunk * chunk);
}

Bytes share_of(Bytes budget) {
  const std::uint64_t chunk = policy::kChunk.count();
  return Bytes(budget.count() / kShareOfBudget / chunk * chunk);
}

}  // namespace

void ManagedPools::pool_seen(CUmemoryPool pool, SeenPool seen) {
  const std::unique_lock lock(mutex_);
  pools_.try_emplace(pool, Pool{seen, {}});
}

std::optional<ManagedPools::SeenPool> ManagedPools::seen(CUmemoryPool pool) const {
  const std::unique_lock lock(mutex_);
  const auto known = pools_.find(pool);
  return known == pools_.end() ? std::nullopt : std::optional(known->second.seen);
}

bool ManagedPools::serves(CUmemoryPool pool, DeviceIndex device) const {
  const auto known = seen(pool);
  return known && known->service == Service::ours && known->device == device;
}

void ManagedPools::set_threshold(CUmemoryPool pool, Bytes bytes) {
  const std::unique_lock lock(mutex_);
  if (const auto known = pools_.find(pool); known != pools_.end()) known->second.threshold = bytes;
}

ManagedPools::Heap* ManagedPools::find(CUcontext context, CUmemoryPool pool) const {
  for (const auto& heap : heaps_) {
    if (heap->context == context && heap->pool == pool && pool != nullptr) return heap.get();
  }
  return nullptr;
}

ManagedPools::Heap& ManagedPools::heap_of(const PoolRequest& request) {
  if (Heap* known = find(request.stream.context, request.pool)) return *known;
  heaps_.push_back(std::make_unique<Heap>());
  Heap& heap = *heaps_.back();
  heap.context = request.stream.context;
  heap.pool = request.pool;
  heap.device = request.arena.device;
  return heap;
}

ManagedPools::Heap* ManagedPools::holding(Address address) const {
  auto arena = arenas_.upper_bound(address.value);
  if (arena == arenas_.begin()) return nullptr;
  arena = std::prev(arena);
  return address.value - arena->first < arena->second.first.count() ? arena->second.second : nullptr;
}

PoolAnswer ManagedPools::allocate(const PoolRequest& request) {
  if (request.bytes >= kBeyondMemory) return {};
  constexpr auto served = PoolAnswer::Outcome::served;
  if (const auto at = reuse(request, Wait::no)) return {served, *at};
  const auto mine = [&](const Heap& heap) -> std::optional<Bytes> {
    return heap.context == request.stream.context && heap.pool == request.pool ? std::optional(kNone) : std::nullopt;
  };
  if (poll(mine)) {
    if (const auto at = reuse(request, Wait::no)) return {served, *at};
  }
  if (request.may_wait == Wait::yes) {
    if (const auto at = reuse(request, Wait::yes)) return {served, *at};
  }
  return grow(request);
}

std::optional<Address> ManagedPools::reuse(const PoolRequest& request, Wait wait) {
  OrderedHeap::Taken taken;
  {
    const std::unique_lock lock(mutex_);
    Heap* heap = find(request.stream.context, request.pool);
    if (heap == nullptr) return std::nullopt;
    auto found = heap->blocks.take(request.bytes, request.stream.key, wait);
    if (!found) return std::nullopt;
    taken = std::move(*found);
  }
  const bool waited = std::all_of(taken.after.begin(), taken.after.end(),
                                  [&](const auto& mark) { return backing_.wait_in(request.stream, *mark); });
  if (waited) return taken.address;
  const std::unique_lock lock(mutex_);
  if (Heap* heap = holding(taken.address)) heap->blocks.untake(taken);
  return std::nullopt;
}

// True if any mark became done.
bool ManagedPools::poll(const HeapFilter& which) {
  FreeMarks pending;
  {
    const std::unique_lock lock(mutex_);
    for (const auto& heap : heaps_) {
      if (!which(*heap)) continue;
      FreeMarks of_heap = heap->blocks.pending();
      pending.insert(pending.end(), of_heap.begin(), of_heap.end());
    }
  }
  bool any = false;
  for (const auto& mark : pending) {
    if (!backing_.done(*mark)) continue;
    mark->done.store(true, std::memory_order_release);
    any = true;
  }
  return any;
}

PoolAnswer ManagedPools::grow(const PoolRequest& request) {
  release_idle(request.arena.device);
  const Bytes exact = whole_chunks(request.bytes);
  const Bytes shared = std::min(kShared, share_of(request.budget));
  const std::array<Bytes, 3> sizes{exact < kSharing ? std::max(shared, exact) : exact, exact, exact};
  bool full = false;
  for (std::size_t attempt = 0; attempt < sizes.size(); ++attempt) {
    if (attempt == 1 && sizes[0] == exact) continue;
    // Before giving up: what nobody uses goes back, in whichever pool it is.
    if (attempt == 2 && !release_unused(request.arena.device)) break;
    AllocationRequest arena = request.arena;
    arena.bytes = sizes[attempt];
    const GrownArena grown = backing_.make_arena(arena);
    if (grown.outcome == GrownArena::Outcome::not_ours) return {};
    if (grown.outcome == GrownArena::Outcome::final) break;
    full = grown.outcome == GrownArena::Outcome::full;
    if (full || grown.outcome == GrownArena::Outcome::refused) continue;
    const std::unique_lock lock(mutex_);
    Heap& heap = heap_of(request);
    arenas_[grown.address.value] = {arena.bytes, &heap};
    arena_count_.store(arenas_.size(), std::memory_order_release);
    return {PoolAnswer::Outcome::served, heap.blocks.add_and_take(grown.address, arena.bytes, request.bytes)};
  }
  return {full ? PoolAnswer::Outcome::not_ours : PoolAnswer::Outcome::out_of_memory, {}};
}

bool ManagedPools::holds(Address address) const {
  if (arena_count_.load(std::memory_order_acquire) == 0) return false;
  const std::unique_lock lock(mutex_);
  return holding(address) != nullptr;
}

CUresult ManagedPools::begin_free(Address address, CUcontext& context) {
  const std::unique_lock lock(mutex_);
  Heap* heap = holding(address);
  if (heap == nullptr || !heap->blocks.begin_free(address)) return CUDA_ERROR_INVALID_VALUE;
  context = heap->context;
  return CUDA_SUCCESS;
}

void ManagedPools::end_free(Address address, std::shared_ptr<FreeMark> mark, CUresult result) {
  const std::unique_lock lock(mutex_);
  Heap* heap = holding(address);
  if (heap == nullptr) return;  // its context ended meanwhile
  if (result == CUDA_SUCCESS) {
    heap->blocks.end_free(address, std::move(mark));
  } else {
    heap->blocks.abandon_free(address);
  }
}

CUresult ManagedPools::free_in_order(Address address, const PoolStream& stream) {
  CUcontext context = nullptr;
  if (const CUresult bad = begin_free(address, context); bad != CUDA_SUCCESS) return bad;
  CUresult result = CUDA_SUCCESS;
  std::shared_ptr<FreeMark> mark;
  mark = backing_.mark(stream, result);
  // The default streams of all contexts share their names, and requests come from streams of this one.
  if (mark && stream.context == context) mark->stream = stream.key;
  end_free(address, std::move(mark), result);
  return result;
}

CUresult ManagedPools::free_now(Address address, bool wait) {
  CUcontext context = nullptr;
  if (const CUresult bad = begin_free(address, context); bad != CUDA_SUCCESS) return bad;
  const CUresult result = wait ? backing_.wait_for(context) : CUDA_SUCCESS;
  end_free(address, nullptr, result);
  return result;
}

std::optional<PooledBlock> ManagedPools::block_at(Address address) const {
  if (arena_count_.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::unique_lock lock(mutex_);
  const Heap* heap = holding(address);
  if (heap == nullptr) return std::nullopt;
  const auto block = heap->blocks.block_at(address);
  return block ? std::optional(PooledBlock{block->first, block->second, heap->pool}) : std::nullopt;
}

PoolFigures ManagedPools::figures(CUmemoryPool pool) const {
  const std::unique_lock lock(mutex_);
  PoolFigures sum;
  for (const auto& heap : heaps_) {
    if (heap->pool != pool) continue;
    sum.used += heap->blocks.used();
    sum.reserved += heap->blocks.reserved();
    sum.used_peak += heap->blocks.used_peak();
    sum.reserved_peak += heap->blocks.reserved_peak();
  }
  return sum;
}

void ManagedPools::reset_used_peak(CUmemoryPool pool) {
  const std::unique_lock lock(mutex_);
  for (const auto& heap : heaps_) {
    if (heap->pool == pool) heap->blocks.reset_used_peak();
  }
}

void ManagedPools::reset_reserved_peak(CUmemoryPool pool) {
  const std::unique_lock lock(mutex_);
  for (const auto& heap : heaps_) {
    if (heap->pool == pool) heap->blocks.reset_reserved_peak();
  }
}

bool ManagedPools::release(const HeapFilter& keep) {
  struct Going {
    Address arena;
    CUcontext context;
  };
  std::vector<Going> going;
  {
    const std::unique_lock lock(mutex_);
    for (const auto& heap : heaps_) {
      const auto kept = keep(*heap);
      for (const OrderedHeap::Arena& arena : heap->blocks.remove_empty(kept.value_or(kEverything))) {
        arenas_.erase(arena.address.value);
        going.push_back({arena.address, heap->context});
        ++releasing_[heap->context];
      }
    }
    arena_count_.store(arenas_.size(), std::memory_order_release);
  }
  bool any = false;
  for (const Going& one : going) {
    any = backing_.free_arena(one.arena, one.context) || any;
    const std::unique_lock lock(mutex_);
    const auto releasing = releasing_.find(one.context);
    if (--releasing->second == 0) releasing_.erase(releasing);
    released_.notify_all();
  }
  return any;
}

bool ManagedPools::trim(CUmemoryPool pool, Bytes keep) {
  const HeapFilter of_pool = [&](const Heap& heap) { return heap.pool == pool ? std::optional(keep) : std::nullopt; };
  poll(of_pool);
  return release(of_pool);
}

bool ManagedPools::release_idle(DeviceIndex device) {
  if (arena_count_.load(std::memory_order_acquire) == 0) return false;
  // Called with the lock held, as all filters are.
  const HeapFilter beyond = [&](const Heap& heap) -> std::optional<Bytes> {
    if (heap.device != device || !heap.blocks.has_empty()) return std::nullopt;
    const auto pool = pools_.find(heap.pool);
    return pool == pools_.end() ? kNone : pool->second.threshold;
  };
  poll(beyond);
  return release(beyond);
}

bool ManagedPools::release_unused(DeviceIndex device) {
  if (arena_count_.load(std::memory_order_acquire) == 0) return false;
  const HeapFilter of_device = [&](const Heap& heap) {
    return heap.device == device ? std::optional(kNone) : std::nullopt;
  };
  FreeMarks in_use;
  {
    const std::unique_lock lock(mutex_);
    for (const auto& heap : heaps_) {
      if (!of_device(*heap)) continue;
      const FreeMarks of_heap = heap->blocks.pending_of_empty();
      in_use.insert(in_use.end(), of_heap.begin(), of_heap.end());
    }
  }
  // The arenas stay where they are meanwhile: their own streams may have them again.
  if (!in_use.empty()) backing_.wait_for(in_use);
  poll(of_device);
  return release(of_device);
}

void ManagedPools::pool_destroyed(CUmemoryPool pool) {
  trim(pool, kNone);
  const std::unique_lock lock(mutex_);
  pools_.erase(pool);
  for (const auto& heap : heaps_) {
    if (heap->pool == pool) heap->pool = nullptr;
  }
}

ManagedPools::EndingContext ManagedPools::begin_context_end(CUcontext context) {
  EndingContext ending;
  std::unique_lock lock(mutex_);
  for (auto& heap : heaps_) {
    if (heap->context == context) ending.heaps_.push_back(std::move(heap));
  }
  std::erase(heaps_, nullptr);
  for (auto arena = arenas_.begin(); arena != arenas_.end();) {
    const auto& [bytes, heap] = arena->second;
    if (heap->context == context) ending.arenas_.push_back({arena->first, bytes, heap});
    arena = heap->context == context ? arenas_.erase(arena) : std::next(arena);
  }
  arena_count_.store(arenas_.size(), std::memory_order_release);
  // What another thread is giving back is named by its address, which is another's once the context is gone.
  released_.wait_for(lock, kWaitForRelease, [&] { return !releasing_.contains(context); });
  return ending;
}

void ManagedPools::end_context_end(EndingContext ending, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  const std::unique_lock lock(mutex_);
  for (const Arena& arena : ending.arenas_) arenas_[arena.address] = {arena.bytes, arena.heap};
  for (auto& heap : ending.heaps_) heaps_.push_back(std::move(heap));
  arena_count_.store(arenas_.size(), std::memory_order_release);
}

void ManagedPools::stream_gone(StreamKey stream) {
  if (arena_count_.load(std::memory_order_acquire) == 0) return;
  const std::unique_lock lock(mutex_);
  for (const auto& heap : heaps_) heap->blocks.stream_gone(stream);
}

}  // namespace spillway::shim
