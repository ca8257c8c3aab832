// The shim linked in place of preloaded, so that sanitizers see all of it: several threads allocate, launch, fill, copy
// and free at random under a small budget. Every value is checked; so are the driver's own figures at the end.
//   shim_session_stress MODE [ROUNDS]
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <dlfcn.h>
// Not cupti.h: it has types of its own for what cuda.h declares here.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/simulated_device/test_kernels.hpp"
#include "tools/simulated_device/inspection.hpp"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::uint64_t kBudget = 24 * kMiB;
// In nobody's budget: the program's own context.
constexpr std::uint64_t kUncounted = 2 * kMiB;

std::atomic<int> mistakes{0};

void wrong(const char* what, long long got, long long expected) {
  std::fprintf(stderr, "session_stress: %s: %lld, expected %lld\n", what, got, expected);
  ++mistakes;
}

void check(const char* what, CUresult code) {
  if (code != CUDA_SUCCESS) wrong(what, code, 0);
}

struct Buffer {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  float value = 0;  // of every float in it
};

class Worker {
 public:
  Worker(CUcontext context, CUkernel kernel, unsigned seed)
      : random_(seed), kernel_(reinterpret_cast<CUfunction>(kernel)) {
    check("set context", cuCtxSetCurrent(context));
    check("stream", cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      const auto dice = random_() % 10;
      if (buffers_.empty() || (dice < 3 && buffers_.size() < 4)) {
        allocate();
      } else if (dice < 4) {
        free_one();
      } else if (dice < 7) {
        launch(any());
      } else if (dice < 8) {
        copy(any(), any());
      } else {
        verify(any());
      }
    }
    while (!buffers_.empty()) free_one();
    check("destroy stream", cuStreamDestroy_v2(stream_));
  }

 private:
  Buffer& any() { return buffers_[random_() % buffers_.size()]; }

  void allocate() {
    Buffer buffer;
    // Spilled ones, whole chunks and not, and small ones.
    buffer.bytes = random_() % 4 == 0 ? kMiB / 4 : (2 + random_() % 3) * kMiB + (random_() % 2) * 4096;
    const CUresult code = cuMemAlloc_v2(&buffer.address, buffer.bytes);
    if (code == CUDA_ERROR_OUT_OF_MEMORY) return;  // plain memory of four threads may fill the budget
    check("allocate", code);
    if (code != CUDA_SUCCESS) return;
    buffer.value = static_cast<float>(random_() % 100);
    unsigned bits = 0;
    static_assert(sizeof bits == sizeof buffer.value);
    __builtin_memcpy(&bits, &buffer.value, sizeof bits);
    check("fill", cuMemsetD32Async(buffer.address, bits, buffer.bytes / 4, stream_));
    buffers_.push_back(buffer);
  }

  void free_one() {
    const std::size_t index = random_() % buffers_.size();
    verify(buffers_[index]);
    check("free", cuMemFree_v2(buffers_[index].address));
    buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void launch(Buffer& buffer) {
    int count = static_cast<int>(buffer.bytes / sizeof(float));
    void* parameters[] = {&buffer.address, &count};
    constexpr int kAtOnce = 32;  // so that telemetry's windows open
    for (int i = 0; i < kAtOnce; ++i) {
      check("launch", cuLaunchKernel(kernel_, (static_cast<unsigned>(count) + 255) / 256, 1, 1, 256, 1, 1, 0, stream_,
                                     parameters, nullptr));
    }
    buffer.value += kAtOnce;
  }

  void copy(Buffer& to, const Buffer& from) {
    if (to.bytes != from.bytes || to.address == from.address) return;
    check("copy", cuMemcpyDtoDAsync_v2(to.address, from.address, to.bytes, stream_));
    to.value = from.value;
  }

  void verify(const Buffer& buffer) {
    std::vector<float> host(buffer.bytes / sizeof(float));
    check("read", cuMemcpyDtoHAsync_v2(host.data(), buffer.address, buffer.bytes, stream_));
    check("synchronize", cuStreamSynchronize(stream_));
    for (const float value : host) {
      if (value == buffer.value) continue;
      wrong("a value", static_cast<long long>(value), static_cast<long long>(buffer.value));
      return;
    }
  }

  std::mt19937 random_;
  CUfunction kernel_;
  CUstream stream_ = nullptr;
  std::vector<Buffer> buffers_;
};

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = 1 << 16;
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, *bytes));
}
void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) {
  std::free(buffer);
}

// The program profiles itself now and then; before telemetry has opened CUPTI these find none, which is as good.
void profile(const std::atomic<bool>& stop) {
  while (!stop) {
    cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void check_figures() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto statistics =
      reinterpret_cast<decltype(&spillway_simulated_statistics)>(dlsym(driver, "spillway_simulated_statistics"));
  if (statistics == nullptr) return wrong("the simulated driver's own functions", 0, 1);
  spillway::simulated::SimulatedStatistics figures;
  statistics(&figures);
  if (figures.live_allocations != 0) wrong("allocations left", static_cast<long long>(figures.live_allocations), 0);
  if (figures.bad_frees != 0) wrong("bad frees", static_cast<long long>(figures.bad_frees), 0);
  if (figures.driver_evictions != 0) wrong("evictions", static_cast<long long>(figures.driver_evictions), 0);
  if (figures.resident_peak_bytes > kBudget + kUncounted) {
    wrong("resident peak above the budget", static_cast<long long>(figures.resident_peak_bytes), kBudget);
  }
  if (figures.migrated_out_bytes + figures.remote_bytes == 0) wrong("bytes spilled", 0, 1);
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "adaptive";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  setenv("SPILLWAY_MODE", mode, 1);
  setenv("SPILLWAY_DEVICE_BUDGET", "24MiB", 1);
  setenv("SPILLWAY_TRACE_PATH", "", 1);
  setenv("SPILLWAY_TELEMETRY_SAMPLE", "100%", 1);
  setenv("SPILLWAY_LOG_LEVEL", "warning", 0);
  setenv("SPILLWAY_SIMULATED_MEMORY", "64MiB", 1);
  setenv("SPILLWAY_SIMULATED_KERNELS", TEST_TWINS, 1);
  CUcontext context = nullptr;
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  int image = 0;
  check("cuInit", cuInit(0));
  check("context", cuCtxCreate_v2(&context, 0, 0));
  check("library", cuLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  check("kernel", cuLibraryGetKernel(&kernel, library, kAddOne));
  if (mistakes != 0) return 1;
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([=] { Worker(context, kernel, seed).run(rounds); });
  }
  std::atomic<bool> stop{false};
  std::thread profiler([&stop] { profile(stop); });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  profiler.join();
  // Kernel times are of use to the mode that learns; there a short run may be over before a window opens.
  const bool opened = dlopen("libcupti.so.13", RTLD_LAZY | RTLD_NOLOAD) != nullptr;
  if (opened && std::string(mode) != "adaptive") wrong("CUPTI opened", 1, 0);
  check_figures();
  check("destroy context", cuCtxDestroy_v2(context));
  if (mistakes == 0) std::printf("all right, CUPTI %s\n", opened ? "opened" : "not opened");
  return mistakes == 0 ? 0 : 1;
}
