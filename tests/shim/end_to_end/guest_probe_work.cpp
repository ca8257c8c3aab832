// The probe's launches, capture, map-style and pool memory, forks and ends.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {
namespace {

// Some rounds of launches over twelve buffers; what they hold afterwards.
float rounds(const Device& device, int count) {
  std::vector<CUdeviceptr> buffers;
  for (int i = 0; i < 6; ++i) buffers.push_back(zeroed(4 * kMiB));
  for (int round = 0; round < count; ++round) {
    for (const CUdeviceptr buffer : buffers) launch_add_one(device, buffer, 4 * kMiB);
  }
  float sum = 0;
  for (const CUdeviceptr buffer : buffers) sum += first_value(buffer);
  for (const CUdeviceptr buffer : buffers) cuMemFree_v2(buffer);
  return sum;
}

}  // namespace

void launches() {
  const Device device = start();
  const auto function = reinterpret_cast<CUfunction>(device.add_one);
  CUdeviceptr data = zeroed(4 * kMiB);
  int count = static_cast<int>(kMiB);
  void* parameters[] = {&data, &count};
  say("plain", cuLaunchKernel(function, 4096, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
  CUlaunchConfig config{};
  config.gridDimX = 4096;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 256;
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  say("extended", cuLaunchKernelEx(&config, function, parameters, nullptr));
  say("cooperative", cuLaunchCooperativeKernel(function, 4096, 1, 1, 256, 1, 1, 0, nullptr, parameters));
  struct {
    CUdeviceptr data;
    int count;
  } packed{data, count};
  std::size_t packed_bytes = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &packed_bytes,
                   CU_LAUNCH_PARAM_END};
  say("packed", cuLaunchKernel(function, 4096, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra));
  const auto per_thread = reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(RTLD_DEFAULT, "cuLaunchKernel_ptsz"));
  say("per thread", per_thread(function, 4096, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
  cuCtxSynchronize();
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  say("begin", cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  say("captured", cuLaunchKernel(function, 4096, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr));
  say("captured", cuLaunchKernel(function, 4096, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr));
  say("end", cuStreamEndCapture(stream, &graph));
  say("instantiate", cuGraphInstantiateWithFlags(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) say("graph", cuGraphLaunch(executable, stream));
  say("refused", cuLaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr));
  cuCtxSynchronize();
  std::printf("value %g\n", static_cast<double>(first_value(data)));
  cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
  cuStreamDestroy_v2(stream);
  cuMemFree_v2(data);
}

void capture() {
  const Device device = start();
  const CUdeviceptr data = zeroed(4 * kMiB);
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (const CUstreamCaptureMode kind :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    say("begin", cuStreamBeginCapture_v2(stream, kind));
    say("launch", launch_add_one(device, data, 4 * kMiB, stream));
    // As caching allocators do it.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    say("relax", cuThreadExchangeStreamCaptureMode(&mode));
    CUdeviceptr inside = 0;
    say("alloc within", cuMemAlloc_v2(&inside, 4 * kMiB));
    say("back", cuThreadExchangeStreamCaptureMode(&mode));
    say("mode was", static_cast<std::uint64_t>(mode));
    say("launch", launch_add_one(device, inside, 4 * kMiB, stream));
    say("end", cuStreamEndCapture(stream, &graph));
    std::size_t nodes = 0;
    say("nodes", cuGraphGetNodes(graph, nullptr, &nodes));
    std::printf("node count %zu\n", nodes);
    CUgraphExec executable = nullptr;
    say("instantiate", cuGraphInstantiateWithFlags(&executable, graph, 0));
    say("memset", cuMemsetD8_v2(inside, 0, 4 * kMiB));
    say("launch", cuGraphLaunch(executable, stream));
    say("done", cuStreamSynchronize(stream));
    std::printf("values %g %g\n", static_cast<double>(first_value(data)), static_cast<double>(first_value(inside)));
    cuGraphExecDestroy(executable);
    cuGraphDestroy(graph);
    cuMemFree_v2(inside);
  }
  cuStreamDestroy_v2(stream);
  cuMemFree_v2(data);
}

void mapped() {
  start();
  const CUmemAllocationProp properties = on_device();
  std::vector<CUmemGenericAllocationHandle> held;
  CUmemGenericAllocationHandle handle = 0;
  CUresult code = CUDA_SUCCESS;
  while (held.size() < 100 && (code = cuMemCreate(&handle, 4 * kMiB, &properties, 0)) == CUDA_SUCCESS) {
    held.push_back(handle);
  }
  say("refused", code);
  std::printf("held %zu\n", held.size());
  CUdeviceptr range = 0;
  say("reserve", cuMemAddressReserve(&range, 8 * kMiB, 0, 0, 0));
  say("map", cuMemMap(range, 4 * kMiB, 0, held[0], 0));
  say("map", cuMemMap(range + 4 * kMiB, 4 * kMiB, 0, held[1], 0));
  say("release", cuMemRelease(held[0]));
  say("still mapped, so still counted", cuMemCreate(&handle, 4 * kMiB, &properties, 0));
  say("unmap", cuMemUnmap(range, 8 * kMiB));
  say("one came back", cuMemCreate(&handle, 4 * kMiB, &properties, 0));
  held[0] = handle;
  say("not two", cuMemCreate(&handle, 4 * kMiB, &properties, 0));
  say("free range", cuMemAddressFree(range, 8 * kMiB));
  for (const CUmemGenericAllocationHandle each : held) {
    if (cuMemRelease(each) != CUDA_SUCCESS) std::printf("release failed\n");
  }
}

void pools() {
  start();
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  std::vector<CUdeviceptr> held;
  CUdeviceptr memory = 0;
  CUresult code = CUDA_SUCCESS;
  while (held.size() < 100 && (code = cuMemAllocAsync(&memory, 4 * kMiB, stream)) == CUDA_SUCCESS) {
    held.push_back(memory);
  }
  say("refused", code);
  std::printf("held %zu\n", held.size());
  say("free", cuMemFreeAsync(held.back(), stream));
  held.pop_back();
  say("again", cuMemAllocAsync(&memory, 4 * kMiB, stream));
  held.push_back(memory);
  for (const CUdeviceptr each : held) {
    if (cuMemFreeAsync(each, stream) != CUDA_SUCCESS) std::printf("free failed\n");
  }
  say("done", cuStreamSynchronize(stream));
}

void work(const char* count) {
  const Device device = start();
  std::printf("sum %g\n", static_cast<double>(rounds(device, std::atoi(count))));
}

// Spills, says so, and waits for the end of standard input.
void watched(const char* how) {
  const Device device = start();
  const std::string what = how;
  CUdeviceptr memory[2] = {};
  for (CUdeviceptr& each : memory) say("allocate", cuMemAlloc_v2(&each, 16 * kMiB));
  rounds(device, 5);
  if (what == "closes") close_range(3, ~0U, 0);
  pid_t child = 0;
  if (what == "forks" && (child = fork()) == 0) {
    std::printf("child %d\n", static_cast<int>(getpid()));
    while (getchar() != EOF) {
    }
    _exit(0);
  }
  std::printf("ready\n");
  while (getchar() != EOF) {
  }
  if (child != 0) waitpid(child, nullptr, 0);
  for (const CUdeviceptr each : memory) say("free", cuMemFree_v2(each));
  std::printf("sum %g\n", static_cast<double>(rounds(device, 1)));
}

// A child without CUDA, one that starts it anew, one that execs; before and after the parent's CUDA, threads running.
void forks_first() {
  const pid_t child = fork();
  if (child == 0) {
    const Device device = start();
    std::printf("child sum %g\n", static_cast<double>(rounds(device, 2)));
    std::exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  const Device device = start();
  std::printf("sum %g\n", static_cast<double>(rounds(device, 2)));
}

void forks() {
  const Device device = start();
  std::atomic<bool> stop{false};
  std::thread other([&] {
    cuCtxSetCurrent(device.context);
    while (!stop) rounds(device, 1);
  });
  int ended = 0;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (i % 4 == 0) std::exit(5);
      if (i % 4 == 1) _exit(5);
      if (i % 4 == 2) execl("/bin/sh", "sh", "-c", "exit 5", nullptr);
      std::exit(5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ended += WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 1 : 0;
  }
  std::printf("children %d\n", ended);
  stop = true;
  other.join();
  std::printf("sum %g\n", static_cast<double>(rounds(device, 3)));
}

// A child that becomes another program with a run of its own, while the parent's goes on.
void forks_execs() {
  const Device device = start();
  std::printf("sum %g\n", static_cast<double>(rounds(device, 2)));
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) execl("/proc/self/exe", "probe", "work", "3", nullptr);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  std::printf("sum %g\n", static_cast<double>(rounds(device, 2)));
}

void ends(const char* way) {
  const std::string how = way;
  const Device device = start();
  if (how == "early_abort" || how == "early_exit") {
    CUdeviceptr memory = 0;
    for (int i = 0; i < 20; ++i) cuMemAlloc_v2(&memory, kMiB);
    if (how == "early_exit") _exit(6);
    std::abort();
  }
  std::printf("sum %g\n", static_cast<double>(rounds(device, 5)));
  std::fflush(stdout);
  // What is older than a second must be in the trace whatever happens now.
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  if (how == "return") return;
  if (how == "exit") std::exit(6);
  if (how == "_exit") _exit(6);
  if (how == "abort") std::abort();
  if (how == "term") raise(SIGTERM);
  if (how == "kill") raise(SIGKILL);
  if (how == "thread") {
    // Exit while another thread goes on launching.
    std::thread([device] {
      cuCtxSetCurrent(device.context);
      for (;;) rounds(device, 1);
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::exit(6);
  }
}

}  // namespace spillway::probe
