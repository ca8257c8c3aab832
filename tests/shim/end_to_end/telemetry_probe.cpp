// A program that launches, for the telemetry tests; it knows nothing of CUPTI.
//   telemetry_probe SCENARIO LAUNCHES
#include "tests/shim/end_to_end/telemetry_probe.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>

namespace spillway::probe {
namespace {

bool maps_cupti() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libcupti") != std::string::npos) return true;
  }
  return false;
}

void run(int launches, std::size_t streams) {
  Workload work(12, streams);
  work.launch(launches);
  work.finish();
  std::printf("sum %g\nerror %d\n", static_cast<double>(work.sum()), cuCtxSynchronize());
  std::printf("figure: cupti %s\n", maps_cupti() ? "mapped" : "not mapped");
}

// The same kernels in a graph, among launches of their own.
void graphs(int launches) {
  Workload work(4);
  CUdeviceptr data = 0;
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  cuMemAlloc_v2(&data, 2 * kMiB);
  cuMemsetD8_v2(data, 0, 2 * kMiB);
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  say("begin", cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  for (int i = 0; i < 3; ++i) work.launch_on(data, 1 << 14, stream);
  say("end", cuStreamEndCapture(stream, &graph));
  say("instantiate", cuGraphInstantiateWithFlags(&executable, graph, 0));
  for (int i = 0; i < launches / 8; ++i) {
    work.launch(7);
    cuGraphLaunch(executable, stream);
  }
  work.finish();
  float value = 0;
  cuMemcpyDtoH_v2(&value, data, sizeof value);
  std::printf("sum %g\ngraph %g\n", static_cast<double>(work.sum()), static_cast<double>(value));
  cuGraphExecDestroy(executable);
  cuGraphDestroy(graph);
  cuStreamDestroy_v2(stream);
  cuMemFree_v2(data);
}

// Captures one after the other, launches in them and beside them.
void captures(int launches) {
  Workload work(4);
  CUdeviceptr data = 0;
  CUstream stream = nullptr;
  std::uint64_t nodes = 0;
  std::uint64_t refused = 0;
  cuMemAlloc_v2(&data, 2 * kMiB);
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < launches / 50; ++i) {
    const auto mode = i % 2 == 0 ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    CUgraph graph = nullptr;
    std::size_t count = 0;
    work.launch(40);
    refused += cuStreamBeginCapture_v2(stream, mode) != CUDA_SUCCESS ? 1U : 0U;
    for (int n = 0; n < 3; ++n) refused += work.launch_on(data, 1 << 14, stream) != CUDA_SUCCESS ? 1U : 0U;
    work.launch(7);
    refused += cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS ? 1U : 0U;
    refused += cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS ? 1U : 0U;
    nodes += count;
    cuGraphDestroy(graph);
  }
  work.finish();
  say("nodes", nodes);
  say("refused", refused);
  std::printf("sum %g\n", static_cast<double>(work.sum()));
  cuStreamDestroy_v2(stream);
  cuMemFree_v2(data);
}

// More contexts than one has at a time, on the devices in turn.
void contexts(int launches) {
  constexpr int kContexts = 12;
  int devices = 0;
  for (int i = 0; i < kContexts; ++i) {
    CUcontext context = nullptr;
    {
      Workload work(6, 2, devices == 0 ? 0 : i % devices);
      cuDeviceGetCount(&devices);
      context = work.device().context;
      work.launch(launches / kContexts);
      std::printf("sum %g\n", static_cast<double>(work.sum()));
    }
    say("destroy", cuCtxDestroy_v2(context));
  }
}

// What a launch names says that the second half of the buffers crosses the link thrice as often as the first. But it
// reads next to nothing of it, which only times tell.
void misleads(int iterations) {
  constexpr std::size_t kBytes = 4 * kMiB;
  constexpr int kEach = 8;
  constexpr int kAll = static_cast<int>(kBytes / sizeof(float));
  Workload work(1);
  CUdeviceptr buffers[2 * kEach] = {};
  // In turn, so that some of either kind are on the device at first.
  for (int i = 0; i < 2 * kEach; ++i) {
    CUdeviceptr& buffer = buffers[i % 2 * kEach + i / 2];
    cuMemAlloc_v2(&buffer, kBytes);
    cuMemsetD8_v2(buffer, 0, kBytes);
  }
  const auto launch = [&](CUdeviceptr data, int count, unsigned blocks) {
    void* parameters[] = {&data, &count};
    const CUresult code = cuLaunchKernel(reinterpret_cast<CUfunction>(work.device().add_one), blocks, 1, 1, 256, 1, 1,
                                         0, nullptr, parameters, nullptr);
    if (code != CUDA_SUCCESS) say("launch", code);
  };
  const auto inside = [&](int first) {
    int count = 0;
    for (int i = first; i < first + kEach; ++i) {
      const bool both =
          spillway_simulated_residency(buffers[i]) == 1 && spillway_simulated_residency(buffers[i] + kBytes / 2) == 1;
      count += both ? 1 : 0;
    }
    return count;
  };
  const auto whole = [&](int i) { launch(buffers[i], kAll, kAll / 256); };
  const auto little = [&](int i) { launch(buffers[kEach + i], 256, kAll / 256 + 1); };
  // In no order, so that nothing is planned before times are told: the first plan would send out what is used, and what
  // has never been on the host, timed, says nothing of what it would take there.
  std::minstd_rand random;
  for (int n = 0; n < iterations / 20; ++n) {
    for (int i = 0; i < kEach; ++i) {
      const int buffer = static_cast<int>(random() % kEach);
      random() % 2 == 0 ? whole(buffer) : little(buffer);
    }
    work.finish();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int n = 0; n < iterations && inside(0) < kEach; ++n) {
    for (int i = 0; i < kEach; ++i) whole(i);
    for (int i = 0; i < 3 * kEach; ++i) little(i % kEach);
    work.finish();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  say("really used, on the device", static_cast<std::uint64_t>(inside(0)));
  for (const CUdeviceptr buffer : buffers) cuMemFree_v2(buffer);
}

void forks(int launches) {
  Workload work(4);
  int ended = 0;
  for (int i = 0; i < 20; ++i) {
    work.launch(launches / 20);
    const pid_t child = fork();
    if (child == 0) i % 2 == 0 ? std::exit(5) : _exit(5);
    int status = 0;
    waitpid(child, &status, 0);
    ended += WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 1 : 0;
  }
  std::printf("children %d\nsum %g\n", ended, static_cast<double>(work.sum()));
}

void exits(int launches) {
  auto* work = new Workload(4);
  work->launch(launches);
  std::thread([work] {
    cuCtxSetCurrent(work->device().context);
    for (;;) work->launch(100);
  }).detach();
  std::exit(6);
}

}  // namespace
}  // namespace spillway::probe

int main(int argc, char** argv) {
  using namespace spillway::probe;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string scenario = argc > 1 ? argv[1] : "";
  const int launches = argc > 2 ? std::atoi(argv[2]) : 1000;
  if (scenario == "run") run(launches, 1);
  if (scenario == "streams") run(launches, 3);
  if (scenario == "graphs") graphs(launches);
  if (scenario == "captures") captures(launches);
  if (scenario == "contexts") contexts(launches);
  if (scenario == "misleads") misleads(launches);
  if (scenario == "forks") forks(launches);
  if (scenario == "exits") exits(launches);
}
