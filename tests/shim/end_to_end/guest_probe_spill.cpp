// The probe's memory that spills in ways of its own: map-style handles, and pools in the order of streams.
#include <dlfcn.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {
namespace {

std::vector<CUmemGenericAllocationHandle> create_until_refused(const CUmemAllocationProp& properties) {
  std::vector<CUmemGenericAllocationHandle> held;
  CUmemGenericAllocationHandle handle = 0;
  CUresult code = CUDA_SUCCESS;
  while (held.size() < 100 && (code = cuMemCreate(&handle, kBlock, &properties, 0)) == CUDA_SUCCESS) {
    held.push_back(handle);
  }
  say("refused", code);
  say("held", held.size());
  return held;
}

}  // namespace

// As caching allocators with growing segments do it: one range, filled piece by piece, used as a whole.
void mapped_spills() {
  const Device device = start();
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = on_device(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  // Everything that is made on first use is there before the figures are compared.
  cuMemCreate(&handle, kBlock, &properties, 0);
  cuMemRelease(handle);
  const std::size_t before = free_on_device();
  std::vector<CUmemGenericAllocationHandle> held = create_until_refused(properties);
  CUdeviceptr range = 0;
  const std::size_t bytes = held.size() * kBlock;
  say("reserve", cuMemAddressReserve(&range, bytes, 0, 0, 0));
  std::uint64_t failed = 0;
  for (std::size_t i = 0; i < held.size(); ++i) failed += cuMemMap(range + i * kBlock, kBlock, 0, held[i], 0) != 0;
  say("maps failed", failed);
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  say("access", cuMemSetAccess(range, bytes, &access, 1));
  say("fill", cuMemsetD8_v2(range, 0, bytes));
  for (std::size_t i = 0; i < held.size(); ++i) launch_add_one(device, range + i * kBlock, kBlock);
  say("launches", cuCtxSynchronize());
  float sum = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    float value = 0;
    cuMemcpyDtoH_v2(&value, range + i * kBlock + kBlock - sizeof value, sizeof value);
    sum += value;
  }
  std::printf("each is one: %d\n", sum == static_cast<float>(held.size()));
  for (const std::size_t i : {std::size_t{0}, held.size() - 1}) {
    CUmemAllocationProp seen{};
    say("properties", cuMemGetAllocationPropertiesFromHandle(&seen, held[i]));
    std::printf("location %d %d, handle types %d\n", static_cast<int>(seen.location.type), seen.location.id,
                static_cast<int>(seen.requestedHandleTypes));
    unsigned managed = 7;
    CUmemorytype type{};
    int ordinal = -5;
    cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, range + i * kBlock + 100);
    cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, range + i * kBlock + 100);
    cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, range + i * kBlock + 100);
    std::printf("managed %u type %d ordinal %d\n", managed, static_cast<int>(type), ordinal);
  }
  say("unmap", cuMemUnmap(range, bytes));
  failed = 0;
  for (const CUmemGenericAllocationHandle each : held) failed += cuMemRelease(each) != 0;
  say("releases failed", failed);
  say("free range", cuMemAddressFree(range, bytes));
  std::printf("figure: free before %zu, free after %zu\n", before, free_on_device());
}

// What must stay device memory: shared over fabric, compressed, or asked of host memory by name.
void mapped_stays() {
  start();
  CUmemAllocationProp fabric = on_device(CU_MEM_HANDLE_TYPE_FABRIC);
  CUmemAllocationProp compressed = on_device();
  compressed.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
  for (const CUmemAllocationProp& properties : {fabric, compressed}) {
    for (const CUmemGenericAllocationHandle each : create_until_refused(properties)) cuMemRelease(each);
  }
  CUmemAllocationProp host = on_device();
  host.location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp seen{};
  say("host by name", cuMemCreate(&handle, kBlock, &host, 0));
  cuMemGetAllocationPropertiesFromHandle(&seen, handle);
  say("its location", static_cast<std::uint64_t>(seen.location.type));
  cuMemRelease(handle);
}

namespace {

std::uint64_t pool_figure(CUmemoryPool pool, CUmemPool_attribute which) {
  cuuint64_t value = 0;
  cuMemPoolGetAttribute(pool, which, &value);
  return value;
}

CUmemoryPool standard_pool() {
  CUmemoryPool pool = nullptr;
  cuDeviceGetDefaultMemPool(&pool, 0);
  return pool;
}

}  // namespace

