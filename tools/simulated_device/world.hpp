// The one simulated machine of this process: cards, contexts, memory, streams, and the lock that guards them all.
//
// Every entry point runs under World::mutex, taken in exports.cpp. What must wait (synchronize, free) gives the lock up
// in wait_until. Host functions of the program run without it, on a thread of their own. The World is never destroyed:
// the program may call us during its own exit.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tools/simulated_device/driver.hpp"
#include "tools/simulated_device/first_come_mutex.hpp"
#include "tools/simulated_device/graphs.hpp"
#include "tools/simulated_device/memory.hpp"
#include "tools/simulated_device/modules.hpp"
#include "tools/simulated_device/settings.hpp"
#include "tools/simulated_device/statistics.hpp"
#include "tools/simulated_device/streams.hpp"

namespace spillway::simulated {

inline constexpr std::uint64_t kContextBytes = kChunkBytes;  // device memory a context takes; far less than a real one

struct Context {
  std::uint64_t id = 0;
  int device = 0;
  unsigned flags = 0;
  bool primary = false;
  std::shared_ptr<Stream> legacy;                                 // the legacy default stream
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread;  // per-thread default streams
  std::unordered_set<const Context*> peers;
};

struct Device {
  std::uint64_t plain_bytes = 0;    // cuMemAlloc and relatives, contexts, pools: what cuMemGetInfo counts
  std::uint64_t managed_bytes = 0;  // managed pages resident now; cuMemGetInfo does not show them
  std::uint64_t managed_peak = 0;
  std::uint64_t resident_peak = 0;  // plain and managed together
  std::int64_t link_in_free = 0;    // virtual time at which each direction of the link is idle
  std::int64_t link_out_free = 0;
  std::int64_t compute_free = 0;
  std::shared_ptr<Context> primary;
  int primary_users = 0;
  unsigned primary_flags = 0;
  CUmemoryPool default_pool = nullptr;
  CUmemoryPool current_pool = nullptr;
};

struct World {
  FirstComeMutex mutex;
  bool ending = false;  // the report is written
  std::condition_variable_any changed;

  Settings settings;
  bool settings_read = false;
  bool initialized = false;
  bool forked = false;  // a child of the process that called cuInit: CUDA does not survive fork
  CUresult init_result = CUDA_ERROR_NOT_INITIALIZED;
  CUresult sticky = CUDA_SUCCESS;  // an illegal address ends the process's use of CUDA

  std::vector<Device> devices;
  std::unordered_map<CUcontext, std::shared_ptr<Context>> contexts;
  std::unordered_map<CUstream, std::shared_ptr<Stream>> streams;
  std::unordered_map<CUevent, std::shared_ptr<Event>> events;
  MemoryMap memory;
  Modules modules;
  Graphs graphs;
  Statistics statistics;
  std::uint64_t next_id = 1;
};

World& world();

// Gives the lock up until `done()`; queued stream work goes on meanwhile. Call only inside an entry point.
void wait_until(const std::function<bool()>& done);

// The context of the calling thread; null when it has none or it was destroyed.
Context* current_context();
CUcontext handle_of(const Context* context);
Context* find_context(CUcontext handle);
bool valid_device(CUdevice device);

// Checks cuInit and, for most calls, a live current context.
CUresult need_init();
CUresult need_context(Context*& context);

}  // namespace spillway::simulated

#define SPILLWAY_RETURN_IF_FAILED(expression)                                                             \
  do {                                                                                                    \
    if (const CUresult spillway_code = (expression); spillway_code != CUDA_SUCCESS) return spillway_code; \
  } while (false)
