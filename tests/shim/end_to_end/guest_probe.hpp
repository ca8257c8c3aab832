// What the parts of the probe share: each scenario prints one line a fact, the same whether or not anybody is
// preloaded, so that a test compares whole outputs.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "tools/simulated_device/inspection.hpp"

namespace spillway::probe {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kBlock = 4 * kMiB;  // large enough to spill

inline void say(const char* what, CUresult code) { std::printf("%s: %d\n", what, static_cast<int>(code)); }
inline void say(const char* what, std::uint64_t number) {
  std::printf("%s: %llu\n", what, static_cast<unsigned long long>(number));
}

// The driver's code, and how often the driver was called for it: by `symbol`, or by what may stand in its place.
template <class Call>
CUresult forwarded(const char* what, const char* symbol, Call call) {
  const std::uint64_t before = spillway_simulated_calls(symbol);
  const CUresult code = call();
  std::printf("%s: %d, forwarded %llu\n", what, static_cast<int>(code),
              static_cast<unsigned long long>(spillway_simulated_calls(symbol) - before));
  return code;
}

struct Device {
  CUcontext context = nullptr;
  CUlibrary library = nullptr;
  CUkernel add_one = nullptr;
};
// cuInit, a context, the tests' kernels.
Device start();
CUresult launch_add_one(const Device& device, CUdeviceptr data, std::size_t bytes, CUstream stream = nullptr);

// Of guest_probe_memory.cpp. Memory that is zero; ends the program where there is none.
CUdeviceptr zeroed(std::size_t bytes);
float first_value(CUdeviceptr memory);
std::size_t free_on_device();  // as the program is told
CUmemAllocationProp on_device(CUmemAllocationHandleType shared = CU_MEM_HANDLE_TYPE_NONE);

void null_outputs();
void frees();
void out_of_memory();
void contexts();
void launches();
void capture();
void mapped();
void pools();
void information();
void attributes();
void sharing();
void hints();
void forks();
void forks_first();
void forks_execs();
void ends(const char* way);
void work(const char* rounds);
void watched(const char* how);

// Of guest_probe_paths.cpp.
void captures_under_pressure();
void first_spill_in_a_capture();
void captures_begin_and_end();
void remaps();
void imports();
void own_managed();
void library_memory(const char* path);
void never_starts();
void bad_attributes();

// Of guest_probe_spill.cpp.
void mapped_spills();
void mapped_stays();
void pools_spill();
void pools_order();
void pools_look();
void pools_end();
void pools_threads();

// Of guest_probe_sharing.cpp.
void imports_ipc();
void mapped_then_small();
void graph_replays(const char* replays);

// Of guest_probe_pools.cpp.
void pools_too_large();
void pools_held_elsewhere();
void pools_in_a_query();
void frees_in_a_query();
void pools_refusals();
void pools_contexts_end();
void spilled_held();
void pools_held_at_the_end();

// Of guest_probe_hardship.cpp.
void loads_library(const char* path);
void ends_by_threads();
void asks_without_memory();
void cancels_threads();
void cancels_in_the_driver(const char* what);
void captures_own_stream();
void captures_end_early();
void ends_contexts();
void reader_gone();
void raw_forks();
void forks_and_calls();
void error_reused(const char* path);
void error_closed(const char* path);

// Of guest_probe_ends.cpp.
void pool_frees();
void pools_of_another_device();
void too_large_in_a_wrong_stream();
void many_small();
void small_first();
void without_descriptors();
void leaves_at_once();

// Of guest_probe_refusals.cpp.
void wrong_and_too_large();
void captured_allocation();
void hints_on_plain();
void asks_during_a_free();
void takes_room_away();
void asks_at_the_start();
void far_too_much();
void churns();

}  // namespace spillway::probe
