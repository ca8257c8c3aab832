// The probe's ways of giving pool memory back, right and wrong, and of ending with moves under way.
#include <sys/resource.h>

#include <thread>
#include <utility>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {
namespace {

CUdeviceptr pooled_piece(CUstream stream) {
  CUdeviceptr memory = 0;
  say("pooled", cuMemAllocAsync(&memory, kBlock, stream));
  cuStreamSynchronize(stream);
  return memory;
}

void free_beside_a_capture(const char* mode_name, CUstreamCaptureMode mode, CUstream stream, CUstream captured) {
  std::printf("beside a capture, %s\n", mode_name);
  CUgraph graph = nullptr;
  const CUdeviceptr memory = pooled_piece(stream);
  const CUdeviceptr other = pooled_piece(stream);
  say("begin", cuStreamBeginCapture_v2(captured, mode));
  say("free", cuMemFree_v2(memory));
  std::thread([other] { say("free by a thread without a context", cuMemFree_v2(other)); }).join();
  say("end", cuStreamEndCapture(captured, &graph));
  if (graph != nullptr) cuGraphDestroy(graph);
  say("free afterwards", cuMemFree_v2(memory));
  say("free afterwards", cuMemFree_v2(other));
}

}  // namespace

// What is no beginning of live pool memory is the driver's to refuse, by either way to free it.
void pool_frees() {
  start();
  CUstream stream = nullptr;
  CUstream captured = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING);
  const CUdeviceptr first = pooled_piece(stream);
  const CUdeviceptr last = pooled_piece(stream);
  for (const CUdeviceptr wrong : {first + 4096, first + kBlock - 1, last + 1, last + kBlock - 512}) {
    say("inside", cuMemFree_v2(wrong));
    say("inside, in order", cuMemFreeAsync(wrong, stream));
  }
  say("free", cuMemFree_v2(first));
  say("again", cuMemFree_v2(first));
  say("again, in order", cuMemFreeAsync(first, stream));
  say("inside what was freed", cuMemFree_v2(first + 4096));
  say("free, in order", cuMemFreeAsync(last, stream));
  say("again, in order", cuMemFreeAsync(last, stream));
  cuStreamSynchronize(stream);
  say("again, when it is over", cuMemFreeAsync(last, stream));
  say("again, when it is over", cuMemFree_v2(last));
  unsigned type = 0;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  say("what was freed is nothing", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, last));
  say("and nowhere", cuMemGetAddressRange_v2(&base, &bytes, last));
  free_beside_a_capture("global", CU_STREAM_CAPTURE_MODE_GLOBAL, stream, captured);
  free_beside_a_capture("thread local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, stream, captured);
  free_beside_a_capture("relaxed", CU_STREAM_CAPTURE_MODE_RELAXED, stream, captured);
  cuStreamDestroy_v2(captured);
  cuStreamDestroy_v2(stream);
  CUmemoryPool pool = nullptr;
  cuDeviceGetDefaultMemPool(&pool, 0);
  say("trim", cuMemPoolTrimTo(pool, 0));
}

// Memory of a pool is the pool's device's, and of a stream's device where no pool is named, whichever is current.
void pools_of_another_device() {
  const Device here = start();
  CUcontext there = nullptr;
  CUstream stream_there = nullptr;
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cuCtxCreate_v2(&there, 0, 1);
  cuStreamCreate(&stream_there, CU_STREAM_NON_BLOCKING);
  const std::size_t before_there = free_on_device();
  cuCtxSetCurrent(here.context);
  const std::size_t before = free_on_device();
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemoryPool made = nullptr;
  CUmemoryPool standard = nullptr;
  say("pool", cuMemPoolCreate(&made, &properties));
  say("default pool", cuDeviceGetDefaultMemPool(&standard, 1));
  CUdeviceptr memory[3] = {};
  say("from the pool", cuMemAllocFromPoolAsync(&memory[0], kBlock, made, stream));
  say("from the default pool", cuMemAllocFromPoolAsync(&memory[1], kBlock, standard, stream));
  say("in the stream", cuMemAllocAsync(&memory[2], kBlock, stream_there));
  say("taken here", (before - free_on_device()) / kMiB);
  cuCtxSetCurrent(there);
  say("taken there", (before_there - free_on_device()) / kMiB);
  cuCtxSetCurrent(here.context);
  for (int i = 0; i < 3; ++i) say("free", cuMemFreeAsync(memory[i], i == 2 ? stream_there : stream));
  cuStreamSynchronize(stream);
  cuStreamSynchronize(stream_there);
  say("taken here", (before - free_on_device()) / kMiB);
  cuCtxSetCurrent(there);
  say("taken there", (before_there - free_on_device()) / kMiB);
  say("destroy", cuMemPoolDestroy(made));
}

