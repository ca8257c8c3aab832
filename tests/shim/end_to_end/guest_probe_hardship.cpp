// The probe's hardships: what every program counts on is missing, or something happens at a bad time.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {

// Begins anew with a pipe for standard error that nobody reads.
void reader_gone() {
  int ends[2] = {};
  if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) std::exit(3);
  close(ends[0]);
  close(ends[1]);
  execl("/proc/self/exe", "probe", "work", "3", nullptr);
}

// A program that closes standard error and opens a file.
void error_reused(const char* path) {
  close(STDERR_FILENO);
  say("its number", static_cast<std::uint64_t>(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600)));
  work("2");
}

// The same, begun anew without standard error.
void error_closed(const char* path) {
  close(STDERR_FILENO);
  execl("/proc/self/exe", "probe", "error_reused", path, nullptr);
}

// Children that run no fork handlers, and exit.
void raw_forks() {
  work("3");
  for (const bool by_call : {true, false}) {
    const pid_t child =
        by_call ? static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)) : _Fork();
    if (child == 0) std::exit(5);
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
}

// Its constructor waits for a thread that allocates.
void loads_library(const char* path) {
  start();
  say("loaded", static_cast<std::uint64_t>(dlopen(path, RTLD_NOW) != nullptr));
}

// The main thread ends first, another later; then nothing of the program is left but its exit handlers.
void ends_by_threads() {
  const Device device = start();
  std::atexit([] { std::printf("exit handler\n"); });
  std::thread([device] {
    cuCtxSetCurrent(device.context);
    CUdeviceptr memory = 0;
    // Long enough for an end that comes too early to be seen.
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    say("alloc", cuMemAlloc_v2(&memory, 8 * kMiB));
    say("free", cuMemFree_v2(memory));
  }).detach();
  pthread_exit(nullptr);
}

// A capture on the thread's default stream: three launches that do not run, then two that do.
void captures_own_stream() {
  const Device device = start();
  const auto twin = [](const char* name, auto* like) {
    return reinterpret_cast<decltype(like)>(dlsym(RTLD_DEFAULT, name));
  };
  const auto begin = twin("cuStreamBeginCapture_v2_ptsz", &cuStreamBeginCapture_v2);
  const auto end = twin("cuStreamEndCapture_ptsz", &cuStreamEndCapture);
  const auto launch = twin("cuLaunchKernel_ptsz", &cuLaunchKernel);
  CUdeviceptr data = 0;
  CUgraph graph = nullptr;
  cuMemAlloc_v2(&data, 4 * kMiB);
  int count = static_cast<int>(kMiB);
  void* parameters[] = {&data, &count};
  const auto launches = [&](int number) {
    for (int i = 0; i < number; ++i) {
      say("launch",
          launch(reinterpret_cast<CUfunction>(device.add_one), 4096, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr));
    }
  };
  say("begin", begin(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
  launches(3);
  say("end", end(nullptr, &graph));
  launches(2);
  cuCtxSynchronize();
  cuGraphDestroy(graph);
  cuMemFree_v2(data);
}

// After each end of a context a handle may be another kernel's.
void ends_contexts() {
  const Device device = start();
  CUdeviceptr data = 0;
  CUcontext other = nullptr;
  cuMemAlloc_v2(&data, 4 * kMiB);
  say("launch", launch_add_one(device, data, 4 * kMiB));
  say("launch", launch_add_one(device, data, 4 * kMiB));
  cuCtxCreate_v2(&other, 0, 0);
  say("destroy", cuCtxDestroy_v2(other));
  cuCtxSetCurrent(device.context);
  say("launch", launch_add_one(device, data, 4 * kMiB));
  cuDevicePrimaryCtxRetain(&other, 0);
  say("reset", cuDevicePrimaryCtxReset_v2(0));
  say("launch", launch_add_one(device, data, 4 * kMiB));
  cuMemFree_v2(data);
}

}  // namespace spillway::probe
