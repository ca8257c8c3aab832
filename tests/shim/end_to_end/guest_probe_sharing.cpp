// The probe's memory that comes from another process, what it asks for when map-style memory has filled the budget, and
// a graph over memory that came last.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {

// The child opens what the parent exports; both have started CUDA for themselves.
void imports_ipc() {
  int pipes[2];
  if (pipe(pipes) != 0) std::exit(3);
  const pid_t child = fork();
  CUipcMemHandle handle{};
  CUdeviceptr memory = 0;
  if (child == 0) {
    if (read(pipes[0], &handle, sizeof handle) != sizeof handle) std::exit(3);
    const Device device = start();
    say("open", cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    say("launch", launch_add_one(device, memory, 8 * kMiB));
    say("done", cuCtxSynchronize());
    forwarded("close", "cuIpcCloseMemHandle", [&] { return cuIpcCloseMemHandle(memory); });
    forwarded("close again", "cuIpcCloseMemHandle", [&] { return cuIpcCloseMemHandle(memory); });
    std::exit(0);
  }
  start();
  say("alloc", cuMemAlloc_v2(&memory, 8 * kMiB));
  say("export", cuIpcGetMemHandle(&handle, memory));
  if (write(pipes[1], &handle, sizeof handle) != sizeof handle) std::exit(3);
  int status = 0;
  waitpid(child, &status, 0);
  say("child", static_cast<std::uint64_t>(status));
  say("free", cuMemFree_v2(memory));
}

// As a program does that reserves its working memory first, and finds out later that it needs a counter.
void mapped_then_small() {
  start();
  const CUmemAllocationProp properties = on_device();
  std::vector<CUmemGenericAllocationHandle> held(12);
  for (CUmemGenericAllocationHandle& handle : held) say("create", cuMemCreate(&handle, 4 * kMiB, &properties, 0));
  CUdeviceptr counter = 0;
  say("small", cuMemAlloc_v2(&counter, 8));
  say("free", cuMemFree_v2(counter));
  for (const CUmemGenericAllocationHandle handle : held) say("release", cuMemRelease(handle));
}

// What the graph uses was asked for last, when HBM was full of what nothing uses: `replays` of it, each waited for.
void graph_replays(const char* replays) {
  const Device device = start();
  constexpr std::size_t kBytes = 32 * kMiB;
  CUdeviceptr cold = 0;
  CUdeviceptr hot = 0;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  say("alloc", cuMemAlloc_v2(&cold, kBytes));
  say("alloc", cuMemAlloc_v2(&hot, kBytes));
  cuMemsetD8_v2(hot, 0, kBytes);
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  for (int i = 0; i < 12; ++i) launch_add_one(device, hot, kBytes, stream);
  cuStreamEndCapture(stream, &graph);
  say("instantiate", cuGraphInstantiateWithFlags(&executable, graph, 0));
  const auto resident = [hot] {
    std::uint64_t chunks = 0;
    for (std::size_t at = 0; at < kBytes; at += 2 * kMiB) chunks += spillway_simulated_residency(hot + at) == 1;
    return chunks;
  };
  std::printf("figure: resident before %llu\n", static_cast<unsigned long long>(resident()));
  for (int i = 0; i < std::atoi(replays); ++i) {
    cuGraphLaunch(executable, stream);
    cuStreamSynchronize(stream);
  }
  // Moves go on by themselves; a program that hangs here is ended by its test.
  while (resident() < kBytes / (2 * kMiB)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::printf("figure: resident after %llu\n", static_cast<unsigned long long>(resident()));
  cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
  cuMemFree_v2(hot);
  cuMemFree_v2(cold);
}

}  // namespace spillway::probe
