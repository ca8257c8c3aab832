// The probe's hardships: what every program counts on is missing, or something happens at a bad time.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

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

// Children that call the driver, which the parent's threads use meanwhile.
void forks_and_calls() {
  const Device device = start();
  std::atomic<bool> stop{false};
  std::vector<std::thread> others(3);
  for (std::thread& other : others) {
    other = std::thread([&] {
      cuCtxSetCurrent(device.context);
      CUdeviceptr memory = 0;
      while (!stop) {
        if (cuMemAlloc_v2(&memory, kBlock) == CUDA_SUCCESS) cuMemFree_v2(memory);
      }
    });
  }
  constexpr CUdeviceptr kStranger = 0x1234567000;
  int answered = 0;
  for (int i = 0; i < 30 && answered == i; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(cuMemFree_v2(kStranger) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    answered += status == 0 ? 1 : 0;
  }
  say("answered", static_cast<std::uint64_t>(answered));
  stop = true;
  for (std::thread& other : others) other.join();
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

namespace {

// A thread that is cancelled: before what it does, in which nothing of the driver's is a point of cancellation, or in
// the driver.
class Cancelled {
 public:
  template <class Work>
  Cancelled(const Device& device, Work work) : context_(device.context), work_(work) {
    pthread_create(&thread_, nullptr, run, this);
  }
  void before_its_work(const char* what) {
    while (!ready_) continue;
    end();
    say(what, code_);
  }
  void during(const char* symbol, std::uint64_t calls) {
    going_ = true;
    while (spillway_simulated_calls(symbol) == calls) std::this_thread::yield();
    end();
  }

 private:
  static void* run(void* self) {
    auto& own = *static_cast<Cancelled*>(self);
    cuCtxSetCurrent(own.context_);
    own.ready_ = true;
    while (!own.going_) continue;
    own.code_ = own.work_();
    for (;;) pthread_testcancel();
  }
  void end() {
    void* result = nullptr;
    pthread_cancel(thread_);
    going_ = true;
    pthread_join(thread_, &result);
    say("cancelled", static_cast<std::uint64_t>(result == PTHREAD_CANCELED));
  }

  CUcontext context_;
  std::function<CUresult()> work_;  // says nothing: that would be a point of cancellation
  CUresult code_ = CUDA_ERROR_UNKNOWN;
  pthread_t thread_{};
  std::atomic<bool> ready_{false};
  std::atomic<bool> going_{false};
};

// More than the budget holds.
std::vector<CUdeviceptr> zeroed_blocks() {
  std::vector<CUdeviceptr> blocks(8);
  for (CUdeviceptr& block : blocks) block = zeroed(kBlock);
  return blocks;
}

// The others go on.
void goes_on(const Device& device, std::vector<CUdeviceptr>& blocks) {
  for (int round = 0; round < 3; ++round) {
    for (const CUdeviceptr block : blocks) launch_add_one(device, block, kBlock);
  }
  cuCtxSynchronize();
  for (const CUdeviceptr block : blocks) std::printf("value %g\n", static_cast<double>(first_value(block)));
  CUdeviceptr small = 0;
  say("small", cuMemAlloc_v2(&small, kMiB));
  say("free", cuMemFree_v2(small));
  for (const CUdeviceptr block : blocks) say("free", cuMemFree_v2(block));
}

}  // namespace

void cancels_threads() {
  const Device device = start();
  std::vector<CUdeviceptr> blocks = zeroed_blocks();
  CUdeviceptr memory = 0;
  float value = -1;
  const auto cancelled = [&](const char* what, auto work) { Cancelled(device, work).before_its_work(what); };
  cancelled("alloc", [&] { return cuMemAlloc_v2(&memory, kBlock); });
  cancelled("free", [&] { return cuMemFree_v2(memory); });
  cancelled("pooled", [&] { return cuMemAllocAsync(&memory, kBlock, nullptr); });
  cancelled("free", [&] { return cuMemFreeAsync(memory, nullptr); });
  cancelled("launch", [&] { return launch_add_one(device, blocks[0], kBlock); });
  cancelled("copy", [&] { return cuMemcpyDtoH_v2(&value, blocks[1], sizeof value); });
  cancelled("too large", [&] { return cuMemAlloc_v2(&memory, std::size_t{1} << 45U); });
  goes_on(device, blocks);
}

// In a call that does not come back.
void cancels_in_the_driver(const char* what) {
  const Device device = start();
  std::vector<CUdeviceptr> blocks = zeroed_blocks();
  const CUdeviceptr last = blocks.back();
  const std::uint64_t calls = spillway_simulated_calls(what);
  Cancelled(device, [&] {
    float value = -1;
    if (what == std::string_view("cuLaunchKernel")) return launch_add_one(device, last, kBlock);
    if (what == std::string_view("cuMemFree_v2")) return cuMemFree_v2(last);
    return cuMemcpyDtoH_v2(&value, last, sizeof value);
  }).during(what, calls);
  blocks.pop_back();
  goes_on(device, blocks);
}

// Captures that end with their stream or their context: launches are nobody's business any more.
void captures_end_early() {
  const Device device = start();
  const CUdeviceptr memory = zeroed(kBlock);
  const auto captured = [] {
    CUstream stream = nullptr;
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    say("begin", cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    return stream;
  };
  const auto launched = [&] {
    cuCtxSetCurrent(device.context);
    const std::uint64_t before = spillway_simulated_calls("cuStreamIsCapturing");
    say("launch", launch_add_one(device, memory, kBlock));
    say("asked", spillway_simulated_calls("cuStreamIsCapturing") - before);
  };
  say("destroy", cuStreamDestroy_v2(captured()));
  launched();
  CUcontext other = nullptr;
  cuCtxCreate_v2(&other, 0, 0);
  captured();
  say("destroy", cuCtxDestroy_v2(other));
  launched();
  cuDevicePrimaryCtxRetain(&other, 0);
  cuCtxSetCurrent(other);
  captured();
  say("reset", cuDevicePrimaryCtxReset_v2(0));
  launched();
  const CUstream stream = captured();
  launched();
  CUgraph graph = nullptr;
  say("end", cuStreamEndCapture(stream, &graph));
  launched();
  say("begin", cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::thread([&] {
    cuCtxSetCurrent(device.context);
    say("end elsewhere", cuStreamEndCapture(stream, &graph));
  }).join();
  launched();
  say("end", cuStreamEndCapture(stream, &graph));
  launched();
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
