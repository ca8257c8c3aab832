// A program over a pool of which it uses a part at a time, by a table that only the kernel reads. It prints how much of
// what it uses is on the device, and how many faults there were.
//   sparse_probe SCENARIO
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/shim/end_to_end/telemetry_probe.hpp"
#include "tests/simulated_device/test_kernels.hpp"

// Not cupti.h: it has types of its own for what cuda.h declares here.
#include <cupti_activity.h>
#include <cupti_result.h>

namespace spillway::probe {
namespace {

constexpr int kChunks = 48;
constexpr int kHot = 8;
constexpr std::size_t kChunkBytes = 2 * kMiB;

class Pool {
 public:
  Pool() : work_(1) {
    bool right = cuLibraryGetKernel(&read_some_, work_.device().library, kReadSome) == CUDA_SUCCESS;
    right = right && cuMemAlloc_v2(&pool_, kChunks * kChunkBytes) == CUDA_SUCCESS;
    right = right && cuMemAlloc_v2(&table_, kChunks * sizeof(int)) == CUDA_SUCCESS;
    right = right && cuMemAlloc_v2(&out_, sizeof(float)) == CUDA_SUCCESS;
    right = right && cuMemsetD8_v2(pool_, 0, kChunks * kChunkBytes) == CUDA_SUCCESS;
    if (right) return;
    std::fprintf(stderr, "sparse_probe: the simulated device does not start\n");
    std::exit(3);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    work_.finish();
    for (const CUdeviceptr memory : {pool_, table_, out_}) cuMemFree_v2(memory);
  }

  void use(int first, int count) {
    work_.finish();
    used_.clear();
    for (int i = 0; i < count; ++i) used_.push_back(first + i);
    cuMemcpyHtoD_v2(table_, used_.data(), used_.size() * sizeof(int));
  }
  void run(int iterations) {
    for (int i = 0; i < iterations; ++i) {
      work_.launch_on(out_, 1, nullptr);
      int count = static_cast<int>(used_.size());
      void* parameters[] = {&pool_, &table_, &out_, &count};
      const CUresult code =
          cuLaunchKernel(reinterpret_cast<CUfunction>(read_some_), 4, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr);
      if (code != CUDA_SUCCESS) say("launch", code);
      work_.finish();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  [[nodiscard]] int inside() const {
    int count = 0;
    for (const int chunk : used_) {
      const auto at = static_cast<std::size_t>(chunk) * kChunkBytes;
      count += spillway_simulated_residency(pool_ + at) == 1 ? 1 : 0;
    }
    return count;
  }
  // Until what is used is on the device, or for long.
  [[nodiscard]] bool settles() {
    for (int i = 0; i < 60; ++i) {
      run(100);
      if (inside() == static_cast<int>(used_.size())) return true;
    }
    return false;
  }

 private:
  Workload work_;
  CUkernel read_some_ = nullptr;
  CUdeviceptr pool_ = 0, table_ = 0, out_ = 0;
  std::vector<int> used_;
};

std::uint64_t faults() {
  simulated::SimulatedStatistics statistics;
  spillway_simulated_statistics(&statistics);
  return statistics.faults;
}

// What is used changes, and comes in each time.
void turns() {
  Pool pool;
  for (const int first : {36, 24, 36, 0}) {
    pool.use(first, kHot);
    const bool settled = pool.settles();
    std::printf("from chunk %d: %s\n", first, settled ? "on the device" : "not on the device");
  }
}

// All of it is used, always.
void dense() {
  Pool pool;
  pool.use(0, kChunks);
  pool.run(1500);
  const std::uint64_t before = faults();
  std::printf("some faults: %s\n", before > 0 ? "yes" : "no");
  pool.run(1500);
  say("faults later", faults() - before);
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *bytes = 1 << 16;
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, *bytes));
}
void CUPTIAPI take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer, std::size_t /*bytes*/,
                          std::size_t /*valid*/) {
  std::free(buffer);
}

// A profiler takes CUPTI while probes are set: from then on nothing faults.
void profiled() {
  Pool pool;
  pool.use(36, kHot);
  std::printf("settled: %s\n", pool.settles() ? "yes" : "no");
  std::printf("register: %d\n", static_cast<int>(cuptiActivityRegisterCallbacks(give_buffer, take_buffer)));
  std::printf("enable: %d\n", static_cast<int>(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::uint64_t before = faults();
  pool.use(0, kChunks);
  pool.run(200);
  say("faults under the profiler", faults() - before);
  std::printf("disable: %d\n", static_cast<int>(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)));
  // And it goes on after.
  pool.use(12, kHot);
  std::printf("settled again: %s\n", pool.settles() ? "yes" : "no");
}

}  // namespace
}  // namespace spillway::probe

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "turns") == 0) {
    spillway::probe::turns();
  } else if (argc == 2 && std::strcmp(argv[1], "dense") == 0) {
    spillway::probe::dense();
  } else if (argc == 2 && std::strcmp(argv[1], "profiled") == 0) {
    spillway::probe::profiled();
  } else {
    std::fprintf(stderr, "usage: sparse_probe turns|dense|profiled\n");
    return 2;
  }
}
