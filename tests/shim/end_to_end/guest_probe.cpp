// An ordinary program in the driver API that does one awkward thing after another: memory and what is told of it.
#include "tests/shim/end_to_end/guest_probe.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/simulated_device/test_kernels.hpp"

namespace spillway::probe {

Device start() {
  Device device;
  int image = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&device.context, 0, 0) != CUDA_SUCCESS ||
      cuLibraryLoadData(&device.library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0) != CUDA_SUCCESS ||
      cuLibraryGetKernel(&device.add_one, device.library, kAddOne) != CUDA_SUCCESS) {
    std::fprintf(stderr, "probe: the simulated device does not start\n");
    std::exit(3);
  }
  return device;
}

CUresult launch_add_one(const Device& device, CUdeviceptr data, std::size_t bytes, CUstream stream) {
  int count = static_cast<int>(bytes / sizeof(float));
  void* parameters[] = {&data, &count};
  return cuLaunchKernel(reinterpret_cast<CUfunction>(device.add_one), (static_cast<unsigned>(count) + 255) / 256, 1, 1,
                        256, 1, 1, 0, stream, parameters, nullptr);
}

void null_outputs() {
  start();
  std::size_t pitch = 0;
  CUdeviceptr pointer = 0;
  forwarded("alloc to nowhere", "cuMemAlloc_v2", [] { return cuMemAlloc_v2(nullptr, 4 * kMiB); });
  forwarded("alloc of nothing", "cuMemAlloc_v2", [&] { return cuMemAlloc_v2(&pointer, 0); });
  forwarded("pitched to nowhere", "cuMemAllocPitch_v2",
            [&] { return cuMemAllocPitch_v2(nullptr, &pitch, 4096, 1024, 4); });
  forwarded("pitched without a pitch", "cuMemAllocPitch_v2",
            [&] { return cuMemAllocPitch_v2(&pointer, nullptr, 4096, 1024, 4); });
  forwarded("pitched of odd elements", "cuMemAllocPitch_v2",
            [&] { return cuMemAllocPitch_v2(&pointer, &pitch, 4096, 1024, 3); });
  forwarded("managed to nowhere", "cuMemAllocManaged",
            [] { return cuMemAllocManaged(nullptr, 4 * kMiB, CU_MEM_ATTACH_GLOBAL); });
  forwarded("managed with bad flags", "cuMemAllocManaged", [&] { return cuMemAllocManaged(&pointer, 4 * kMiB, 99); });
  forwarded("ordered to nowhere", "cuMemAllocAsync", [] { return cuMemAllocAsync(nullptr, 4 * kMiB, nullptr); });
  forwarded("physical without properties", "cuMemCreate", [] {
    CUmemGenericAllocationHandle handle = 0;
    return cuMemCreate(&handle, 4 * kMiB, nullptr, 0);
  });
  forwarded("info to nowhere", "cuMemGetInfo_v2", [] { return cuMemGetInfo_v2(nullptr, nullptr); });
  forwarded("attribute to nowhere", "cuPointerGetAttribute",
            [] { return cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_IS_MANAGED, 0); });
  forwarded("export to nowhere", "cuIpcGetMemHandle", [] { return cuIpcGetMemHandle(nullptr, 0); });
}

void frees() {
  start();
  CUdeviceptr memory = 0;
  CUdeviceptr other = 0;
  CUdeviceptr managed = 0;
  CUdeviceptr ordered = 0;
  say("alloc", cuMemAlloc_v2(&memory, 4 * kMiB));
  say("alloc", cuMemAlloc_v2(&other, 4 * kMiB));
  const auto free = [](const char* what, CUdeviceptr address) {
    return forwarded(what, "cuMemFree_v2", [address] { return cuMemFree_v2(address); });
  };
  free("free of nothing", 0);
  free("free inside", memory + 2 * kMiB);
  free("free of a stranger", 0x1234567000);
  free("free", memory);
  free("free again", memory);
  free("free of the other", other);
  say("managed", cuMemAllocManaged(&managed, 4 * kMiB, CU_MEM_ATTACH_GLOBAL));
  free("free of managed", managed);
  free("free of managed again", managed);
  say("ordered", cuMemAllocAsync(&ordered, 4 * kMiB, nullptr));
  free("free of ordered", ordered);
  forwarded("ordered free of freed", "cuMemFreeAsync", [&] { return cuMemFreeAsync(ordered, nullptr); });
  CUdeviceptr plain = 0;
  say("alloc", cuMemAlloc_v2(&plain, 4 * kMiB));
  forwarded("ordered free of alloc", "cuMemFreeAsync", [&] { return cuMemFreeAsync(plain, nullptr); });
  // Not counted: the memory itself may be freed meanwhile.
  say("free of that", cuMemFree_v2(plain));
}

