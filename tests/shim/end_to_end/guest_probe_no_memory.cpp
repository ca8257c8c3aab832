// The probe's host memory that runs out for whoever is preloaded, one allocation later each time.
#include <dlfcn.h>

#include <cerrno>
#include <vector>

#include "tests/shim/end_to_end/guest_probe.hpp"

extern "C" void* __libc_malloc(std::size_t bytes);

namespace spillway::probe {
namespace {

thread_local int left = -1;  // allocations of theirs until all are refused; below 0: none is
const void* theirs = nullptr;

const void* library_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

bool refuses(const void* caller) {
  if (left < 0 || library_of(caller) != theirs) return false;
  if (left == 0) return true;
  --left;
  return false;
}

}  // namespace

void asks_without_memory() {
  constexpr int kMore = 60;  // than one question takes
  const Device device = start();
  std::vector<CUdeviceptr> blocks(8);
  for (CUdeviceptr& block : blocks) block = zeroed(kBlock);
  for (const CUdeviceptr block : blocks) launch_add_one(device, block, kBlock);
  theirs = library_of(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
  for (int i = 0; i < kMore; ++i) {
    CUdeviceptr memory = 0;
    left = i;
    const CUresult code = cuMemAlloc_v2(&memory, kBlock);
    left = -1;
    if (code != CUDA_SUCCESS || cuMemFree_v2(memory) != CUDA_SUCCESS) std::printf("%d failed\n", i);
    if (launch_add_one(device, blocks[0], kBlock) != CUDA_SUCCESS) std::printf("a launch failed\n");
  }
  for (const CUdeviceptr block : blocks) say("free", cuMemFree_v2(block));
  std::size_t free = 0;
  std::size_t total = 0;
  cuMemGetInfo_v2(&free, &total);
  say("MiB in use", (total - free) / kMiB);
}

}  // namespace spillway::probe

extern "C" void* malloc(std::size_t bytes) {
  if (!spillway::probe::refuses(__builtin_return_address(0))) return __libc_malloc(bytes);
  errno = ENOMEM;
  return nullptr;
}
