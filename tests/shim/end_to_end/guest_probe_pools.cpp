// The probe's hardships of memory in the order of streams: wrong sizes, work that does not end, other contexts.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/shim/end_to_end/guest_probe.hpp"

namespace spillway::probe {
namespace {

// Holds a stream up until this thread says so: whoever waits for the stream before, waits for ever.
class Gate {
 public:
  void hold(CUstream stream) {
    say("held", cuLaunchHostFunc(
                    stream,
                    [](void* open) {
                      while (!*static_cast<std::atomic<bool>*>(open)) std::this_thread::yield();
                    },
                    &open_));
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

CUstream new_stream() {
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  return stream;
}

// What the pool keeps is not the program's to free.
void trim() {
  CUmemoryPool pool = nullptr;
  cuDeviceGetDefaultMemPool(&pool, 0);
  say("trim", cuMemPoolTrimTo(pool, 0));
}

}  // namespace

namespace {

// Of ours, which does not come back.
void wait_for_a_query() {
  while (spillway_simulated_calls("cuEventQuery") == 0) std::this_thread::yield();
}

}  // namespace

// One thread asks whether a stream is over; that holds up no other that ends a stream, or frees.
void pools_in_a_query() {
  const Device device = start();
  const CUstream stream = new_stream();
  const CUstream other = new_stream();
  CUdeviceptr memory[2] = {};
  for (CUdeviceptr& each : memory) say("alloc", cuMemAllocAsync(&each, kBlock, stream));
  say("free", cuMemFreeAsync(memory[0], stream));
  std::thread([&device, other] {
    CUdeviceptr more = 0;
    cuCtxSetCurrent(device.context);
    cuMemAllocAsync(&more, kBlock, other);
  }).detach();
  wait_for_a_query();
  say("destroy", cuStreamDestroy_v2(new_stream()));
  say("free", cuMemFreeAsync(memory[1], stream));
}

// The same of memory that is freed once its stream is over, and the end of its context.
void frees_in_a_query() {
  const Device device = start();
  CUcontext other = nullptr;
  CUdeviceptr memory = 0;
  cuCtxCreate_v2(&other, 0, 0);
  say("alloc", cuMemAlloc_v2(&memory, kBlock));
  say("free", cuMemFreeAsync(memory, new_stream()));
  wait_for_a_query();
  say("destroy", cuCtxDestroy_v2(other));
  cuCtxSetCurrent(device.context);
  say("alloc", cuMemAlloc_v2(&memory, kBlock));
  say("free", cuMemFree_v2(memory));
}

// Sizes that overflow when they are rounded up, and such as no machine has.
void pools_too_large() {
  start();
  CUmemoryPool pool = nullptr;
  cuDeviceGetDefaultMemPool(&pool, 0);
  CUstream stream = nullptr;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  CUdeviceptr held = 0;
  say("alloc", cuMemAllocAsync(&held, 4 * kMiB, stream));
  constexpr std::size_t kAll = ~std::size_t{0};
  for (const std::size_t bytes : {kAll, kAll - 100, kAll - 0xffff, kAll - 0x1fffff, kAll - 0x200000, kAll >> 1U,
                                  (kAll >> 1U) + 1, std::size_t{1} << 56U, std::size_t{1} << 40U}) {
    CUdeviceptr memory = 0;
    say("async", cuMemAllocAsync(&memory, bytes, stream));
    say("from pool", cuMemAllocFromPoolAsync(&memory, bytes, pool, stream));
  }
  say("free", cuMemFreeAsync(held, stream));
  say("done", cuStreamSynchronize(stream));
  trim();
  cuStreamDestroy_v2(stream);
}

// Freed in a stream of another context that does not go on before the same thread does.
void pools_held_elsewhere() {
  const Device device = start();
  const CUstream stream = new_stream();
  CUdeviceptr memory = 0;
  say("alloc", cuMemAllocAsync(&memory, 8 * kMiB, stream));
  say("fill", cuMemsetD8Async(memory, 1, 8 * kMiB, stream));
  say("done", cuStreamSynchronize(stream));
  CUcontext other = nullptr;
  cuCtxCreate_v2(&other, 0, 0);
  const CUstream elsewhere = new_stream();
  Gate gate;
  gate.hold(elsewhere);
  say("free", cuMemFreeAsync(memory, elsewhere));
  say("free again", cuMemFreeAsync(memory, elsewhere));
  gate.open();
  say("done", cuCtxSynchronize());
  cuCtxSetCurrent(device.context);
  say("alloc", cuMemAllocAsync(&memory, 8 * kMiB, stream));
  say("free", cuMemFreeAsync(memory, stream));
  cuCtxSetCurrent(other);
  say("alloc elsewhere", cuMemAllocAsync(&memory, 8 * kMiB, elsewhere));
  say("free", cuMemFreeAsync(memory, elsewhere));
  say("destroy", cuCtxDestroy_v2(other));
  cuCtxSetCurrent(device.context);
  say("alloc", cuMemAllocAsync(&memory, 8 * kMiB, stream));
  say("free", cuMemFreeAsync(memory, stream));
  say("done", cuStreamSynchronize(stream));
  trim();
  cuStreamDestroy_v2(stream);
}

// All that is free is behind work that does not go on before the same thread does: others hear of out of memory.
void pools_held_at_the_end() {
  start();
  const CUstream held = new_stream();
  const CUstream other = new_stream();
  CUdeviceptr memory = 0;
  say("alloc", cuMemAllocAsync(&memory, 40 * kMiB, held));
  say("done", cuStreamSynchronize(held));
  Gate gate;
  gate.hold(held);
  say("free", cuMemFreeAsync(memory, held));
  CUdeviceptr refused = 0;
  say("alloc", cuMemAllocAsync(&refused, 44 * kMiB, other));
  say("again", cuMemAllocAsync(&memory, 40 * kMiB, held));
  say("free", cuMemFreeAsync(memory, held));
  gate.open();
  say("done", cuCtxSynchronize());
  say("alloc", cuMemAllocAsync(&memory, 40 * kMiB, other));
  say("free", cuMemFreeAsync(memory, other));
  say("done", cuStreamSynchronize(other));
  trim();
  cuStreamDestroy_v2(held);
  cuStreamDestroy_v2(other);
}

// Plain memory freed in the order of a stream that does not go on before the same thread does.
void spilled_held() {
  const Device device = start();
  const CUstream stream = new_stream();
  CUdeviceptr memory = 0;
  CUdeviceptr other = 0;
  for (int round = 0; round < 3; ++round) {
    say("alloc", cuMemAlloc_v2(&memory, 20 * kMiB));
    say("fill", cuMemsetD8Async(memory, 0, 20 * kMiB, stream));
    Gate gate;
    gate.hold(stream);
    launch_add_one(device, memory, 20 * kMiB, stream);
    say("free", cuMemFreeAsync(memory, stream));
    say("free again", cuMemFreeAsync(memory, stream));
    gate.open();
    say("free at once", cuMemFree_v2(memory));
    say("done", cuStreamSynchronize(stream));
    // Nearly all that there is, so that the freed memory must be gone.
    say("alloc", cuMemAlloc_v2(&other, 50 * kMiB));
    say("free", cuMemFree_v2(other));
  }
  CUcontext context = nullptr;
  cuCtxCreate_v2(&context, 0, 0);
  const CUstream elsewhere = new_stream();
  say("alloc", cuMemAlloc_v2(&memory, 20 * kMiB));
  Gate gate;
  gate.hold(elsewhere);
  say("free", cuMemFreeAsync(memory, elsewhere));
  gate.open();
  say("destroy", cuCtxDestroy_v2(context));
  cuCtxSetCurrent(device.context);
  say("alloc", cuMemAlloc_v2(&memory, 50 * kMiB));
  say("free", cuMemFreeAsync(memory, stream));
  say("done", cuStreamSynchronize(stream));
  // What is left to do is done before this is said.
  say("too much", cuMemAlloc_v2(&other, 100 * kMiB));
  cuStreamDestroy_v2(stream);
}

// Threads whose contexts end beside each other, so that addresses and names go from one to the next at once.
void pools_contexts_end() {
  cuInit(0);
  std::atomic<int> bad{0};
  const auto expect = [&bad](CUresult code) { bad += code != CUDA_SUCCESS ? 1 : 0; };
  for (const bool own : {true, false}) {
    std::vector<std::thread> threads;
    for (int number = 0; number < 6; ++number) {
      threads.emplace_back([&expect, own] {
        for (int round = 0; round < 40; ++round) {
          CUcontext context = nullptr;
          expect(own ? cuCtxCreate_v2(&context, 0, 0) : cuDevicePrimaryCtxRetain(&context, 0));
          expect(cuCtxSetCurrent(context));
          const CUstream stream = new_stream();
          CUdeviceptr pooled = 0;
          CUdeviceptr plain = 0;
          expect(cuMemAllocAsync(&pooled, 2 * kMiB, stream));
          expect(cuMemAlloc_v2(&plain, 2 * kMiB));
          expect(cuMemsetD8Async(pooled, 1, 2 * kMiB, stream));
          if (round % 3 != 0) {
            expect(cuMemFreeAsync(pooled, stream));
            expect(cuMemFree_v2(plain));
          }
          expect(cuStreamSynchronize(stream));
          expect(cuStreamDestroy_v2(stream));
          if (own) {
            expect(cuCtxDestroy_v2(context));
          } else {
            expect(cuCtxSetCurrent(nullptr));
            expect(cuDevicePrimaryCtxRelease_v2(0));
          }
        }
      });
    }
    for (std::thread& each : threads) each.join();
  }
  std::printf("wrong codes: %d\n", bad.load());
}

// What is for managed memory alone, and what needs a context.
void pools_refusals() {
  const Device device = start();
  const CUstream stream = new_stream();
  CUdeviceptr spilled = 0;
  CUdeviceptr pooled = 0;
  say("alloc", cuMemAlloc_v2(&spilled, 30 * kMiB));
  say("alloc", cuMemAllocAsync(&pooled, 4 * kMiB, stream));
  for (const CUdeviceptr memory : {spilled, pooled}) {
    for (const CUmemAttach_flags flags : {CU_MEM_ATTACH_SINGLE, CU_MEM_ATTACH_HOST, CU_MEM_ATTACH_GLOBAL}) {
      say("attach", cuStreamAttachMemAsync(stream, memory, 0, flags));
    }
  }
  CUdeviceptr managed = 0;
  say("managed", cuMemAllocManaged(&managed, 4 * kMiB, CU_MEM_ATTACH_GLOBAL));
  say("attach", cuStreamAttachMemAsync(stream, managed, 0, CU_MEM_ATTACH_SINGLE));
  cuCtxSetCurrent(nullptr);
  say("free without a context", cuMemFree_v2(pooled));
  cuCtxSetCurrent(device.context);
  say("free", cuMemFree_v2(pooled));
  say("free again", cuMemFree_v2(pooled));
  say("free", cuMemFree_v2(spilled));
  say("free", cuMemFree_v2(managed));
  trim();
  cuStreamDestroy_v2(stream);
}

}  // namespace spillway::probe
