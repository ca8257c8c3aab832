// The pools' way to the driver and the session: arenas are managed memory that policy was asked about, marks are
// events.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "shim/managed_pools.hpp"

namespace spillway::shim {

class DriverBacking final : public PoolBacking {
 public:
  GrownArena make_arena(const AllocationRequest& request) override;
  bool free_arena(policy::Address arena, CUcontext context) override;
  std::shared_ptr<FreeMark> mark(const PoolStream& stream, CUresult& result) override;
  bool done(const FreeMark& mark) override;
  bool wait_in(const PoolStream& stream, const FreeMark& mark) override;
  void wait_for(const FreeMarks& marks) override;
  CUresult wait_for(CUcontext context) override;

  // Before the driver hears of it.
  void stream_gone(StreamKey stream);
  // Its events go with it, and are not asked about from the first call on.
  struct Events;
  std::shared_ptr<Events> begin_context_end(CUcontext context);
  void end_context_end(CUcontext context, const std::shared_ptr<Events>& events, CUresult result);

 private:
  struct EventMark final : FreeMark {
    ~EventMark() override;
    std::shared_ptr<Events> home;
    // Guarded by the lock of its home. An event that could not be recorded is tried again while there is the stream.
    mutable CUevent event = nullptr;
    mutable bool recorded = false;
    PoolStream where;  // handle null: gone
  };
  static CUresult record(const EventMark& mark);
  static bool recorded(const EventMark& mark);
  std::shared_ptr<Events> events_of(CUcontext context);

  std::mutex mutex_;
  std::map<CUcontext, std::shared_ptr<Events>> events_;
};

// The events of one context that no mark uses now. Marks outlive the context now and then: its work is over then.
struct DriverBacking::Events {
  explicit Events(CUcontext of) : context(of) {}
  enum class Life : std::uint8_t { lives, ends, ended };
  // Calls the driver without the lock, which nobody is to wait for meanwhile; the context's end does, but not for ever.
  template <class Call>
  CUresult unlocked(std::unique_lock<std::mutex>& lock, const Call& call) {
    ++calls;
    lock.unlock();
    const CUresult result = call();
    lock.lock();
    --calls;
    back.notify_all();
    return result;
  }
  const CUcontext context;
  std::mutex mutex;
  std::condition_variable back;
  std::uint64_t calls = 0;
  std::vector<CUevent> idle;
  std::vector<std::weak_ptr<EventMark>> unrecorded;
  Life life = Life::lives;
};

DriverBacking& driver_backing();

// The stream of a call, as the pools name it; nothing and the driver's code if there is no such stream.
std::optional<PoolStream> pool_stream(CUstream stream, bool per_thread, CUresult& result);

}  // namespace spillway::shim
