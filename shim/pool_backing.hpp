// The pools' way to the driver and the session: arenas are managed memory that policy was asked about, marks are
// events.
#pragma once

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

  // Its events went with it.
  void context_ended(CUcontext context);

 private:
  // The events of one context that no mark uses now. Marks outlive the context now and then: its work is over then.
  struct Events {
    explicit Events(CUcontext of) : context(of) {}
    const CUcontext context;
    std::mutex mutex;  // also held while one of the events is asked about, so that none is that ended with the context
    std::vector<CUevent> idle;
    bool ended = false;
  };
  struct EventMark final : FreeMark {
    ~EventMark() override;
    CUevent event = nullptr;
    std::shared_ptr<Events> home;
  };
  std::shared_ptr<Events> events_of(CUcontext context);

  std::mutex mutex_;
  std::map<CUcontext, std::shared_ptr<Events>> events_;
};

DriverBacking& driver_backing();

// The stream of a call, as the pools name it; nothing and the driver's code if there is no such stream.
std::optional<PoolStream> pool_stream(CUstream stream, bool per_thread, CUresult& result);

}  // namespace spillway::shim