void out_of_memory() {
  const Device device = start();
  std::vector<CUdeviceptr> held;
  CUdeviceptr memory = 0;
  CUresult code = CUDA_SUCCESS;
  while (held.size() < 100 && (code = cuMemAlloc_v2(&memory, 8 * kMiB)) == CUDA_SUCCESS) held.push_back(memory);
  say("refused", code);
  say("held some", static_cast<std::uint64_t>(!held.empty() && held.size() < 100));
  say("no lingering error", cuCtxSynchronize());
  say("launch", launch_add_one(device, held.front(), 8 * kMiB));
  say("free one", cuMemFree_v2(held.back()));
  held.pop_back();
  say("smaller retry", cuMemAlloc_v2(&memory, 4 * kMiB));
  held.push_back(memory);
  for (const CUdeviceptr each : held) {
    if (const CUresult freed = cuMemFree_v2(each); freed != CUDA_SUCCESS) say("free", freed);
  }
}

// As an allocator with a cache does: at the first refusal it drops the cache, then asks again.
void asks_again() {
  start();
  std::vector<CUdeviceptr> held;
  CUdeviceptr memory = 0;
  CUresult code = CUDA_SUCCESS;
  while (held.size() < 6 && (code = cuMemAlloc_v2(&memory, 8 * kMiB)) == CUDA_SUCCESS) held.push_back(memory);
  say("first refusal", code);
  say("held", held.size());
  say("at once again", cuMemAlloc_v2(&memory, 8 * kMiB));
  held.push_back(memory);
  for (const CUdeviceptr each : held) cuMemFree_v2(each);
  say("after the cache is dropped", cuMemAlloc_v2(&memory, 8 * kMiB));
  cuMemFree_v2(memory);
}

