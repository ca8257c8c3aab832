// Goals: writing a launch record <= 100 ns, reading >= 5 M records/s, <= 12 bytes a launch on disk, interning < 150 ns.
//
// The launches are those of a training loop: 400 shapes in the same order each step, times with jitter.
#include <benchmark/benchmark.h>

#include <random>

#include "policy/launch_shapes.hpp"
#include "policy/trace/frame_builder.hpp"
#include "policy/trace/trace_reader.hpp"

namespace spillway::policy::trace {
namespace {

constexpr std::uint32_t kShapes = 400;

std::vector<Event> training_launches(std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<Event> events;
  std::int64_t time = 0;
  for (std::size_t i = 0; i < count; ++i) {
    time += 4000 + static_cast<std::int64_t>(random() % 4096);
    events.push_back({Nanoseconds(time), Launched{{1 + static_cast<std::uint32_t>(i % kShapes)}, {7}}});
  }
  return events;
}

void write_launches(benchmark::State& state) {
  const std::vector<Event> events = training_launches(1 << 20);
  FrameBuilder builder({std::size_t{256} << 10, static_cast<int>(state.range(0))});
  std::size_t stored = 0;
  std::size_t written = 0;
  for (auto _ : state) {
    // Each round continues the clock of the one before, as a run would.
    for (const Event& event : events) {
      if (const auto frame = builder.add(event)) stored += frame->size();
    }
    if (const auto frame = builder.finish()) stored += frame->size();
    written += events.size();
  }
  state.counters["bytes_per_launch"] = static_cast<double>(stored) / static_cast<double>(written);
  state.counters["ns_per_launch"] =
      benchmark::Counter(static_cast<double>(written), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(write_launches)->Arg(1)->Arg(2)->Arg(3)->Unit(benchmark::kMillisecond);

void read_launches(benchmark::State& state) {
  std::vector<std::byte> file = encode_file_start(encode_header({}));
  FrameBuilder builder;
  const auto put = [&file](const std::optional<FrameBytes>& frame) {
    if (frame) file.insert(file.end(), frame->begin(), frame->end());
  };
  const std::vector<Event> events = training_launches(1 << 20);
  for (const Event& event : events) put(builder.add(event));
  put(builder.finish());
  for (auto _ : state) {
    TraceReader reader(pull_from(file));
    if (reader.open()) state.SkipWithError("not readable");
    std::uint64_t launches = 0;
    for (Record record; reader.next(record);) launches += std::holds_alternative<Launched>(record.event.body) ? 1U : 0U;
    benchmark::DoNotOptimize(launches);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(events.size()));
}
BENCHMARK(read_launches)->Unit(benchmark::kMillisecond);

// 20 pointers a launch, `range` shapes met in turn.
void intern_shapes(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<PointerArgument>> launches(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uint16_t k = 0; k < 20; ++k) launches[i].push_back({k, Address{0x7f0000000000 + (i * 20 + k) * 4096}});
  }
  LaunchShapes shapes;
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(shapes.intern({static_cast<std::uint32_t>(at % 60)}, 4096, launches[at]));
    if (++at == count) at = 0;
  }
}
BENCHMARK(intern_shapes)->Arg(400)->Arg(8000);

}  // namespace
}  // namespace spillway::policy::trace

BENCHMARK_MAIN();