// Two mistakes at once: over the budget, and in a stream that is gone. The driver knows of the second.
void too_large_in_a_wrong_stream() {
  start();
  CUstream gone = nullptr;
  CUdeviceptr memory = 0;
  cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING);
  cuStreamDestroy_v2(gone);
  say("too large, and no stream", cuMemAllocAsync(&memory, 200 * kMiB, gone));
}

// What small allocations take of the card is in the budget: blocks, not bytes.
void many_small() {
  start();
  const std::size_t before = free_on_device();
  CUdeviceptr memory[64] = {};
  int held = 0;
  while (held < 64 && cuMemAlloc_v2(&memory[held], held % 2 == 0 ? kMiB + kMiB / 2 : 4096) == CUDA_SUCCESS) ++held;
  say("held", static_cast<std::uint64_t>(held));
  say("taken", (before - free_on_device()) / kMiB);
  for (int i = 0; i < held; ++i) cuMemFree_v2(memory[i]);
  say("free as before", static_cast<std::uint64_t>(free_on_device() == before));
}

// What cannot leave has filled the budget before anything spills; in the end there is room again.
void small_first() {
  const Device device = start();
  CUdeviceptr small[12] = {};
  int held = 0;
  while (held < 12 && cuMemAlloc_v2(&small[held], kMiB + kMiB / 2) == CUDA_SUCCESS) ++held;
  say("small ones", static_cast<std::uint64_t>(held));
  const auto works = [&](CUdeviceptr memory) {
    constexpr std::size_t kBytes = 8 * kMiB;
    float values[2] = {};
    cuMemsetD8_v2(memory, 0, kBytes);
    for (int i = 0; i < 3; ++i) launch_add_one(device, memory, kBytes);
    cuCtxSynchronize();
    cuMemcpyDtoH_v2(&values[0], memory, sizeof(float));
    cuMemcpyDtoH_v2(&values[1], memory + kBytes - sizeof(float), sizeof(float));
    return values[0] == 3 && values[1] == 3 ? 1 : 0;
  };
  CUdeviceptr large[3] = {};
  for (int i = 0; i < 2; ++i) say("large", cuMemAlloc_v2(&large[i], 8 * kMiB));
  for (int i = 0; i < 2; ++i) std::printf("works: %d\n", works(large[i]));
  for (int i = 0; i < held; ++i) cuMemFree_v2(small[i]);
  say("large", cuMemAlloc_v2(&large[2], 8 * kMiB));
  for (int i = 0; i < 3; ++i) std::printf("works: %d\n", works(large[i]));
  for (const CUdeviceptr each : large) say("free", cuMemFree_v2(each));
}

// Not one file can be opened, from before the driver starts.
void without_descriptors() {
  struct rlimit limit {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t before = std::exchange(limit.rlim_cur, 0);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  CUcontext context = nullptr;
  CUdeviceptr memory[2] = {};
  say("init", cuInit(0));
  say("context", cuCtxCreate_v2(&context, 0, 0));
  for (CUdeviceptr& each : memory) say("alloc", cuMemAlloc_v2(&each, 32 * kMiB));
  for (const CUdeviceptr each : memory) say("fill", cuMemsetD8_v2(each, 1, 32 * kMiB));
  for (const CUdeviceptr each : memory) say("free", cuMemFree_v2(each));
  limit.rlim_cur = before;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// So much that its population on the host is not waited for, and the end right after it.
void leaves_at_once() {
  start();
  CUdeviceptr memory = 0;
  say("alloc", cuMemAlloc_v2(&memory, (std::size_t{4} << 30) + 256 * kMiB));
}

}  // namespace spillway::probe
