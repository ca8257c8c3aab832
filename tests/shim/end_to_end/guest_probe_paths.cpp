// The probe's ways past a budget, and what belongs to somebody else: captures while memory is short, mappings that
// change, imports, managed memory of its own, a library's memory, a program that never starts CUDA.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {
namespace {

constexpr std::size_t kManyBlocks = 12;  // twice the tests' budget, and less than the card

std::vector<CUdeviceptr> many_blocks() {
  std::vector<CUdeviceptr> blocks;
  while (blocks.size() < kManyBlocks) blocks.push_back(zeroed(kBlock));
  return blocks;
}

double sum_of_first(const std::vector<CUdeviceptr>& blocks) {
  double sum = 0;
  for (const CUdeviceptr block : blocks) sum += static_cast<double>(first_value(block));
  return sum;
}

// Launches on a stream of its own while another thread captures; memory it asks for as caching allocators do.
void work_beside_a_capture(const Device& device, const std::vector<CUdeviceptr>& blocks, CUdeviceptr& inside) {
  CUstream stream = nullptr;
  cuCtxSetCurrent(device.context);
  say("beside: stream", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::uint64_t failed = 0;
  for (int round = 0; round < 3; ++round) {
    for (const CUdeviceptr block : blocks) {
      if (launch_add_one(device, block, kBlock, stream) != CUDA_SUCCESS) ++failed;
    }
  }
  say("beside: failed launches", failed);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  say("beside: relax", cuThreadExchangeStreamCaptureMode(&mode));
  say("beside: alloc", cuMemAlloc_v2(&inside, kBlock));
  say("beside: back", cuThreadExchangeStreamCaptureMode(&mode));
  say("beside: done", cuStreamSynchronize(stream));
}

CUresult map_at(CUdeviceptr place, CUmemGenericAllocationHandle handle) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (const CUresult code = cuMemMap(place, kBlock, 0, handle, 0); code != CUDA_SUCCESS) return code;
  return cuMemSetAccess(place, kBlock, &access, 1);
}

}  // namespace

// Each mode of capture, of launches on more memory than the budget holds, with another thread at work.
void captures_under_pressure() {
  const Device device = start();
  const std::vector<CUdeviceptr> blocks = many_blocks();
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (const CUstreamCaptureMode kind :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CUdeviceptr inside = 0;
    std::size_t nodes = 0;
    say("begin", cuStreamBeginCapture_v2(stream, kind));
    for (const CUdeviceptr block : blocks) {
      if (launch_add_one(device, block, kBlock, stream) != CUDA_SUCCESS) std::printf("a captured launch failed\n");
    }
    std::thread([&] { work_beside_a_capture(device, blocks, inside); }).join();
    say("end", cuStreamEndCapture(stream, &graph));
    say("count", cuGraphGetNodes(graph, nullptr, &nodes));
    std::printf("node count %zu\n", nodes);
    say("instantiate", cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int i = 0; i < 2; ++i) say("graph", cuGraphLaunch(executable, stream));
    say("done", cuStreamSynchronize(stream));
    std::printf("sum %g\n", sum_of_first(blocks));
    cuGraphExecDestroy(executable);
    cuGraphDestroy(graph);
    say("free", cuMemFree_v2(inside));
  }
  for (const CUdeviceptr block : blocks) cuMemFree_v2(block);
  cuStreamDestroy_v2(stream);
}

// Another thread launches all the while.
void captures_begin_and_end() {
  const Device device = start();
  const std::vector<CUdeviceptr> blocks = many_blocks();
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    cuCtxSetCurrent(device.context);
    CUstream beside = nullptr;
    cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING);
    while (!stop) {
      for (const CUdeviceptr block : blocks) launch_add_one(device, block, kBlock, beside);
    }
  });
  for (int i = 0; i < 3; ++i) {
    CUgraph graph = nullptr;
    say("begin", cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    say("launch", launch_add_one(device, blocks[0], kBlock, stream));
    say("end", cuStreamEndCapture(stream, &graph));
    cuGraphDestroy(graph);
  }
  stop = true;
  other.join();
}

