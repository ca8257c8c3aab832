// Settings and fault injection. Each case runs in a process of its own: the settings are read once.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/simulated_device/driver_fixture.hpp"

namespace spillway::simulated {
namespace {

class Setting : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("SPILLWAY_SIMULATED_KERNELS", SPILLWAY_TEST_TWINS, 1);
  }
};

bool start() {
  CUcontext context = nullptr;
  return cuInit(0) == CUDA_SUCCESS && cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS;
}

CUresult allocate(std::size_t bytes = 1024) {
  CUdeviceptr p = 0;
  return cuMemAlloc_v2(&p, bytes);
}

[[noreturn]] void end(bool right) { std::exit(right ? 0 : 1); }

// Starts with one variable set and says whether cuInit refused.
[[noreturn]] void refused_with(const char* name, const char* value) {
  setenv(name, value, 1);
  end(cuInit(0) == CUDA_ERROR_INVALID_VALUE && cuInit(0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Setting, BadValuesAreNamedWithARemedyAndRefused) {
  EXPECT_EXIT(refused_with("SPILLWAY_SIMULATED_MEMORY", "lots"), testing::ExitedWithCode(0),
              "SPILLWAY_SIMULATED_MEMORY=\"lots\": give a size");
  EXPECT_EXIT(refused_with("SPILLWAY_SIMULATED_MEMORY", "1MiB"), testing::ExitedWithCode(0), "from 32MiB to 64GiB");
  EXPECT_EXIT(refused_with("SPILLWAY_SIMULATED_DEVICES", "-1"), testing::ExitedWithCode(0),
              "SPILLWAY_SIMULATED_DEVICES=\"-1\"");
  EXPECT_EXIT(refused_with("SPILLWAY_SIMULATED_FAULTS", "cuMemAllocate:1:2"), testing::ExitedWithCode(0),
              "SPILLWAY_SIMULATED_FAULTS=\"cuMemAllocate:1:2\": give SYMBOL");
  EXPECT_EXIT(refused_with("SPILLWAY_SIMULATED_FAULTS", "cuMemAlloc_v2:0:2"), testing::ExitedWithCode(0),
              "CALL being a number");
  EXPECT_EXIT(refused_with("SPILLWAY_SIMULATED_KERNELS", "/no/such.so"), testing::ExitedWithCode(0),
              "no such readable twin library");
  EXPECT_EXIT(refused_with("SPILLWAY_SIMULATED_NO_MANAGED", "yes"), testing::ExitedWithCode(0), "give 0 or 1");
}

TEST_F(Setting, MemoryAndDevicesAreWhatWasAskedFor) {
  EXPECT_EXIT(
      {
        setenv("SPILLWAY_SIMULATED_MEMORY", "96MiB", 1);
        setenv("SPILLWAY_SIMULATED_DEVICES", "3", 1);
        std::size_t total = 0;
        int count = 0;
        const bool asked =
            start() && cuDeviceGetCount(&count) == CUDA_SUCCESS && cuDeviceTotalMem_v2(&total, 2) == CUDA_SUCCESS;
        end(asked && count == 3 && total == 96 * kMiB);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Setting, NoManagedMeansNoConcurrentAccess) {
  EXPECT_EXIT(
      {
        setenv("SPILLWAY_SIMULATED_NO_MANAGED", "1", 1);
        int value = 1;
        bool right =
            start() && cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0) == CUDA_SUCCESS;
        CUdeviceptr p = 0;
        right = right && value == 0 && cuMemAllocManaged(&p, kTestChunk, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS;
        end(right && cuMemPrefetchAsync_v2(p, kTestChunk, kOnDevice, 0, nullptr) == CUDA_ERROR_INVALID_DEVICE);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Setting, AnOldDriverLacksTheNewAbis) {
  EXPECT_EXIT(
      {
        setenv("SPILLWAY_SIMULATED_DRIVER_VERSION", "12000", 1);
        void* found = nullptr;
        int version = 0;
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
        bool right = start() && cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 12000;
        right = right && cuGetProcAddress_v2("cuMemPrefetchAsync", &found, 13000, 0, &status) == CUDA_SUCCESS;
        right = right && found == reinterpret_cast<void*>(&cuMemPrefetchAsync);
        right = right && cuGetProcAddress_v2("cuMemPrefetchBatchAsync", &found, 13000, 0, &status) == CUDA_SUCCESS;
        end(right && found == nullptr && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Setting, TheNamedCallFailsOnce) {
  EXPECT_EXIT(
      {
        setenv("SPILLWAY_SIMULATED_FAULTS", "cuMemAlloc_v2:3:2,cuMemsetD8_v2:*:999", 1);
        bool right = start() && allocate() == CUDA_SUCCESS && allocate() == CUDA_SUCCESS;
        right = right && allocate() == CUDA_ERROR_OUT_OF_MEMORY && allocate() == CUDA_SUCCESS;
        right = right && cuMemsetD8_v2(0, 0, 0) == CUDA_ERROR_UNKNOWN && cuMemsetD8_v2(0, 0, 0) == CUDA_ERROR_UNKNOWN;
        SimulatedStatistics statistics;
        spillway_simulated_statistics(&statistics);
        end(right && statistics.live_allocations == 3 && spillway_simulated_calls("cuMemAlloc_v2") == 4);
      },
      testing::ExitedWithCode(0), "");
}

// While one call is delayed, other threads' calls go on: the fast one ends first.
TEST_F(Setting, ADelayedCallHoldsUpNobodyElse) {
  EXPECT_EXIT(
      {
        setenv("SPILLWAY_SIMULATED_FAULTS", "cuMemFree_v2:1:delay=400ms", 1);
        bool right = start();
        CUdeviceptr p = 0;
        right = right && cuMemAlloc_v2(&p, 1024) == CUDA_SUCCESS;
        CUcontext context = nullptr;
        right = right && cuCtxGetCurrent(&context) == CUDA_SUCCESS;
        std::atomic<bool> freed{false};
        std::thread slow([&] {
          (void)cuCtxSetCurrent(context);
          (void)cuMemFree_v2(p);
          freed = true;
        });
        while (spillway_simulated_calls("cuMemFree_v2") == 0) std::this_thread::yield();
        right = right && allocate() == CUDA_SUCCESS && !freed;
        slow.join();
        end(right && freed);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Setting, TheReportIsWrittenAtExit) {
  const std::string path = testing::TempDir() + "spillway_simulated_report.json";
  unlink(path.c_str());
  EXPECT_EXIT(
      {
        setenv("SPILLWAY_SIMULATED_REPORT", path.c_str(), 1);
        end(start() && allocate(5000) == CUDA_SUCCESS);
      },
      testing::ExitedWithCode(0), "");
  std::ifstream file(path);
  ASSERT_TRUE(file.good());
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json.at("leaks").size(), 1U);
  EXPECT_EQ(json.at("leaks").at(0).at("bytes"), 5000);
  EXPECT_EQ(json.at("calls").at("cuMemAlloc_v2"), 1);
  unlink(path.c_str());
}

TEST_F(Setting, MemoryIsSharedWithAnotherProcess) {
  EXPECT_EXIT(
      {
        int channel[2];
        bool right = pipe(channel) == 0;
        const pid_t importer = fork();
        if (importer == 0) {
          close(channel[1]);  // so that the read ends should the exporter fail
          CUipcMemHandle handle{};
          CUdeviceptr p = 0;
          float value = 0;
          bool good = read(channel[0], &handle, sizeof handle) == sizeof handle && start();
          good = good && cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS;
          good = good && cuMemcpyDtoH_v2(&value, p, sizeof value) == CUDA_SUCCESS && value == 2.0F;
          good = good && cuMemsetD32_v2(p, 0x40400000, 1) == CUDA_SUCCESS && cuIpcCloseMemHandle(p) == CUDA_SUCCESS;
          std::_Exit(good ? 0 : 1);
        }
        CUdeviceptr p = 0;
        CUipcMemHandle handle{};
        float value = 0;
        int status = 1;
        right = right && start() && cuMemAlloc_v2(&p, kTestChunk) == CUDA_SUCCESS &&
                cuMemsetD32_v2(p, 0x40000000, 1) == CUDA_SUCCESS;
        right = right && cuIpcGetMemHandle(&handle, p) == CUDA_SUCCESS &&
                write(channel[1], &handle, sizeof handle) == sizeof handle;
        close(channel[1]);
        right = waitpid(importer, &status, 0) == importer && status == 0 && right;
        end(right && cuMemcpyDtoH_v2(&value, p, sizeof value) == CUDA_SUCCESS && value == 3.0F);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Setting, AForkedChildHasNoCuda) {
  EXPECT_EXIT(
      {
        bool right = start();
        int status = 1;
        const pid_t child = fork();
        if (child == 0) std::_Exit(allocate() == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
        right = right && waitpid(child, &status, 0) == child && status == 0;
        end(right && allocate() == CUDA_SUCCESS);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace spillway::simulated
