// The probe's requests that the driver refuses, and those that need the place of what another thread is giving back.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {
namespace {

constexpr std::size_t kTooMuch = std::size_t{1} << 32;  // for the budget and the card
// As large as plain memory gets in a run that spills; the simulated device takes 2 MiB for it.
constexpr std::size_t kLargestPlain = 2 * kMiB - 4096;

void wait_for_calls(const char* symbol, std::uint64_t count) {
  while (spillway_simulated_calls(symbol) < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

// Each has a mistake in it, and is too large besides.
void wrong_and_too_large() {
  start();
  CUdeviceptr memory = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUarray array = nullptr;
  CUstream gone = nullptr;
  CUmemoryPool pool = nullptr;
  CUmemPoolProps pool_properties{};
  pool_properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  pool_properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING);
  cuStreamDestroy_v2(gone);
  cuDeviceGetDefaultMemPool(&pool, 0);  // made first, so that it does not get the handle of the one that goes
  cuMemPoolCreate(&pool, &pool_properties);
  cuMemPoolDestroy(pool);
  say("ordered in a stream that is gone", cuMemAllocAsync(&memory, kTooMuch, gone));
  say("of a pool that is gone", cuMemAllocFromPoolAsync(&memory, kTooMuch, pool, nullptr));
  CUmemAllocationProp properties = on_device();
  say("physical of an odd size", cuMemCreate(&handle, kTooMuch + 1, &properties, 0));
  say("physical with flags", cuMemCreate(&handle, kTooMuch, &properties, 5));
  properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  say("physical of no type", cuMemCreate(&handle, kTooMuch, &properties, 0));
  properties = on_device();
  properties.location.id = 99;
  say("physical on no device", cuMemCreate(&handle, kTooMuch, &properties, 0));
  CUDA_ARRAY_DESCRIPTOR flat{std::size_t{1} << 16, std::size_t{1} << 16, CU_AD_FORMAT_FLOAT, 3};
  say("array of three channels", cuArrayCreate_v2(&array, &flat));
  flat.NumChannels = 1;
  flat.Format = static_cast<CUarray_format>(7);
  say("array of no format", cuArrayCreate_v2(&array, &flat));
  flat.Format = CU_AD_FORMAT_FLOAT;
  flat.Width = 0;
  say("array without width", cuArrayCreate_v2(&array, &flat));
  // Without a mistake it is the size that is wrong.
  properties = on_device();
  say("ordered", cuMemAllocAsync(&memory, kTooMuch, nullptr));
  say("physical", cuMemCreate(&handle, kTooMuch, &properties, 0));
  flat.Width = std::size_t{1} << 16;
  say("array", cuArrayCreate_v2(&array, &flat));
}

// Allocation while the thread's mode forbids it: the code, and what becomes of the capture.
void captured_allocation() {
  start();
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (const std::size_t bytes : {kMiB, 4 * kMiB, kTooMuch * 1024}) {
    for (const CUstreamCaptureMode kind :
         {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
      CUgraph graph = nullptr;
      CUdeviceptr memory = 0;
      std::size_t pitch = 0;
      say("begin", cuStreamBeginCapture_v2(stream, kind));
      say("alloc", cuMemAlloc_v2(&memory, bytes));
      say("pitched", bytes > 64 * kMiB ? CUDA_SUCCESS : cuMemAllocPitch_v2(&memory, &pitch, 4096, bytes / 4096, 4));
      say("end", cuStreamEndCapture(stream, &graph));
      if (graph != nullptr) cuGraphDestroy(graph);
      say("alloc afterwards", cuMemAlloc_v2(&memory, kMiB));
    }
  }
}

// What is for managed memory alone, asked of memory that was asked for as plain.
void hints_on_plain() {
  start();
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemLocation nowhere{CU_MEM_LOCATION_TYPE_INVALID, 0};
  CUdeviceptr memory = 0;
  cuMemAlloc_v2(&memory, 8 * kMiB);
  for (const CUdeviceptr at : {memory, memory + 4 * kMiB}) {
    int value = 5;
    void* values[] = {&value};
    std::size_t sizes[] = {sizeof value};
    CUmem_range_attribute names[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
    forwarded("advice", "cuMemAdvise_v2",
              [&] { return cuMemAdvise_v2(at, 4 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, device); });
    forwarded("older advice", "cuMemAdvise",
              [&] { return cuMemAdvise(at, 4 * kMiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU); });
    forwarded("prefetch", "cuMemPrefetchAsync_v2",
              [&] { return cuMemPrefetchAsync_v2(at, 4 * kMiB, device, 0, nullptr); });
    forwarded("prefetch to nowhere", "cuMemPrefetchAsync_v2",
              [&] { return cuMemPrefetchAsync_v2(at, 4 * kMiB, nowhere, 0, nullptr); });
    forwarded("older prefetch", "cuMemPrefetchAsync",
              [&] { return cuMemPrefetchAsync(at, 4 * kMiB, CU_DEVICE_CPU, nullptr); });
    forwarded("attribute", "cuMemRangeGetAttribute",
              [&] { return cuMemRangeGetAttribute(&value, sizeof value, names[0], at, 4 * kMiB); });
    forwarded("attributes", "cuMemRangeGetAttributes",
              [&] { return cuMemRangeGetAttributes(values, sizes, names, 1, at, 4 * kMiB); });
    std::printf("value %d\n", value);
    CUdeviceptr many[] = {at};
    std::size_t bytes[] = {4 * kMiB};
    CUmemLocation where[] = {device};
    std::size_t index[] = {0};
    forwarded("prefetches", "cuMemPrefetchBatchAsync",
              [&] { return cuMemPrefetchBatchAsync(many, bytes, 1, where, index, 1, 0, nullptr); });
    forwarded("discard", "cuMemDiscardBatchAsync", [&] { return cuMemDiscardBatchAsync(many, bytes, 1, 0, nullptr); });
    forwarded("discard and prefetch", "cuMemDiscardAndPrefetchBatchAsync",
              [&] { return cuMemDiscardAndPrefetchBatchAsync(many, bytes, 1, where, index, 1, 0, nullptr); });
  }
  cuMemFree_v2(memory);
}

// Plain memory is asked for while the only memory that could leave is on its way back to the driver.
void asks_during_a_free() {
  const Device device = start();
  CUdeviceptr large = 0;
  CUdeviceptr small = 0;
  say("alloc", cuMemAlloc_v2(&large, 8 * kMiB));
  say("launch", launch_add_one(device, large, 8 * kMiB));
  cuCtxSynchronize();
  std::thread other([&] {
    cuCtxSetCurrent(device.context);
    cuMemFree_v2(large);
  });
  wait_for_calls("cuMemFree_v2", 1);
  say("alloc during the free", cuMemAlloc_v2(&small, kLargestPlain));
  other.join();
  say("free", cuMemFree_v2(small));
}

// A second thread asks for all of the budget while the first one waits for what is made once.
void asks_at_the_start() {
  const Device device = start();
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  std::thread other([&] {
    cuCtxSetCurrent(device.context);
    say("alloc", cuMemAlloc_v2(&first, 2 * kMiB));
  });
  wait_for_calls("cuCtxCreate_v2", 2);  // the program's own, and the one that moves run in
  say("alloc", cuMemAlloc_v2(&second, 10 * kMiB));
  other.join();
  say("launch", launch_add_one(device, second, 10 * kMiB));
  cuCtxSynchronize();
  cuMemFree_v2(first);
  cuMemFree_v2(second);
}

// The memory that was to leave for plain memory is freed before it has left.
void takes_room_away() {
  const Device device = start();
  CUdeviceptr held[3] = {};
  CUdeviceptr small = 0;
  // The device is full after two. The third goes to the host, which keeps the way out busy.
  for (CUdeviceptr* memory : {&held[0], &held[1]}) say("alloc", cuMemAlloc_v2(memory, 4 * kMiB));
  std::thread third([&] {
    cuCtxSetCurrent(device.context);
    say("alloc", cuMemAlloc_v2(&held[2], 4 * kMiB));
  });
  // The third is on its way where there are such calls, else it is there at once.
  for (int i = 0; i < 200 && spillway_simulated_calls("cuMemPrefetchAsync_v2") < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::thread other([&] {
    cuCtxSetCurrent(device.context);
    say("alloc", cuMemAlloc_v2(&small, kLargestPlain));
  });
  // Long enough for the other to have asked for room; nothing here fails if it has not.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  cuMemFree_v2(held[1]);
  third.join();
  other.join();
  for (const CUdeviceptr memory : {held[0], held[2], small}) cuMemFree_v2(memory);
}

// For any machine, and no more than an address space holds.
void far_too_much() {
  start();
  CUdeviceptr memory = 0;
  say("far too much", cuMemAlloc_v2(&memory, std::size_t{16} << 40));
}

// Threads that allocate and free at once, more in all than the device holds: each takes what others are giving back.
void churns() {
  const Device device = start();
  std::atomic<std::uint64_t> refused{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      cuCtxSetCurrent(device.context);
      std::mt19937 random(seed);
      for (int i = 0; i < 300; ++i) {
        CUdeviceptr memory = 0;
        if (cuMemAlloc_v2(&memory, (4 + random() % 9) * kMiB) != CUDA_SUCCESS) {
          ++refused;
          continue;
        }
        cuMemsetD8_v2(memory, 1, kMiB);
        cuMemFree_v2(memory);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  say("refused", refused.load());
}

}  // namespace spillway::probe
