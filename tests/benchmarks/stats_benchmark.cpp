// How fast a trace is read, summed up and broken down. Goal: 5 M events/s on one core, whatever the size of the file.
//
// The trace is a training loop's: 400 shapes of 12 pointers in the same order each step, 10,000 tensors in segments of
// 20 MiB of which a part is on the host; in every step one piece in 20 launches moves out or in.
#include <benchmark/benchmark.h>

#include <random>

#include "tests/support/trace_maker.hpp"
#include "tools/run_tables.hpp"
#include "tools/trace_summary.hpp"

namespace spillway::tools {
namespace {

using namespace policy;

constexpr std::uint32_t kShapes = 400;
constexpr std::uint32_t kSegments = 400;
constexpr Bytes kSegment = 20_MiB;
constexpr Address kBase{0x7f0000000000};

struct Made {
  std::vector<std::byte> file;
  std::uint64_t records = 0;
};

Made training(std::uint64_t launches, bool moving) {
  tests::TraceMaker maker({});
  maker.event(DeviceSeen{{0}, {}, 80_GiB, 80_GiB, true, "Virtual"});
  Cause cause;
  cause.reason = Reason::worth;
  cause.span_class = 4;
  for (std::uint32_t i = 0; i < kSegments; ++i) {
    maker.allocate(i + 1, kSegment, Backing::managed, kBase + kSegment * i);
    maker.move(i + 1, {}, kSegment, i % 3 == 0 ? Placement::host : Placement::device, cause);
  }
  std::mt19937_64 random(1);
  for (std::uint32_t function = 1; function <= 60; ++function) {
    maker.event(FunctionSeen{{function}, "kernel_" + std::to_string(function)});
  }
  for (std::uint32_t shape = 1; shape <= kShapes; ++shape) {
    LaunchShapeSeen seen{{shape}, {1 + shape % 60}, 4096, {}};
    for (std::uint16_t a = 0; a < 12; ++a) seen.arguments.push_back({a, kBase + 1_MiB * (random() % (kSegments * 20))});
    maker.event(seen);
  }
  Made made;
  made.records = kSegments * 5 + kShapes + 61;
  for (std::uint64_t i = 0; i < launches; ++i) {
    maker.launch(1 + static_cast<std::uint32_t>(i % kShapes), 7);
    ++made.records;
    if (!moving || i % 20 != 0) continue;
    const bool in = i % 40 == 0;
    maker.move(1 + static_cast<std::uint32_t>(i / 40 % kSegments), {}, 4_MiB, in ? Placement::device : Placement::host,
               cause);
    made.records += 2;
  }
  made.file = maker.finish();
  return made;
}

enum class Work { read, summary, tables };

void stats(benchmark::State& state, Work work, bool moving) {
  const Made made = training(2'000'000, moving);
  for (auto _ : state) {
    trace::TraceReader reader(trace::pull_from(made.file));
    if (reader.open()) state.SkipWithError("not readable");
    RunFollower run(work == Work::tables ? Follows::memory_and_iterations : Follows::memory);
    TraceSummarizer summarizer(run);
    RunTableMaker maker;
    for (trace::Record record; reader.next(record);) {
      if (work != Work::read) summarizer.add(record);
      if (work == Work::tables) maker.add(record, run);
    }
    benchmark::DoNotOptimize(summarizer.finish("", reader).records);
    if (work == Work::tables) benchmark::DoNotOptimize(maker.finish(run, {}).iterations.size());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(made.records));
}
BENCHMARK_CAPTURE(stats, read, Work::read, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(stats, page, Work::summary, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(stats, page_moving, Work::summary, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(stats, by, Work::tables, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(stats, by_moving, Work::tables, true)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace spillway::tools

BENCHMARK_MAIN();
