// What the launch path's benchmark and its count of instructions share: 10,000 live allocations, a kernel of 60 words,
// and argument sets for it.
#pragma once

#include <array>
#include <random>
#include <vector>

#include "shim/recorder.hpp"

namespace spillway::shim {

inline constexpr std::size_t kWords = 60;
inline constexpr std::uint32_t kAllocations = 10'000;
inline constexpr std::uint64_t kBase = 0x7f00'0000'0000;
inline const void* const kKernel = reinterpret_cast<const void*>(0x1000);

inline CUresult kernel_name(const char** name, CUkernel) {
  *name = "_Z6kernelPf";
  return CUDA_SUCCESS;
}
inline CUresult kernel_parameter(CUkernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (index >= kWords) return CUDA_ERROR_INVALID_VALUE;
  *offset = index * 8;
  *size = 8;
  return CUDA_SUCCESS;
}
inline std::vector<std::uint64_t> prepare() {
  std::vector<std::uint64_t> begins;
  LaunchPath& path = launch_path();
  std::uint64_t at = kBase;
  std::mt19937_64 random(1);
  for (std::uint32_t i = 1; i <= kAllocations; ++i) {
    const std::uint64_t pages = 1 + random() % 4;
    path.addresses.insert({at}, policy::Bytes(pages << 21), {i});
    begins.push_back(at);
    at += pages << 21;
  }
  Driver driver;
  driver.cuKernelGetName = kernel_name;
  driver.cuKernelGetParamInfo = kernel_parameter;
  path.functions.learn(kKernel, driver);
  path.use_counter = counter_is_even();
  path.recording = true;
  return begins;
}

inline constexpr std::size_t kSets = 512;

// Many argument sets, so that neither the branch predictor nor the cache knows what comes.
struct ArgumentSets {
  std::vector<std::array<std::uint64_t, kWords>> sets;
  std::vector<std::array<void*, kWords>> parameters;
};

inline ArgumentSets make_arguments(std::size_t pointers) {
  static const std::vector<std::uint64_t> begins = prepare();
  ArgumentSets arguments;
  std::vector<std::array<std::uint64_t, kWords>>& sets = arguments.sets;
  sets.resize(kSets);
  std::mt19937_64 random(2);
  for (auto& set : sets) {
    for (std::size_t i = 0; i < kWords; ++i) {
      const bool pointer = i * pointers / kWords != (i + 1) * pointers / kWords;
      const std::uint64_t other[] = {random() % 4096, 0x3f800000, 0, random() % (std::uint64_t{1} << 34)};
      set[i] = pointer ? begins[random() % begins.size()] + random() % (1 << 21) / 16 * 16 : other[random() % 4];
    }
  }
  arguments.parameters.resize(kSets);
  for (std::size_t s = 0; s < kSets; ++s) {
    for (std::size_t i = 0; i < kWords; ++i) arguments.parameters[s][i] = &sets[s][i];
  }
  return arguments;
}

}  // namespace spillway::shim
