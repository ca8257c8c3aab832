// Look-up, modules, memory bookkeeping, streams and the other rules of the stand-in driver.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/simulated_device/driver_fixture.hpp"

namespace spillway::simulated {
namespace {

void* look_up(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT,
              int* status_out = nullptr) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(cuGetProcAddress_v2(name, &found, version, flags, &status), CUDA_SUCCESS);
  if (status_out != nullptr) *status_out = status;
  return found;
}

template <class Function>
void* pointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

TEST(LookUp, GivesTheAbiOfTheVersionAsked) {
  EXPECT_EQ(look_up("cuMemAlloc", 2000), pointer(&cuMemAlloc));
  EXPECT_EQ(look_up("cuMemAlloc", 3010), pointer(&cuMemAlloc));
  EXPECT_EQ(look_up("cuMemAlloc", 3020), pointer(&cuMemAlloc_v2));
  EXPECT_EQ(look_up("cuMemAlloc", 13000), pointer(&cuMemAlloc_v2));
  EXPECT_EQ(look_up("cuMemPrefetchAsync", 12010), pointer(&cuMemPrefetchAsync));
  EXPECT_EQ(look_up("cuMemPrefetchAsync", 12020), pointer(&cuMemPrefetchAsync_v2));
  EXPECT_EQ(look_up("cuCtxCreate", 11040), pointer(&cuCtxCreate_v3));
  EXPECT_EQ(look_up("cuCtxCreate", 13000), pointer(&cuCtxCreate_v4));
  EXPECT_EQ(look_up("cuGetProcAddress", 11030), pointer(&cuGetProcAddress));
  EXPECT_EQ(look_up("cuGetProcAddress", 12000), pointer(&cuGetProcAddress_v2));
}

TEST(LookUp, SaysWhyThereIsNone) {
  int status = -1;
  EXPECT_EQ(look_up("cuMemCreate", 10000, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(look_up("cuNoSuchThing", 13000, 0, &status), nullptr);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  void* found = &status;
  EXPECT_EQ(cuGetProcAddress_v2("cuNoSuchThing", &found, 13000, 0, nullptr), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &found, 12000, 0), CUDA_SUCCESS);
  EXPECT_EQ(found, pointer(&cuMemAlloc_v2));
  EXPECT_EQ(cuGetProcAddress("cuMemAlloc", &found, 12000, 64), CUDA_ERROR_INVALID_VALUE);
}

TEST(LookUp, GivesPerThreadVariantsWhenAskedAndWhereThereAre) {
  EXPECT_EQ(look_up("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM), pointer(&cuLaunchKernel));
  EXPECT_EQ(look_up("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            pointer(&cuLaunchKernel_ptsz));
  EXPECT_EQ(look_up("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            pointer(&cuMemcpyHtoD_v2_ptds));
  EXPECT_EQ(look_up("cuMemAlloc", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), pointer(&cuMemAlloc_v2));
}

TEST(BeforeInit, CallsSaySo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        int count = 0;
        CUdeviceptr p = 0;
        const bool right = cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                           cuMemAlloc_v2(&p, 64) == CUDA_ERROR_NOT_INITIALIZED;
        std::exit(right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

using Driver = DriverTest;

TEST_F(Driver, CufuncQueriesFailOnAKernelAndWorkOnAFunction) {
  const char* name = nullptr;
  std::size_t offset = 0;
  std::size_t size = 0;
  const auto as_function = reinterpret_cast<CUfunction>(add_one_);
  EXPECT_NE(cuFuncGetName(&name, as_function), CUDA_SUCCESS);
  EXPECT_NE(cuFuncGetParamInfo(as_function, 0, &offset, &size), CUDA_SUCCESS);
  ASSERT_EQ(cuKernelGetName(&name, add_one_), CUDA_SUCCESS);
  EXPECT_STREQ(name, kAddOne);
  ASSERT_EQ(cuKernelGetParamInfo(add_one_, 1, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(offset, 8U);
  EXPECT_EQ(size, 4U);
  EXPECT_EQ(cuKernelGetParamInfo(add_one_, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);

  CUfunction function = nullptr;
  ASSERT_EQ(cuKernelGetFunction(&function, add_one_), CUDA_SUCCESS);
  ASSERT_EQ(cuFuncGetName(&name, function), CUDA_SUCCESS);
  EXPECT_STREQ(name, kAddOne);
  EXPECT_NE(cuKernelGetName(&name, reinterpret_cast<CUkernel>(function)), CUDA_SUCCESS);
}

TEST_F(Driver, PackedArgumentsAndExtendedAndCooperativeLaunchesCompute) {
  CUkernel scale = nullptr;
  ASSERT_EQ(cuLibraryGetKernel(&scale, library_, kScale), CUDA_SUCCESS);
  const CUdeviceptr from = plain(1024);
  const CUdeviceptr to = plain(1024);
  ASSERT_EQ(cuMemsetD32_v2(from, 0x3F800000, 256), CUDA_SUCCESS);  // 1.0F
  ASSERT_EQ(cuMemsetD8_v2(to, 0, 1024), CUDA_SUCCESS);
  struct __attribute__((packed)) Arguments {
    CUdeviceptr from, to;
    float factor;
    Extent extent;
  } arguments{from, to, 5.0F, {256, 1}};
  std::size_t bytes = sizeof arguments;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  const auto function = reinterpret_cast<CUfunction>(scale);
  ASSERT_EQ(cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra), CUDA_SUCCESS);
  EXPECT_EQ(at(to), 5.0F);
  bytes = 8;
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra), CUDA_ERROR_INVALID_VALUE);

  CUdeviceptr target = to;
  int count = 256;
  void* parameters[] = {&target, &count};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 256;
  ASSERT_EQ(cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(add_one_), parameters, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(
      cuLaunchCooperativeKernel(reinterpret_cast<CUfunction>(add_one_), 1, 1, 1, 256, 1, 1, 0, nullptr, parameters),
      CUDA_SUCCESS);
  EXPECT_EQ(at(to), 7.0F);
  EXPECT_EQ(cuLaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, AKernelWithoutTwinIsRefusedByName) {
  CUkernel kernel = nullptr;
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library_, kNoTwin), CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(kNoTwin), std::string::npos);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "once a kernel";
}

TEST_F(Driver, BadFreesAreRefusedAndListed) {
  const CUdeviceptr p = plain(4 * kMiB);
  EXPECT_EQ(cuMemFree_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(p + 512), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(p), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(statistics().bad_frees - before_.bad_frees, 2U);
  const auto listed = nlohmann::json::parse(report()).at("bad_frees");
  EXPECT_EQ(listed.back().at("address"), p);
  EXPECT_EQ(listed.back().at("freed_before"), true);
  EXPECT_EQ(listed.at(listed.size() - 2).at("freed_before"), false);
}

TEST_F(Driver, LiveMemoryIsInTheReportUntilFreed) {
  const auto lists = [&](CUdeviceptr p) {
    const auto json = nlohmann::json::parse(report());
    for (const auto& leak : json.at("leaks")) {
      if (leak.at("address") == p) return true;
    }
    return false;
  };
  const CUdeviceptr small = plain(100);
  const CUdeviceptr large = managed(3 * kMiB);
  EXPECT_TRUE(lists(small));
  EXPECT_TRUE(lists(large));
  ASSERT_EQ(cuMemFree_v2(small), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree_v2(large), CUDA_SUCCESS);
  EXPECT_FALSE(lists(small));
  EXPECT_FALSE(lists(large));
  EXPECT_GE(nlohmann::json::parse(report()).at("calls").at("cuMemFree_v2"), 2);
}

// Blocks of small memory are given back one by one: what lies in two of them would be half gone.
TEST_F(Driver, SmallMemoryLiesWithinOneBlock) {
  constexpr std::size_t kBytes = 700 * 1024;
  std::vector<CUdeviceptr> pieces(9);
  for (CUdeviceptr& piece : pieces) {
    ASSERT_EQ(cuMemAlloc_v2(&piece, kBytes), CUDA_SUCCESS);
    EXPECT_EQ(piece / kTestChunk, (piece + kBytes - 1) / kTestChunk) << std::hex << piece;
  }
  for (std::size_t i = 0; i < pieces.size(); i += 2) EXPECT_EQ(cuMemFree_v2(pieces[i]), CUDA_SUCCESS);
  for (std::size_t i = 1; i < pieces.size(); i += 2) {
    EXPECT_EQ(cuMemsetD8_v2(pieces[i], 1, kBytes), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(pieces[i]), CUDA_SUCCESS);
  }
}

TEST_F(Driver, MemoryInformationCountsPlainMemoryAndComesBack) {
  std::size_t start = 0;
  std::size_t now = 0;
  std::size_t total = 0;
  ASSERT_EQ(cuMemGetInfo_v2(&start, &total), CUDA_SUCCESS);
  const CUdeviceptr p = plain(5 * kMiB);
  std::vector<CUdeviceptr> small(100);
  for (auto& s : small) s = plain(1000);
  ASSERT_EQ(cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
  EXPECT_EQ(start - now, 8 * kMiB);  // 5 MiB in blocks of 2, and one block for the small ones
  CUdeviceptr refused = 0;
  EXPECT_EQ(cuMemAlloc_v2(&refused, 64 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemFree_v2(p), CUDA_SUCCESS);
  for (auto s : small) EXPECT_EQ(cuMemFree_v2(s), CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
  EXPECT_EQ(now, start);
}

TEST_F(Driver, PointerQuestionsAgreeOneByOneAndBatched) {
  const CUdeviceptr m = managed(kTestChunk);
  unsigned type = 0;
  unsigned is_managed = 0;
  ASSERT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, m + 5), CUDA_SUCCESS);
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  std::size_t size = 0;
  void* data[] = {&is_managed, &size};
  ASSERT_EQ(cuPointerGetAttributes(2, which, data, m + 5), CUDA_SUCCESS);
  EXPECT_EQ(is_managed, 1U);
  EXPECT_EQ(size, kTestChunk);
  int local = 0;
  const auto host = reinterpret_cast<CUdeviceptr>(&local);
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuPointerGetAttributes(2, which, data, host), CUDA_SUCCESS);
  EXPECT_EQ(size, 0U);
}

TEST_F(Driver, CopiesOutsideLiveMemoryAreRefused) {
  const CUdeviceptr p = plain(4 * kMiB);
  std::vector<char> host(5 * kMiB);
  EXPECT_EQ(cuMemcpyHtoD_v2(p, host.data(), 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(p, host.data(), 4 * kMiB + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH_v2(host.data(), p + 3 * kMiB, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(reinterpret_cast<CUdeviceptr>(host.data()), host.data(), 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, TwoDimensionalCopiesAndFills) {
  CUdeviceptr p = 0;
  std::size_t pitch = 0;
  ASSERT_EQ(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 4), CUDA_SUCCESS);
  EXPECT_EQ(pitch % 512, 0U);
  ASSERT_EQ(cuMemsetD2D8_v2(p, pitch, 7, 100, 10), CUDA_SUCCESS);
  std::vector<unsigned char> host(60 * 5, 0);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = p;
  copy.srcPitch = pitch;
  copy.srcXInBytes = 10;
  copy.srcY = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host.data();
  copy.dstPitch = 60;
  copy.WidthInBytes = 60;
  copy.Height = 5;
  ASSERT_EQ(cuMemcpy2D_v2(&copy), CUDA_SUCCESS);
  EXPECT_EQ(std::count(host.begin(), host.end(), 7), 300);
}

// A host function that waits until the test lets it go.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<bool> passed{false};
  static void CUDA_CB wait(void* data) {
    auto* gate = static_cast<Gate*>(data);
    while (!gate->open) std::this_thread::yield();
    gate->passed = true;
  }
};

TEST_F(Driver, WorkBehindAHostFunctionWaitsAndOtherStreamsDoNot) {
  Gate gate;
  const CUstream a = stream();
  const CUstream b = stream();
  const CUdeviceptr p = plain(1024);
  ASSERT_EQ(cuMemsetD8_v2(p, 0, 1024), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(a, Gate::wait, &gate), CUDA_SUCCESS);
  ASSERT_EQ(launch(p, 1024, a), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(launch(p, 1024, b), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
  EXPECT_EQ(statistics().launches - before_.launches, 1U);
  gate.open = true;
  ASSERT_EQ(cuStreamSynchronize(a), CUDA_SUCCESS);
  EXPECT_TRUE(gate.passed);
  EXPECT_EQ(statistics().launches - before_.launches, 2U);
  EXPECT_EQ(at(p), 2.0F);
}

TEST_F(Driver, AStreamThatWaitsForAnEventComesAfterIt) {
  Gate gate;
  const CUstream a = stream();
  const CUstream b = stream();
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  const CUdeviceptr p = plain(1024);
  ASSERT_EQ(cuMemsetD8_v2(p, 0, 1024), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(a, Gate::wait, &gate), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, a), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(b, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch(p, 1024, b), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(statistics().launches, before_.launches);
  gate.open = true;
  ASSERT_EQ(cuStreamSynchronize(b), CUDA_SUCCESS);
  EXPECT_TRUE(gate.passed);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(at(p), 1.0F);
}

TEST_F(Driver, TheLegacyStreamFollowsBlockingStreams) {
  Gate gate;
  const CUstream blocking = stream(CU_STREAM_DEFAULT);
  const CUdeviceptr p = plain(1024);
  ASSERT_EQ(cuMemsetD8_v2(p, 0, 1024), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(blocking, Gate::wait, &gate), CUDA_SUCCESS);
  ASSERT_EQ(launch(p, 1024, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(statistics().launches, before_.launches);
  gate.open = true;
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(at(p), 1.0F);
}

TEST_F(Driver, TheVirtualClockTimesEvents) {
  const CUstream s = stream();
  CUevent start = nullptr;
  CUevent end = nullptr;
  ASSERT_EQ(cuEventCreate(&start, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&end, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost_v2(&host, 11 * kMiB), CUDA_SUCCESS);
  const CUdeviceptr p = plain(11 * kMiB);
  ASSERT_EQ(cuEventRecord(start, s), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyHtoDAsync_v2(p, host, 11 * kMiB, s), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(end, s), CUDA_SUCCESS);
  float milliseconds = 0;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuEventQuery(end), CUDA_SUCCESS);  // polling takes the thread there
  ASSERT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
  EXPECT_NEAR(milliseconds, 11.0 * kMiB / 55e6, 0.01);  // 55 GB/s
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(Driver, PoolsAllocateInStreamOrderAndCount) {
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  const CUstream s = stream();
  CUdeviceptr p = 0;
  ASSERT_EQ(cuMemAllocAsync(&p, 4 * kMiB, s), CUDA_SUCCESS);
  cuuint64_t used = 0;
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
  EXPECT_EQ(used, 4 * kMiB);
  ASSERT_EQ(cuMemsetD8Async(p, 1, 4 * kMiB, s), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(p, s), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuStreamSynchronize(s), CUDA_SUCCESS);
  ASSERT_EQ(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), CUDA_SUCCESS);
  EXPECT_EQ(used, 0U);
}

TEST_F(Driver, VirtualMemoryOfTheHostTakesNoneOfTheCardAndIsReachedOverTheLink) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
  int supported = 0;
  ASSERT_EQ(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(supported, 1);
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  cuMemGetInfo_v2(&before, &total);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr range = 0;
  ASSERT_EQ(cuMemCreate(&handle, kTestChunk, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressReserve(&range, kTestChunk, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(range, kTestChunk, 0, handle, 0), CUDA_SUCCESS);
  const CUmemAccessDesc access{kOnDevice, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(range, kTestChunk, &access, 1), CUDA_SUCCESS);
  cuMemGetInfo_v2(&after, &total);
  EXPECT_EQ(after, before);
  ASSERT_EQ(cuMemsetD8_v2(range, 0, kTestChunk), CUDA_SUCCESS);
  ASSERT_EQ(launch(range, kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(at(range), 1);
  EXPECT_EQ(statistics().remote_bytes - before_.remote_bytes, 2 * kTestChunk) << "read and written";
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(range, kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(range, kTestChunk), CUDA_SUCCESS);
  cuMemGetInfo_v2(&after, &total);
  EXPECT_EQ(after, before);
  properties.location.id = 7;
  EXPECT_EQ(cuMemCreate(&handle, kTestChunk, &properties, 0), CUDA_ERROR_INVALID_VALUE) << "no such node";
}

TEST_F(Driver, VirtualMemoryMapsUnmapsAndRemaps) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = kOnDevice;
  CUdeviceptr range = 0;
  std::array<CUmemGenericAllocationHandle, 2> handles{};
  ASSERT_EQ(cuMemAddressReserve(&range, 4 * kTestChunk, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8_v2(range, 0, 4), CUDA_ERROR_INVALID_VALUE);  // addresses without memory
  const CUmemAccessDesc access{kOnDevice, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(cuMemCreate(&handles[i], kTestChunk, &properties, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuMemMap(range + i * kTestChunk, kTestChunk, 0, handles[i], 0), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuMemsetD8_v2(range, 0, 4), CUDA_ERROR_INVALID_VALUE);  // no access yet
  ASSERT_EQ(cuMemSetAccess(range, 2 * kTestChunk, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8_v2(range, 0, 2 * kTestChunk), CUDA_SUCCESS);
  ASSERT_EQ(launch(range, 2 * kTestChunk), CUDA_SUCCESS);  // spans two mappings
  ASSERT_EQ(cuMemUnmap(range, kTestChunk), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8_v2(range, 0, 4), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(range + 3 * kTestChunk, kTestChunk, 0, handles[0], 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemSetAccess(range + 3 * kTestChunk, kTestChunk, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(at(range + 3 * kTestChunk), 1.0F);                                   // the same physical memory
  EXPECT_EQ(cuMemAddressFree(range, 4 * kTestChunk), CUDA_ERROR_INVALID_VALUE);  // still mapped
  ASSERT_EQ(cuMemUnmap(range + kTestChunk, kTestChunk), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(range + 3 * kTestChunk, kTestChunk), CUDA_SUCCESS);
  const auto plain_before = statistics().plain_bytes;
  for (const auto handle : handles) EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(plain_before - statistics().plain_bytes, 2 * kTestChunk);
  EXPECT_EQ(cuMemAddressFree(range, 4 * kTestChunk), CUDA_SUCCESS);
}

TEST_F(Driver, IpcOfManagedMemoryIsInvalidValue) {
  CUipcMemHandle handle{};
  EXPECT_EQ(cuIpcGetMemHandle(&handle, managed(kTestChunk)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuIpcGetMemHandle(&handle, plain(kTestChunk)), CUDA_SUCCESS);
  CUdeviceptr p = 0;
  EXPECT_EQ(cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_CONTEXT);  // its own
}

TEST_F(Driver, ThreadsWithoutOrWithPoppedContextsAreToldSo) {
  std::thread([&] {
    CUdeviceptr p = 0;
    EXPECT_EQ(cuMemAlloc_v2(&p, 64), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxPushCurrent_v2(context_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc_v2(&p, 64), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree_v2(p), CUDA_SUCCESS);
    CUcontext popped = nullptr;
    EXPECT_EQ(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    EXPECT_EQ(popped, context_);
    EXPECT_EQ(cuMemAlloc_v2(&p, 64), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
  CUcontext primary = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(primary), CUDA_SUCCESS);
    CUdeviceptr p = 0;
    EXPECT_EQ(cuMemAlloc_v2(&p, 64), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc_v2(&p, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }).join();
}

TEST_F(Driver, ManyThreadsAllocateLaunchAndFree) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
      const CUstream own = stream();
      for (int i = 0; i < 50; ++i) {
        const CUdeviceptr p = managed(kTestChunk);
        ASSERT_EQ(cuMemsetD8Async(p, 0, 4096, own), CUDA_SUCCESS);
        ASSERT_EQ(launch(p, 4096, own), CUDA_SUCCESS);
        ASSERT_EQ(cuMemPrefetchAsync_v2(p, kTestChunk, i % 2 == 0 ? kOnHost : kOnDevice, 0, own), CUDA_SUCCESS);
        ASSERT_EQ(at(p), 1.0F);
        ASSERT_EQ(cuMemFree_v2(p), CUDA_SUCCESS);
      }
      ASSERT_EQ(cuStreamDestroy_v2(own), CUDA_SUCCESS);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(statistics().live_allocations, before_.live_allocations);
}

TEST_F(Driver, ErrorsHaveNamesAndTexts) {
  const char* text = nullptr;
  ASSERT_EQ(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  ASSERT_EQ(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

TEST_F(Driver, TheNarrowAbiIsThereAndRefuses) {
  CUdeviceptr_v1 p = 0;
  EXPECT_EQ(cuMemAlloc(&p, 64), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace spillway::simulated