// Far more than the device holds, freed again in the order of the stream.
void pools_spill() {
  const Device device = start();
  const CUmemoryPool pool = standard_pool();
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  CUdeviceptr memory = 0;
  cuMemAllocAsync(&memory, kBlock, stream);
  cuMemFreeAsync(memory, stream);
  cuStreamSynchronize(stream);
  cuMemPoolTrimTo(pool, 0);
  const std::size_t before = free_on_device();
  std::vector<CUdeviceptr> held;
  CUresult code = CUDA_SUCCESS;
  while (held.size() < 100 && (code = cuMemAllocAsync(&memory, kBlock, stream)) == CUDA_SUCCESS) {
    held.push_back(memory);
    cuMemsetD8Async(memory, 0, kBlock, stream);
    launch_add_one(device, memory, kBlock, stream);
  }
  say("refused", code);
  say("held", held.size());
  say("done", cuStreamSynchronize(stream));
  float sum = 0;
  for (const CUdeviceptr each : held) sum += first_value(each);
  std::printf("each is one: %d\n", sum == static_cast<float>(held.size()));
  std::printf("used %d reserved %d high %d\n",
              pool_figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == held.size() * kBlock,
              pool_figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= held.size() * kBlock,
              pool_figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= held.size() * kBlock);
  say("free", cuMemFreeAsync(held.back(), stream));
  say("free again", cuMemFreeAsync(held.back(), stream));
  say("free again at once", cuMemFree_v2(held.back()));
  say("again", cuMemAllocAsync(&memory, kBlock, stream));
  held.back() = memory;
  say("free inside", cuMemFree_v2(held.front() + 4096));
  std::uint64_t failed = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    failed += (i % 4 == 0 ? cuMemFree_v2(held[i]) : cuMemFreeAsync(held[i], stream)) != CUDA_SUCCESS;
  }
  say("frees failed", failed);
  say("used", pool_figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  // What the pool holds is free to other memory.
  say("plain after all", cuMemAlloc_v2(&memory, 24 * kMiB));
  say("free plain", cuMemFree_v2(memory));
  say("done", cuStreamSynchronize(stream));
  say("trim", cuMemPoolTrimTo(pool, 0));
  say("reserved", pool_figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  std::printf("figure: free before %zu, free after %zu\n", before, free_on_device());
  cuStreamDestroy_v2(stream);
}

// Work that waits for the host, behind which memory is freed: another stream that asks for as much must not be heard of
// by that work, and it not by the other.
void pools_order() {
  const Device device = start();
  const CUmemoryPool pool = standard_pool();
  cuuint64_t keep = ~cuuint64_t{0};
  cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  const auto per_thread = [](const char* name, auto* like) {
    return reinterpret_cast<decltype(like)>(dlsym(RTLD_DEFAULT, name));
  };
  const auto allocate_own = per_thread("cuMemAllocAsync_ptsz", &cuMemAllocAsync);
  const auto free_own = per_thread("cuMemFreeAsync_ptsz", &cuMemFreeAsync);
  const auto fill_own = per_thread("cuMemsetD32Async_ptsz", &cuMemsetD32Async);
  CUstream first = nullptr;
  CUstream second = nullptr;
  cuStreamCreate(&first, CU_STREAM_NON_BLOCKING);
  cuStreamCreate(&second, CU_STREAM_NON_BLOCKING);
  constexpr unsigned kSeven = 0x40e00000;  // 7 as a float
  for (const int other : {0, 1, 2}) {
    for (const int may_wait : {1, 0}) {
      cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, const_cast<int*>(&may_wait));
      struct Gate {
        std::atomic<bool> open{false};
      } gate;
      CUdeviceptr before = 0;
      CUdeviceptr mine = 0;
      CUdeviceptr after = 0;
      cuMemAllocAsync(&before, 2 * kBlock, first);
      cuMemsetD8Async(before, 0, 2 * kBlock, first);
      cuLaunchHostFunc(
          first,
          [](void* of) {
            while (!static_cast<Gate*>(of)->open) std::this_thread::yield();
          },
          &gate);
      launch_add_one(device, before, 2 * kBlock, first);
      cuMemFreeAsync(before, first);
      cuMemAllocAsync(&mine, 2 * kBlock, first);
      std::printf("the same stream has it at once: %d\n", mine == before);
      cuMemFreeAsync(mine, first);
      const CUstream stream = other == 0 ? second : nullptr;
      CUresult code =
          other == 2 ? allocate_own(&after, 2 * kBlock, stream) : cuMemAllocAsync(&after, 2 * kBlock, stream);
      if (other == 2) {
        fill_own(after, kSeven, 2 * kBlock / 4, stream);
      } else {
        cuMemsetD32Async(after, kSeven, 2 * kBlock / 4, stream);
      }
      gate.open = true;
      say("asked by another", code);
      cuCtxSynchronize();
      std::printf("it holds %g\n", static_cast<double>(first_value(after)));
      code = other == 2 ? free_own(after, stream) : cuMemFreeAsync(after, stream);
      say("freed", code);
      cuCtxSynchronize();
    }
  }
  say("trim", cuMemPoolTrimTo(pool, 0));
  cuStreamDestroy_v2(first);
  cuStreamDestroy_v2(second);
}