// Memory gets short for the first time while a capture is under way: whatever that starts must not disturb it.
void first_spill_in_a_capture() {
  const Device device = start();
  const CUdeviceptr data = zeroed(kBlock);
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  std::vector<CUdeviceptr> blocks;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  say("begin", cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  say("captured", launch_add_one(device, data, kBlock, stream));
  std::thread([&] {
    cuCtxSetCurrent(device.context);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuThreadExchangeStreamCaptureMode(&mode);
    CUstream beside = nullptr;
    cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING);
    CUdeviceptr block = 0;
    while (blocks.size() < kManyBlocks && cuMemAlloc_v2(&block, kBlock) == CUDA_SUCCESS) {
      blocks.push_back(block);
      say("clear", cuMemsetD8Async(block, 0, kBlock, beside));
    }
    cuThreadExchangeStreamCaptureMode(&mode);
    for (int round = 0; round < 2; ++round) {
      for (const CUdeviceptr each : blocks) say("beside", launch_add_one(device, each, kBlock, beside));
    }
    say("beside: done", cuStreamSynchronize(beside));
  }).join();
  say("captured", launch_add_one(device, blocks.front(), kBlock, stream));
  say("end", cuStreamEndCapture(stream, &graph));
  std::size_t nodes = 0;
  say("count", cuGraphGetNodes(graph, nullptr, &nodes));
  std::printf("node count %zu\n", nodes);
  CUgraphExec executable = nullptr;
  say("instantiate", cuGraphInstantiateWithFlags(&executable, graph, 0));
  say("graph", cuGraphLaunch(executable, stream));
  say("done", cuStreamSynchronize(stream));
  std::printf("sum %g\n", sum_of_first(blocks) + sum_of_first({data}));
  cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
  for (const CUdeviceptr each : blocks) cuMemFree_v2(each);
  cuMemFree_v2(data);
}

