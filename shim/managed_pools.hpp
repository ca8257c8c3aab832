// Stream-ordered memory that can spill: arenas of managed memory, which policy sees as one large allocation each,
// served to cuMemAllocAsync and its relatives in pieces (ordered_heap.hpp).
//
// One heap for each pool and context. Every member is safe from any thread; the lock is a leaf and is never held across
// a call of the backing, which is the driver.
#pragma once

#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/cuda_driver.hpp"
#include "shim/ordered_heap.hpp"
#include "shim/session.hpp"

namespace spillway::shim {

// Smaller requests stay with the driver's pools: policy moves whole chunks.
inline constexpr policy::Bytes kSmallestPooled = policy::kChunk;
// More than any machine can address: the driver says what is wrong with it, and no size below it overflows.
inline constexpr policy::Bytes kBeyondMemory = policy::Bytes(std::uint64_t{1} << 56);

struct PoolStream {
  StreamKey key;
  CUstream handle = nullptr;    // never null: the default streams by their special handles
  CUcontext context = nullptr;  // that it belongs to
};

struct GrownArena {
  enum class Outcome {
    made,
    refused,   // out of memory, by policy; a smaller one may fit
    full,      // out of managed memory, by the driver; a smaller one may fit, or plain memory
    final,     // out of memory, and the program shall hear of it
    not_ours,  // policy wants plain memory, or the driver refused managed memory
  };
  Outcome outcome = Outcome::not_ours;
  policy::Address address;
};

// The driver and the session, as the pools need them. Errors are values; nothing throws for an error of the driver's.
class PoolBacking {
 public:
  virtual ~PoolBacking() = default;
  virtual GrownArena make_arena(const AllocationRequest& request) = 0;
  virtual bool free_arena(policy::Address arena, CUcontext context) = 0;
  // Marks the place that the stream, of whichever context, has reached; null and a code if that fails.
  virtual std::shared_ptr<FreeMark> mark(const PoolStream& stream, CUresult& result) = 0;
  virtual bool done(const FreeMark& mark) = 0;
  virtual bool wait_in(const PoolStream& stream, const FreeMark& mark) = 0;  // the stream waits, not the thread
  // Until all are done, or the driver has been stuck for long enough.
  virtual void wait_for(const FreeMarks& marks) = 0;
  virtual CUresult wait_for(CUcontext context) = 0;
};

struct PoolRequest {
  CUmemoryPool pool = nullptr;
  PoolStream stream;
  policy::Bytes bytes;
  policy::Bytes budget;                                 // of the device
  OrderedHeap::Wait may_wait = OrderedHeap::Wait::yes;  // for work of other streams, rather than grow
  AllocationRequest arena;                              // device, caller and context of what may have to be made
};

struct PoolAnswer {
  enum class Outcome { served, out_of_memory, not_ours };
  Outcome outcome = Outcome::not_ours;
  policy::Address address;
};

struct PoolFigures {
  policy::Bytes used;
  policy::Bytes reserved;
  policy::Bytes used_peak;
  policy::Bytes reserved_peak;
};

struct PooledBlock {
  policy::Address address;
  policy::Bytes bytes;  // as asked for
  CUmemoryPool pool = nullptr;
};

class ManagedPools {
 public:
  explicit ManagedPools(PoolBacking& backing) : backing_(backing) {}

  // Who serves a pool. Ours may be what is plain device memory, not to be shared by handle; what is elsewhere takes
  // nothing of a device.
  enum class Service : std::uint8_t { ours, drivers, elsewhere };
  struct SeenPool {
    policy::DeviceIndex device;
    Service service = Service::drivers;
  };
  void pool_seen(CUmemoryPool pool, SeenPool seen);
  [[nodiscard]] std::optional<SeenPool> seen(CUmemoryPool pool) const;
  [[nodiscard]] bool serves(CUmemoryPool pool, policy::DeviceIndex device) const;
  // Memory beyond this that nobody uses is given back when other memory is asked for.
  void set_threshold(CUmemoryPool pool, policy::Bytes bytes);

  PoolAnswer allocate(const PoolRequest& request);
  // True for every address in an arena, also where no block is: it must not reach the driver's own free.
  [[nodiscard]] bool holds(policy::Address address) const;
  // The driver's codes: CUDA_ERROR_INVALID_VALUE for what begins no live block.
  CUresult free_in_order(policy::Address address, const PoolStream& stream);
  // After all work of its context; `unless` that is not to be waited for.
  CUresult free_now(policy::Address address, bool wait);

  [[nodiscard]] std::optional<PooledBlock> block_at(policy::Address address) const;
  [[nodiscard]] PoolFigures figures(CUmemoryPool pool) const;
  void reset_used_peak(CUmemoryPool pool);
  void reset_reserved_peak(CUmemoryPool pool);

  // Arenas without a live block go back: of one pool down to `keep`, beyond the pools' thresholds, or all that there
  // are, which waits for the work that used them, but not for ever. True if any went.
  bool trim(CUmemoryPool pool, policy::Bytes keep);
  bool release_idle(policy::DeviceIndex device);
  bool release_unused(policy::DeviceIndex device);
  // What is live in a destroyed pool stays until it is freed.
  void pool_destroyed(CUmemoryPool pool);
  // A context is going, and all memory made in it goes with it: forgotten before the driver is told, as others may have
  // its addresses from then on; and remembered if the driver did not do it after all.
  class EndingContext;
  EndingContext begin_context_end(CUcontext context);
  void end_context_end(EndingContext ending, CUresult result);
  void stream_gone(StreamKey stream);

 private:
  struct Heap {
    CUcontext context = nullptr;
    CUmemoryPool pool = nullptr;  // null: destroyed
    policy::DeviceIndex device;
    OrderedHeap blocks;
  };
  struct Pool {
    SeenPool seen;
    policy::Bytes threshold;
  };
  struct Arena {
    std::uint64_t address;
    policy::Bytes bytes;
    Heap* heap;
  };
  using HeapFilter = std::function<std::optional<policy::Bytes>(const Heap&)>;  // how much of it to keep; nothing: all

  // With the lock held.
  Heap* find(CUcontext context, CUmemoryPool pool) const;
  Heap& heap_of(const PoolRequest& request);
  Heap* holding(policy::Address address) const;

  // Without the lock.
  std::optional<policy::Address> reuse(const PoolRequest& request, OrderedHeap::Wait wait);
  bool poll(const HeapFilter& which);
  PoolAnswer grow(const PoolRequest& request);
  bool release(const HeapFilter& keep);
  CUresult begin_free(policy::Address address, CUcontext& context);
  void end_free(policy::Address address, std::shared_ptr<FreeMark> mark, CUresult result);

  PoolBacking& backing_;
  mutable std::mutex mutex_;
  std::atomic<std::size_t> arena_count_{0};
  std::vector<std::unique_ptr<Heap>> heaps_;
  std::map<std::uint64_t, std::pair<policy::Bytes, Heap*>> arenas_;
  std::map<CUmemoryPool, Pool> pools_;
  std::map<CUcontext, std::size_t> releasing_;  // arenas on their way to the driver
  std::condition_variable released_;
};

class ManagedPools::EndingContext {
  friend class ManagedPools;
  std::vector<std::unique_ptr<Heap>> heaps_;
  std::vector<Arena> arenas_;
};

// Of the process, on the real driver and the session; never destroyed.
ManagedPools& managed_pools();

}  // namespace spillway::shim