// Which of the program's requests are served how, and what a block looks like.
void pools_look() {
  start();
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool own = nullptr;
  CUmemoryPool shared = nullptr;
  say("create", cuMemPoolCreate(&own, &properties));
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  say("create", cuMemPoolCreate(&shared, &properties));
  CUdeviceptr of_own = 0;
  CUdeviceptr of_shared = 0;
  CUdeviceptr small = 0;
  CUdeviceptr odd = 0;
  say("of own", cuMemAllocFromPoolAsync(&of_own, kBlock, own, stream));
  say("second of own", cuMemAllocFromPoolAsync(&odd, kBlock + 1000, own, stream));
  say("of shared", cuMemAllocFromPoolAsync(&of_shared, kBlock, shared, stream));
  say("small", cuMemAllocAsync(&small, kMiB, stream));
  say("done", cuStreamSynchronize(stream));
  std::printf("figure managed: %d %d %d\n", spillway_simulated_residency(of_own),
              spillway_simulated_residency(of_shared), spillway_simulated_residency(small));
  for (const CUdeviceptr at : {odd, odd + 5000}) {
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    say("address range", cuMemGetAddressRange_v2(&base, &bytes, at));
    std::printf("base %d bytes %zu\n", base == odd, bytes);
    unsigned managed = 7;
    CUmemorytype type{};
    say("managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
    say("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    base = 0;
    bytes = 0;
    say("start", cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at));
    say("size", cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
    std::printf("managed %u type %d base %d bytes %zu\n", managed, static_cast<int>(type), base == odd, bytes);
  }
  CUgraph graph = nullptr;
  CUdeviceptr inside = 0;
  say("begin", cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  // Memory nodes are not simulated: the driver's own code says that the call came to it.
  say("inside a capture", cuMemAllocAsync(&inside, kBlock, stream));
  cuStreamEndCapture(stream, &graph);
  say("free", cuMemFreeAsync(of_own, stream));
  say("destroy", cuMemPoolDestroy(own));
  say("free after", cuMemFreeAsync(odd, stream));
  say("free", cuMemFreeAsync(of_shared, stream));
  say("destroy", cuMemPoolDestroy(shared));
  say("free", cuMemFreeAsync(small, stream));
  cuStreamSynchronize(stream);
  CUdeviceptr memory = 0;
  say("plain", cuMemAlloc_v2(&memory, kBlock));
  say("free", cuMemFree_v2(memory));
  cuStreamDestroy_v2(stream);
}

// The context takes the pools' memory with it.
void pools_end() {
  const Device device = start();
  CUdeviceptr memory = 0;
  CUcontext other = nullptr;
  cuMemAlloc_v2(&memory, kBlock);
  cuMemFree_v2(memory);
  const std::size_t before = free_on_device();
  cuCtxCreate_v2(&other, 0, 0);
  say("alloc", cuMemAllocAsync(&memory, kBlock, nullptr));
  say("destroy", cuCtxDestroy_v2(other));
  cuCtxSetCurrent(device.context);
  say("free of its memory", cuMemFree_v2(memory));
  std::printf("figure: free before %zu, free after %zu\n", before, free_on_device());
  // Freed in a stream of another context: what was there before is over.
  cuCtxCreate_v2(&other, 0, 0);
  say("alloc", cuMemAllocAsync(&memory, kBlock, nullptr));
  cuCtxSetCurrent(device.context);
  say("free in another context", cuMemFreeAsync(memory, nullptr));
  say("destroy", cuCtxDestroy_v2(other));
  cuCtxSetCurrent(device.context);
}

// Threads with a stream each, all at once.
void pools_threads() {
  const Device device = start();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&device, &wrong, number] {
      cuCtxSetCurrent(device.context);
      CUstream stream = nullptr;
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      for (int round = 0; round < 30; ++round) {
        CUdeviceptr memory = 0;
        const std::size_t bytes = kBlock + static_cast<std::size_t>(number) * kMiB;
        if (cuMemAllocAsync(&memory, bytes, stream) != CUDA_SUCCESS) continue;
        cuMemsetD8Async(memory, 0, bytes, stream);
        for (int i = 0; i <= number; ++i) launch_add_one(device, memory, bytes, stream);
        cuStreamSynchronize(stream);
        if (first_value(memory) != static_cast<float>(number + 1)) ++wrong;
        if ((round % 3 == 0 ? cuMemFree_v2(memory) : cuMemFreeAsync(memory, stream)) != CUDA_SUCCESS) ++wrong;
      }
      cuStreamDestroy_v2(stream);
    });
  }
  for (std::thread& each : threads) each.join();
  cuCtxSynchronize();
  std::printf("wrong: %d\n", wrong.load());
  say("trim", cuMemPoolTrimTo(standard_pool(), 0));
}

}  // namespace spillway::probe
