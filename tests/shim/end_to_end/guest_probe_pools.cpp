// The probe's hardships of memory in the order of streams: wrong sizes, work that does not end, other contexts.
#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {

// Sizes that overflow when they are rounded up, and such as no machine has.
void pools_too_large() {
  start();
  CUmemoryPool pool = nullptr;
  cuDeviceGetDefaultMemPool(&pool, 0);
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  CUdeviceptr held = 0;
  say("alloc", cuMemAllocAsync(&held, 4 * kMiB, stream));
  constexpr std::size_t kAll = ~std::size_t{0};
  for (const std::size_t bytes : {kAll, kAll - 100, kAll - 0xffff, kAll - 0x1fffff, kAll - 0x200000, kAll >> 1U,
                                  (kAll >> 1U) + 1, std::size_t{1} << 56U, std::size_t{1} << 40U}) {
    CUdeviceptr memory = 0;
    say("async", cuMemAllocAsync(&memory, bytes, stream));
    say("from pool", cuMemAllocFromPoolAsync(&memory, bytes, pool, stream));
  }
  say("free", cuMemFreeAsync(held, stream));
  say("done", cuStreamSynchronize(stream));
  cuStreamDestroy_v2(stream);
}

}  // namespace spillway::probe