void contexts() {
  const Device device = start();
  CUdeviceptr memory = 0;
  CUdeviceptr second = 0;
  std::size_t free_before = 0;
  std::size_t free_after = 0;
  std::size_t total = 0;
  // Everything that is made on first use is there before the figures are compared.
  cuMemAlloc_v2(&memory, 4 * kMiB);
  cuMemFree_v2(memory);
  std::thread([] {
    CUdeviceptr pointer = 0;
    std::size_t free = 0;
    std::size_t all = 0;
    say("thread without a context: alloc", cuMemAlloc_v2(&pointer, 4 * kMiB));
    say("thread without a context: info", cuMemGetInfo_v2(&free, &all));
    say("thread without a context: launch", cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  }).join();
  cuMemGetInfo_v2(&free_before, &total);
  CUcontext popped = nullptr;
  say("alloc", cuMemAlloc_v2(&memory, 4 * kMiB));
  say("pop", cuCtxPopCurrent_v2(&popped));
  say("alloc after pop", cuMemAlloc_v2(&second, 4 * kMiB));
  say("free after pop", cuMemFree_v2(memory));
  say("push", cuCtxPushCurrent_v2(popped));
  say("free after push", cuMemFree_v2(memory));
  CUcontext other = nullptr;
  say("second context", cuCtxCreate_v2(&other, 0, 0));
  say("alloc in it", cuMemAlloc_v2(&second, 4 * kMiB));
  say("destroy it", cuCtxDestroy_v2(other));
  say("back", cuCtxSetCurrent(device.context));
  say("free of its memory", cuMemFree_v2(second));
  CUcontext primary = nullptr;
  say("retain", cuDevicePrimaryCtxRetain(&primary, 0));
  say("enter", cuCtxPushCurrent_v2(primary));
  say("alloc in it", cuMemAlloc_v2(&second, 4 * kMiB));
  say("reset", cuDevicePrimaryCtxReset_v2(0));
  say("alloc after reset", cuMemAlloc_v2(&memory, 4 * kMiB));
  say("leave", cuCtxSetCurrent(device.context));
  say("free of its memory", cuMemFree_v2(second));
  say("release", cuDevicePrimaryCtxRelease_v2(0));
  cuMemGetInfo_v2(&free_after, &total);
  // Figures are the policy's, so a test leaves these lines out when it compares with a bare run.
  std::printf("figure: free before %zu, free after %zu\n", free_before, free_after);
}

void information() {
  start();
  std::size_t free = 0;
  std::size_t total = 0;
  std::size_t device_total = 0;
  say("info", cuMemGetInfo_v2(&free, &total));
  say("total", cuDeviceTotalMem_v2(&device_total, 0));
  say("both totals agree", static_cast<std::uint64_t>(device_total == total));
  say("free is no more than total", static_cast<std::uint64_t>(free <= total));
  std::printf("figure first: %zu of %zu\n", free, total);
  std::vector<CUdeviceptr> held;
  CUdeviceptr memory = 0;
  std::size_t last = free;
  std::uint64_t wrong = 0;
  while (held.size() < 100 && cuMemAlloc_v2(&memory, 4 * kMiB) == CUDA_SUCCESS) {
    held.push_back(memory);
    cuMemGetInfo_v2(&free, &total);
    wrong += free > total || free > last || total != device_total ? 1U : 0U;
    last = free;
  }
  say("wrong figures", wrong);
  std::printf("figure last: %zu of %zu\n", free, total);
  for (const CUdeviceptr each : held) cuMemFree_v2(each);
  cuMemGetInfo_v2(&free, &total);
  std::printf("figure after all: %zu of %zu\n", free, total);
}

void attributes() {
  start();
  CUdeviceptr memory = 0;
  cuMemAlloc_v2(&memory, 8 * kMiB);
  for (const CUdeviceptr at : {memory, memory + 5 * kMiB + 12}) {
    unsigned managed = 7;
    CUmemorytype type{};
    int ordinal = -5;
    void* host = nullptr;
    CUdeviceptr pointer = 0;
    CUdeviceptr range = 0;
    say("managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    say("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    say("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at));
    say("host pointer", cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at));
    say("pointer", cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at));
    say("range", cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    std::printf("managed %u type %d ordinal %d host %d pointer %d range %d\n", managed, static_cast<int>(type), ordinal,
                host != nullptr, pointer == at, range == memory);
    managed = 7;
    type = {};
    ordinal = -5;
    host = &host;
    std::array names{CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_HOST_POINTER};
    std::array<void*, 4> values{&managed, &type, &ordinal, &host};
    say("batch", cuPointerGetAttributes(4, names.data(), values.data(), at));
    std::printf("batch: managed %u type %d ordinal %d host %d\n", managed, static_cast<int>(type), ordinal,
                host != nullptr);
  }
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  say("address range", cuMemGetAddressRange_v2(&base, &bytes, memory + 3 * kMiB));
  std::printf("base %d bytes %zu\n", base == memory, bytes);
  cuMemFree_v2(memory);
}

void sharing() {
  start();
  CUdeviceptr memory = 0;
  CUipcMemHandle handle{};
  cuMemAlloc_v2(&memory, 8 * kMiB);
  say("export", cuIpcGetMemHandle(&handle, memory));
  cuMemFree_v2(memory);
}

void hints() {
  start();
  CUdeviceptr memory = 0;
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  say("managed", cuMemAllocManaged(&memory, 8 * kMiB, CU_MEM_ATTACH_GLOBAL));
  say("advice", cuMemAdvise_v2(memory, 8 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  say("prefetch", cuMemPrefetchAsync_v2(memory, 4 * kMiB, device, 0, nullptr));
  say("prefetch", cuMemPrefetchAsync_v2(memory + 4 * kMiB, 4 * kMiB, host, 0, nullptr));
  say("done", cuCtxSynchronize());
  unsigned managed = 0;
  say("is managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
  std::printf("managed %u, first half %d, second half %d\n", managed, spillway_simulated_residency(memory),
              spillway_simulated_residency(memory + 4 * kMiB));
  say("advices", spillway_simulated_calls("cuMemAdvise_v2"));
  say("prefetches", spillway_simulated_calls("cuMemPrefetchAsync_v2"));
  say("free", cuMemFree_v2(memory));
}

}  // namespace spillway::probe

int main(int argc, char** argv) {
  using namespace spillway::probe;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string name = argc > 1 ? argv[1] : "";
  const char* argument = argc > 2 ? argv[2] : "";
  // As the CUDA runtime does, before anything is called.
  if (std::getenv("PROBE_LOOKS_UP") != nullptr) dlsym(RTLD_DEFAULT, "cuInit");
  if (name == "ends") return ends(argument), 0;
  if (name == "work") return work(argument), 0;
  if (name == "graph_replays") return graph_replays(argument), 0;
  if (name == "watched") return watched(argument), 0;
  if (name == "cancels_in_the_driver") return cancels_in_the_driver(argument), 0;
  if (name == "loads_library") return loads_library(argument), 0;
  if (name == "library_memory") return library_memory(argument), 0;
  if (name == "error_reused") return error_reused(argument), 0;
  if (name == "error_closed") return error_closed(argument), 0;
  const std::map<std::string, void (*)()> scenarios{{"null_outputs", null_outputs},
                                                    {"frees", frees},
                                                    {"out_of_memory", out_of_memory},
                                                    {"asks_again", asks_again},
                                                    {"contexts", contexts},
                                                    {"launches", launches},
                                                    {"capture", capture},
                                                    {"captures_under_pressure", captures_under_pressure},
                                                    {"first_spill_in_a_capture", first_spill_in_a_capture},
                                                    {"remaps", remaps},
                                                    {"imports", imports},
                                                    {"captures_begin_and_end", captures_begin_and_end},
                                                    {"own_managed", own_managed},
                                                    {"never_starts", never_starts},
                                                    {"bad_attributes", bad_attributes},
                                                    {"mapped", mapped},
                                                    {"mapped_spills", mapped_spills},
                                                    {"mapped_stays", mapped_stays},
                                                    {"mapped_then_small", mapped_then_small},
                                                    {"imports_ipc", imports_ipc},
                                                    {"pools_spill", pools_spill},
                                                    {"pools_order", pools_order},
                                                    {"pools_look", pools_look},
                                                    {"pools_end", pools_end},
                                                    {"pools_threads", pools_threads},
                                                    {"pools_too_large", pools_too_large},
                                                    {"pools_held_elsewhere", pools_held_elsewhere},
                                                    {"pools_in_a_query", pools_in_a_query},
                                                    {"frees_in_a_query", frees_in_a_query},
                                                    {"pools_refusals", pools_refusals},
                                                    {"pools_contexts_end", pools_contexts_end},
                                                    {"spilled_held", spilled_held},
                                                    {"pools_held_at_the_end", pools_held_at_the_end},
                                                    {"pools", pools},
                                                    {"information", information},
                                                    {"attributes", attributes},
                                                    {"sharing", sharing},
                                                    {"hints", hints},
                                                    {"forks", forks},
                                                    {"forks_first", forks_first},
                                                    {"forks_execs", forks_execs},
                                                    {"ends_by_threads", ends_by_threads},
                                                    {"cancels_threads", cancels_threads},
                                                    {"captures_end_early", captures_end_early},
                                                    {"captures_own_stream", captures_own_stream},
                                                    {"ends_contexts", ends_contexts},
                                                    {"raw_forks", raw_forks},
                                                    {"asks_without_memory", asks_without_memory},
                                                    {"forks_and_calls", forks_and_calls},
                                                    {"reader_gone", reader_gone},
                                                    {"wrong_and_too_large", wrong_and_too_large},
                                                    {"captured_allocation", captured_allocation},
                                                    {"hints_on_plain", hints_on_plain},
                                                    {"asks_during_a_free", asks_during_a_free},
                                                    {"takes_room_away", takes_room_away},
                                                    {"asks_at_the_start", asks_at_the_start},
                                                    {"churns", churns},
                                                    {"far_too_much", far_too_much},
                                                    {"pool_frees", pool_frees},
                                                    {"pools_of_another_device", pools_of_another_device},
                                                    {"too_large_in_a_wrong_stream", too_large_in_a_wrong_stream},
                                                    {"many_small", many_small},
                                                    {"small_first", small_first},
                                                    {"without_descriptors", without_descriptors},
                                                    {"leaves_at_once", leaves_at_once}};
  const auto scenario = scenarios.find(name);
  if (scenario == scenarios.end()) {
    std::fprintf(stderr, "probe: no scenario %s\n", name.c_str());
    return 2;
  }
  scenario->second();
  std::printf("end\n");
}
