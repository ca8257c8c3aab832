#include "shim/deferred_frees.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "shim/pool_backing.hpp"
#include "shim/service_thread.hpp"

namespace spillway::shim {

namespace {

constexpr std::chrono::milliseconds kFirstLook{1};
constexpr std::chrono::milliseconds kLaterLooks{20};
constexpr int kLooks = 2;
// For a driver that is stuck in a free.
constexpr std::chrono::seconds kWaitForPass{2};

}  // namespace

std::vector<DeferredFrees::Waiting>::iterator DeferredFrees::find(policy::AllocationId id) {
  return std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.id == id; });
}

CUresult DeferredFrees::free(const Registered& memory, const PoolStream& stream) {
  {
    const std::unique_lock lock(mutex_);
    if (find(memory.id) != waiting_.end()) return CUDA_ERROR_INVALID_VALUE;
    auto* const context = static_cast<CUcontext>(const_cast<void*>(memory.context));
    waiting_.push_back({memory.id, memory.address, context, nullptr, false});
    count_.store(waiting_.size(), std::memory_order_release);
  }
  CUresult result = CUDA_SUCCESS;
  std::shared_ptr<FreeMark> mark = driver_backing().mark(stream, result);
  bool deferred = false;
  {
    const std::unique_lock lock(mutex_);
    const auto mine = find(memory.id);
    if (mine == waiting_.end()) return result;  // its context ended meanwhile
    deferred = mark != nullptr && start_thread();
    if (deferred) {
      mine->mark = std::move(mark);
    } else {
      waiting_.erase(mine);
      count_.store(waiting_.size(), std::memory_order_release);
    }
  }
  if (deferred) wanted_.notify_one();
  // Without a thread there is only the driver's own way, which waits.
  if (!deferred && result == CUDA_SUCCESS) {
    driver_backing().free_arena(memory.address, static_cast<CUcontext>(const_cast<void*>(memory.context)));
  }
  return result;
}

bool DeferredFrees::holds(Session& session, policy::Address address) {
  if (count_.load(std::memory_order_acquire) == 0) return false;
  const auto memory = session.registered(address);
  if (!memory || memory->address != address) return false;
  const std::unique_lock lock(mutex_);
  return find(memory->id) != waiting_.end();
}

bool DeferredFrees::start_thread() {
  if (stopping_) return false;
  if (started_) return true;
  auto thread = start_service_thread("spillway-free", [this] { run(); });
  if (!thread) return false;
  thread->detach();
  return started_ = true;
}

void DeferredFrees::run() {
  std::unique_lock lock(mutex_);
  std::chrono::milliseconds look = kFirstLook;
  while (!stopping_) {
    const auto called = [this] { return stopping_ || passes_wanted_ > passes_; };
    if (waiting_.empty()) {
      wanted_.wait(lock, [&] { return called() || !waiting_.empty(); });
      look = kFirstLook;
    } else {
      wanted_.wait_for(lock, look, called);
      look = std::min(look * 2, kLaterLooks);
    }
    const std::uint64_t wanted = passes_wanted_;
    lock.unlock();
    const bool any = pass();
    lock.lock();
    if (any) look = kFirstLook;
    passes_ = wanted;
    passed_.notify_all();
  }
  started_ = false;
  passed_.notify_all();
}

bool DeferredFrees::pass() {
  std::vector<Waiting> ready;
  {
    const std::unique_lock lock(mutex_);
    std::copy_if(waiting_.begin(), waiting_.end(), std::back_inserter(ready),
                 [](const Waiting& one) { return one.mark != nullptr; });
  }
  bool any = false;
  for (const Waiting& one : ready) {
    if (!driver_backing().done(*one.mark)) continue;
    {
      const std::unique_lock lock(mutex_);
      const auto still = find(one.id);
      if (still == waiting_.end()) continue;
      still->going = true;
    }
    // Its address is no other memory's before this is over: context_ends waits for it.
    any = driver_backing().free_arena(one.address, one.context) || any;
    const std::unique_lock lock(mutex_);
    waiting_.erase(find(one.id));
    count_.store(waiting_.size(), std::memory_order_release);
    ++freed_;
    passed_.notify_all();
  }
  return any;
}

bool DeferredFrees::settle() {
  if (count_.load(std::memory_order_acquire) == 0) return false;
  std::unique_lock lock(mutex_);
  if (!started_) return false;
  const std::uint64_t before = freed_;
  // A driver may finish work only when it is asked about it, and say so the next time.
  for (int look = 0; look < kLooks && freed_ == before && !waiting_.empty(); ++look) {
    const std::uint64_t mine = ++passes_wanted_;
    wanted_.notify_one();
    if (!passed_.wait_for(lock, kWaitForPass, [&] { return passes_ >= mine || !started_; })) break;
  }
  return freed_ != before;
}

void DeferredFrees::context_ends(CUcontext context) {
  if (count_.load(std::memory_order_acquire) == 0) return;
  std::unique_lock lock(mutex_);
  std::erase_if(waiting_, [&](const Waiting& one) { return one.context == context && !one.going; });
  count_.store(waiting_.size(), std::memory_order_release);
  passed_.wait_for(lock, kWaitForPass, [&] {
    return std::none_of(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.context == context; });
  });
}

void DeferredFrees::stop() {
  settle();
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wanted_.notify_one();
  passed_.wait_for(lock, kWaitForPass, [this] { return !started_; });
}

DeferredFrees& deferred_frees() {
  static DeferredFrees* const frees = new DeferredFrees;
  return *frees;
}

}  // namespace spillway::shim
