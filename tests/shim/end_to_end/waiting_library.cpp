// A library whose constructor waits for a thread that allocates; the loader's lock is held meanwhile.
#include <cstdio>
#include <thread>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace {

const struct Waits {
  Waits() {
    CUcontext context = nullptr;
    cuCtxGetCurrent(&context);
    std::thread([context] {
      CUdeviceptr memory = 0;
      cuCtxSetCurrent(context);
      spillway::probe::say("allocated by its thread", cuMemAlloc_v2(&memory, 8 * spillway::probe::kMiB));
      cuMemFree_v2(memory);
    }).join();
  }
} waits;

}  // namespace
