// What Spillway adds to one kernel launch: 60 argument words, 10,000 live allocations. `launch_path_of_60_words` is the
// reading and the record alone, over a null function; `launch_through_the_exported_symbol` is a whole cuLaunchKernel as
// a program calls it, through the exported symbol, down to a stand-in driver that only counts.
//
//   ./launch_path_benchmark --benchmark_repetitions=15 --benchmark_report_aggregates_only=true
//
// `pointers` is how many of the 60 words are pointers into live allocations; the rest are sizes, floats and zeros, as
// in real launches. The ring is drained outside the measured time.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "shim/recorder.hpp"

namespace spillway::shim {
namespace {

constexpr std::size_t kWords = 60;
constexpr std::uint32_t kAllocations = 10'000;
constexpr std::uint64_t kBase = 0x7f00'0000'0000;
const void* const kKernel = reinterpret_cast<const void*>(0x1000);

CUresult kernel_name(const char** name, CUkernel) {
  *name = "_Z6kernelPf";
  return CUDA_SUCCESS;
}
CUresult kernel_parameter(CUkernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (index >= kWords) return CUDA_ERROR_INVALID_VALUE;
  *offset = index * 8;
  *size = 8;
  return CUDA_SUCCESS;
}
[[gnu::noinline]] CUresult null_driver_call() {
  benchmark::ClobberMemory();
  return CUDA_SUCCESS;
}

std::vector<std::uint64_t> prepare() {
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

constexpr std::size_t kSets = 512;

// Many argument sets, so that neither the branch predictor nor the cache knows what comes.
struct ArgumentSets {
  std::vector<std::array<std::uint64_t, kWords>> sets;
  std::vector<std::array<void*, kWords>> parameters;
};

ArgumentSets make_arguments(std::size_t pointers) {
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

template <class Launch>
void measure(benchmark::State& state, const Launch& launch) {
  ArgumentSets arguments = make_arguments(static_cast<std::size_t>(state.range(0)));
  std::size_t launches = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(launch(arguments.parameters[launches % kSets].data()));
    if (++launches % 1024 == 0) {
      state.PauseTiming();
      launch_path().rings.drain([](const RecordHeader&) {});
      state.ResumeTiming();
    }
  }
  launch_path().rings.drain([](const RecordHeader&) {});
  if (launch_path().rings.take_dropped() != 0)
    state.SkipWithError("records were dropped: the figure would be too good");
}

void launch_path_of_60_words(benchmark::State& state) {
  const HookScope inside;  // as the entry makes it
  measure(state, [](void** parameters) {
    return record_launch({kKernel, 1024, parameters, nullptr, nullptr, false}, null_driver_call);
  });
}
void launch_through_the_exported_symbol(benchmark::State& state) {
  if (!find_driver(Search::load)) {
    state.SkipWithError("no stand-in driver was found beside the benchmark");
    return;
  }
  const auto kernel = static_cast<CUfunction>(const_cast<void*>(kKernel));
  measure(state, [kernel](void** parameters) {
    return ::cuLaunchKernel(kernel, 1024, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  });
}
// The same call without us: what of the time above is the stand-in's own.
void launch_of_the_stand_in_alone(benchmark::State& state) {
  if (!find_driver(Search::load)) {
    state.SkipWithError("no stand-in driver was found beside the benchmark");
    return;
  }
  const auto real = real_function<HookId::cuLaunchKernel>();
  const auto kernel = static_cast<CUfunction>(const_cast<void*>(kKernel));
  measure(state, [real, kernel](void** parameters) {
    return real(kernel, 1024, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  });
}
BENCHMARK(launch_through_the_exported_symbol)->ArgName("pointers")->Arg(10)->Arg(60)->Iterations(200'000);
BENCHMARK(launch_of_the_stand_in_alone)->ArgName("pointers")->Arg(10)->Iterations(200'000);
BENCHMARK(launch_path_of_60_words)->ArgName("pointers")->Arg(4)->Arg(10)->Arg(30)->Arg(60)->Iterations(200'000);

}  // namespace
}  // namespace spillway::shim

BENCHMARK_MAIN();