// Two physical pieces take turns in one range: what is there is always the piece that is mapped.
void remaps() {
  const Device device = start();
  const CUmemAllocationProp properties = on_device(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemGenericAllocationHandle first = 0;
  CUmemGenericAllocationHandle second = 0;
  CUdeviceptr range = 0;
  cuMemFree_v2(zeroed(kBlock));  // what is made on first use is there before free memory is compared
  const std::size_t before = free_on_device();
  say("create", cuMemCreate(&first, kBlock, &properties, 0));
  say("create", cuMemCreate(&second, kBlock, &properties, 0));
  say("reserve", cuMemAddressReserve(&range, kBlock, 0, 0, 0));
  for (int turn = 0; turn < 6; ++turn) {
    say("map", map_at(range, turn % 2 == 0 ? first : second));
    if (turn < 2) say("clear", cuMemsetD8_v2(range, 0, kBlock));
    for (int i = 0; i <= turn; ++i) say("launch", launch_add_one(device, range, kBlock));
    std::printf("value %g\n", sum_of_first({range}));
    say("unmap", cuMemUnmap(range, kBlock));
  }
  say("release", cuMemRelease(first));
  say("release", cuMemRelease(second));
  say("free range", cuMemAddressFree(range, kBlock));
  // The place may be given to an allocation now.
  const CUdeviceptr after = zeroed(kBlock);
  say("launch", launch_add_one(device, after, kBlock));
  std::printf("value %g\n", sum_of_first({after}));
  say("free", cuMemFree_v2(after));
  std::printf("all came back %d\n", free_on_device() == before);
}

// Physical memory that goes out by a file and comes in again, and imports that the driver refuses.
void imports() {
  const Device device = start();
  const CUmemAllocationProp properties = on_device(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemGenericAllocationHandle made = 0;
  CUmemGenericAllocationHandle imported = 0;
  CUdeviceptr range = 0;
  int file = -1;
  cuMemFree_v2(zeroed(kBlock));
  const std::size_t before = free_on_device();
  const auto as_handle = [](int number) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(number)); };
  say("create", cuMemCreate(&made, kBlock, &properties, 0));
  say("export", cuMemExportToShareableHandle(&file, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  say("import", cuMemImportFromShareableHandle(&imported, as_handle(file), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  say("reserve", cuMemAddressReserve(&range, 2 * kBlock, 0, 0, 0));
  say("map", map_at(range, made));
  say("map", map_at(range + kBlock, imported));
  say("clear", cuMemsetD8_v2(range, 0, kBlock));
  say("launch", launch_add_one(device, range, kBlock));
  say("launch", launch_add_one(device, range + kBlock, kBlock));
  std::printf("both are one memory: %g\n", sum_of_first({range, range + kBlock}));
  say("unmap", cuMemUnmap(range, 2 * kBlock));
  forwarded("release", "cuMemRelease", [&] { return cuMemRelease(made); });
  forwarded("release", "cuMemRelease", [&] { return cuMemRelease(imported); });
  forwarded("release again", "cuMemRelease", [&] { return cuMemRelease(imported); });
  say("free range", cuMemAddressFree(range, 2 * kBlock));
  forwarded("import of nothing", "cuMemImportFromShareableHandle", [&] {
    return cuMemImportFromShareableHandle(&imported, as_handle(-1), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  });
  CUexternalMemory external = nullptr;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description{};
  description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = -1;
  description.size = kBlock;
  forwarded("external", "cuImportExternalMemory", [&] { return cuImportExternalMemory(&external, &description); });
  std::printf("all came back %d\n", free_on_device() == before);
}

// Managed memory of the program's own, with its own hints, while there is more of the rest than the budget holds.
void own_managed() {
  const Device device = start();
  CUdeviceptr own = 0;
  const CUmemLocation card{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  say("managed", cuMemAllocManaged(&own, 2 * kBlock, CU_MEM_ATTACH_GLOBAL));
  say("clear", cuMemsetD8_v2(own, 0, 2 * kBlock));
  forwarded("advice", "cuMemAdvise_v2",
            [&] { return cuMemAdvise_v2(own + kBlock, kBlock, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host); });
  say("prefetch", cuMemPrefetchAsync_v2(own, kBlock, card, 0, nullptr));
  say("prefetch", cuMemPrefetchAsync_v2(own + kBlock, kBlock, host, 0, nullptr));
  say("done", cuCtxSynchronize());
  const std::vector<CUdeviceptr> blocks = many_blocks();
  for (int round = 0; round < 4; ++round) {
    for (const CUdeviceptr block : blocks) launch_add_one(device, block, kBlock);
    launch_add_one(device, own, kBlock);
  }
  say("done", cuCtxSynchronize());
  unsigned managed = 0;
  say("is managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, own));
  std::printf("managed %u, first half %d, second half %d, sum %g\n", managed, spillway_simulated_residency(own),
              spillway_simulated_residency(own + kBlock), sum_of_first(blocks) + sum_of_first({own}));
  int preferred = 0;
  say("preferred", cuMemRangeGetAttribute(&preferred, sizeof preferred, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                          own + kBlock, kBlock));
  std::printf("preferred %d\n", preferred);
  for (const CUdeviceptr block : blocks) cuMemFree_v2(block);
  say("free", cuMemFree_v2(own));
}

// A library's memory and the program's, both more than fits: which of them can be shared?
void library_memory(const char* path) {
  start();
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr*, std::size_t)>(
      library == nullptr ? nullptr : dlsym(library, "collective_buffer"));
  if (allocate == nullptr) std::exit(3);
  CUdeviceptr buffer = 0;
  CUipcMemHandle handle{};
  say("library's alloc", allocate(&buffer, 2 * kBlock));
  const std::vector<CUdeviceptr> blocks = many_blocks();
  say("library's export", cuIpcGetMemHandle(&handle, buffer));
  say("program's export", cuIpcGetMemHandle(&handle, blocks.back()));
  for (const CUdeviceptr block : blocks) cuMemFree_v2(block);
  say("free", cuMemFree_v2(buffer));
}

// Asks what can be asked without CUDA, and calls too early.
void never_starts() {
  int version = 0;
  const char* name = nullptr;
  CUdeviceptr memory = 0;
  say("version", cuDriverGetVersion(&version));
  say("name", cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name));
  say("alloc", cuMemAlloc_v2(&memory, kBlock));
  std::thread([&] { say("alloc of a thread", cuMemAlloc_v2(&memory, kBlock)); }).join();
  say("started", spillway_simulated_calls("cuInit"));
  say("contexts", spillway_simulated_calls("cuCtxCreate_v2") + spillway_simulated_calls("cuDevicePrimaryCtxRetain"));
}

// A list of attributes that is not there: the driver has to see the count as it was given.
void bad_attributes() {
  const Device device = start();
  const CUdeviceptr data = zeroed(kBlock);
  CUdeviceptr pointer = data;
  int count = static_cast<int>(kMiB);
  void* parameters[] = {&pointer, &count};
  CUlaunchConfig config{};
  config.gridDimX = 4096;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 256;
  const auto function = reinterpret_cast<CUfunction>(device.add_one);
  const auto launch = [&](const char* what) {
    forwarded(what, "cuLaunchKernelEx", [&] { return cuLaunchKernelEx(&config, function, parameters, nullptr); });
  };
  launch("without attributes");
  config.numAttrs = 1;
  launch("an attribute without a list");
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attribute.value.priority = -1;
  config.attrs = &attribute;
  launch("with one");
  std::printf("attribute %d %d, value %g\n", static_cast<int>(attribute.id), attribute.value.priority,
              sum_of_first({data}));
  cuMemFree_v2(data);
}

}  // namespace spillway::probe
