// What Spillway adds to one kernel launch: 60 argument words, 10,000 live allocations. `launch_path_of_60_words` is the
// reading and the record alone, over a null function; `launch_through_the_exported_symbol` is a whole cuLaunchKernel as
// a program calls it, through the exported symbol, down to a stand-in driver that only counts.
//
//   ./launch_path_benchmark --benchmark_repetitions=15 --benchmark_report_aggregates_only=true
//
// `pointers` is how many of the 60 words are pointers into live allocations; the rest are sizes, floats and zeros, as
// in real launches. The ring is drained outside the measured time.
#include <benchmark/benchmark.h>

#include "shim/recorder.hpp"
#include "tests/benchmarks/launch_path_setup.hpp"

namespace spillway::shim {
namespace {

[[gnu::noinline]] CUresult null_driver_call() {
  benchmark::ClobberMemory();
  return CUDA_SUCCESS;
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
