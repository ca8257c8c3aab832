// A program that launches, for the telemetry tests; it knows nothing of CUPTI.
//   telemetry_probe SCENARIO LAUNCHES
#include "tests/shim/end_to_end/telemetry_probe.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
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
  if (scenario == "forks") forks(launches);
  if (scenario == "exits") exits(launches);
}
