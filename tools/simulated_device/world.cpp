#include "tools/simulated_device/world.hpp"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/contexts.hpp"
#include "tools/simulated_device/costs.hpp"
#include "tools/simulated_device/entering.hpp"

namespace spillway::simulated {
namespace {

thread_local std::unique_lock<FirstComeMutex>* lock_of_call = nullptr;

// What this process did is not the child's: its CUDA is uninitialized for good, as with the real driver.
void after_fork_in_child() { world().forked = true; }

void read_settings_once(World& w) {
  if (w.settings_read) return;
  w.settings_read = true;
  w.settings = read_settings();
  for (const auto& line : w.settings.problems) std::fprintf(stderr, "simulated device: %s\n", line.c_str());
}

struct Injected {
  CUresult result = CUDA_SUCCESS;
  std::chrono::milliseconds delay{0};
};

Injected injected(World& w, unsigned entry, std::uint64_t call) {
  Injected found;
  for (const Injection& injection : w.settings.injections) {
    if (injection.entry != entry || (injection.call != 0 && injection.call != call)) continue;
    found.delay += injection.delay;
    if (injection.code != 0) found.result = static_cast<CUresult>(injection.code);
  }
  if (found.result != CUDA_SUCCESS || found.delay.count() != 0) ++w.statistics.injected[entry];
  return found;
}

CUresult start(World& w) {
  if (!w.settings.problems.empty()) return CUDA_ERROR_INVALID_VALUE;
  if (w.settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
  std::vector<std::string> problems;
  load_twins(w.settings.twin_libraries, problems);
  for (const auto& line : problems) std::fprintf(stderr, "simulated device: %s\n", line.c_str());
  if (!problems.empty()) return CUDA_ERROR_INVALID_VALUE;
  if (!w.memory.reserve_ranges()) return CUDA_ERROR_OUT_OF_MEMORY;
  w.devices.resize(static_cast<std::size_t>(w.settings.devices));
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  std::atexit(write_report);
  return CUDA_SUCCESS;
}

}  // namespace

World& world() {
  static World* const instance = new World;  // never destroyed: see the header
  return *instance;
}

Entering::Entering(EntryPoint entry) {
  World& w = world();
  if (w.forked) {
    result_ = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  lock_ = std::unique_lock(w.mutex);
  read_settings_once(w);
  const auto index = static_cast<unsigned>(entry);
  const Injected fault = injected(w, index, ++w.statistics.calls[index]);
  if (fault.delay.count() != 0) {
    lock_.unlock();  // a slow call must not hold up other threads' calls
    std::this_thread::sleep_for(fault.delay);
    lock_.lock();
    advance_thread(std::chrono::nanoseconds(fault.delay).count());
  }
  if (w.ending) note_late_call(entry);
  result_ = fault.result;
  advance_thread(costs::kCall);
  lock_of_call = &lock_;
}

Entering::~Entering() { lock_of_call = nullptr; }

void wait_until(const std::function<bool()>& done) {
  while (!done()) {
    // The short wait is for values written by the program's own threads, which nobody announces.
    world().changed.wait_for(*lock_of_call, std::chrono::milliseconds(1));
    pump();
  }
}

CUresult need_init() { return world().initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

CUresult need_context(Context*& context) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (world().sticky != CUDA_SUCCESS) return world().sticky;
  if (current_context_was_destroyed()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  context = current_context();
  return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

bool valid_device(CUdevice device) { return device >= 0 && device < static_cast<CUdevice>(world().devices.size()); }

namespace driver {

CUresult init(unsigned int flags) {
  World& w = world();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!w.initialized && w.init_result == CUDA_ERROR_NOT_INITIALIZED) {
    w.init_result = start(w);
    w.initialized = w.init_result == CUDA_SUCCESS;
  }
  return w.init_result;
}

CUresult driver_get_version(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = world().settings.driver_version;
  return CUDA_SUCCESS;
}

}  // namespace driver
}  // namespace spillway::simulated
