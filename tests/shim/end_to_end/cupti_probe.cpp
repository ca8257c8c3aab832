// A program that profiles itself by CUPTI, as PyTorch's profiler does: a subscriber that stays, callbacks and
// activities for each session. It prints how many kernels each session saw.
//   cupti_probe SCENARIO
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/shim/end_to_end/telemetry_probe.hpp"

// Not cupti.h: it has types of its own for what cuda.h declares here.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>

namespace spillway::probe {
namespace {

constexpr int kBetween = 3000;
std::atomic<int> kernels{0};
std::atomic<int> strangers{0};
std::atomic<int> given{0};

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = 1 << 16;
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, *bytes));
  (*buffer)[*bytes - 1] = 0x5A;
  ++given;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t bytes, std::size_t valid) {
  --given;
  if (bytes != 1 << 16) {
    ++strangers;
    return;
  }
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? ++kernels : ++strangers;
  }
  std::free(buffer);
}

void say_result(const char* what, CUptiResult result) { std::printf("%s: %d\n", what, static_cast<int>(result)); }

void session(Workload& work, int launches, decltype(&cuptiActivityEnable) enable = &cuptiActivityEnable) {
  kernels = 0;
  say_result("register", cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
  say_result("enable", enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  work.launch(launches);
  work.finish();
  say_result("flush", cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  say_result("disable", cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  std::printf("profiled %d\n", kernels.load());
}

void finish_session(Workload& work) {
  std::printf("sum %g\nstrangers %d, buffers out %d\n", static_cast<double>(work.sum()), strangers.load(),
              given.load());
}

void profiler() {
  Workload work(12);
  CUpti_SubscriberHandle subscriber = nullptr;
  work.launch(kBetween);
  say_result("subscribe", cuptiSubscribe(&subscriber, nullptr, nullptr));
  for (int round = 0; round < 3; ++round) {
    session(work, 500 + round);
    work.launch(kBetween);
  }
  finish_session(work);
}

// Its callbacks are its own for good: between sessions somebody else may have had theirs there.
void registers_once() {
  Workload work(6);
  say_result("register", cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
  for (int round = 0; round < 3; ++round) {
    work.launch(kBetween);
    kernels = 0;
    say_result("enable", cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    work.launch(400);
    work.finish();
    say_result("flush", cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    say_result("disable", cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    std::printf("profiled %d\n", kernels.load());
  }
  finish_session(work);
}

// Looks CUPTI up, as those do that open it late.
void late() {
  Workload work(6);
  void* cupti = dlopen("libcupti.so.13", RTLD_LAZY);
  const auto enable = reinterpret_cast<decltype(&cuptiActivityEnable)>(dlsym(cupti, "cuptiActivityEnable"));
  work.launch(kBetween);
  session(work, 700, enable);
  work.launch(kBetween);
  finish_session(work);
}

void subscriber() {
  Workload work(6);
  CUpti_SubscriberHandle handle = nullptr;
  say_result("subscribe", cuptiSubscribe(&handle, nullptr, nullptr));
  work.launch(kBetween);
  say_result("unsubscribe", cuptiUnsubscribe(handle));
  work.launch(kBetween);
  finish_session(work);
}

// Sessions on one thread while another launches on: nothing hangs, and each session has at least its own.
void beside() {
  Workload work(6);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    cuCtxSetCurrent(work.device().context);
    Workload own(3);
    while (!stop) own.launch(50);
  });
  int complete = 0;
  for (int round = 0; round < 20; ++round) {
    kernels = 0;
    cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    work.launch(100);
    work.finish();
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    complete += kernels >= 100 ? 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  stop = true;
  other.join();
  std::printf("complete %d\nstrangers %d\n", complete, strangers.load());
}

void cupti_forks() {
  Workload work(6);
  int ended = 0;
  for (int i = 0; i < 10; ++i) {
    work.launch(300);
    const pid_t child = fork();
    if (child == 0) {
      // CUDA and CUPTI are of no use here; that they can be called and come back is all.
      CUpti_SubscriberHandle handle = nullptr;
      cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
      cuptiSubscribe(&handle, nullptr, nullptr);
      _exit(5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ended += WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 1 : 0;
  }
  std::printf("children %d\n", ended);
}

}  // namespace
}  // namespace spillway::probe

int main(int argc, char** argv) {
  using namespace spillway::probe;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string scenario = argc > 1 ? argv[1] : "";
  if (scenario == "profiler") profiler();
  if (scenario == "registers_once") registers_once();
  if (scenario == "late") late();
  if (scenario == "subscriber") subscriber();
  if (scenario == "beside") beside();
  if (scenario == "forks") cupti_forks();
}
