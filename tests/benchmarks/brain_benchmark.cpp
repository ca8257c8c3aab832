// What the brain costs for each launch: the forecast alone, and a decision step of the engine with 10,000 spans.
// Times of single steps are taken too, because the median matters on the launch path, not the plan once an iteration.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "policy/engine.hpp"
#include "policy/forecast.hpp"

namespace {

using namespace spillway::policy;

void forecast_follows(benchmark::State& state) {
  Forecast forecast;
  std::uint32_t at = 0;
  const auto period = static_cast<std::uint32_t>(state.range(0));
  for (auto _ : state) {
    at = (at + 1) % period;
    forecast.launched(launch_key({1 + at}, 1024), {1 + at});
    if (forecast.candidate() != LaunchCount()) forecast.accept();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(forecast_follows)->Arg(200)->Arg(3000)->Arg(20000);

// A caching allocator's 20 GiB in 20 MiB segments, 10,000 tensors of 2 MiB, four pointers a launch, at half the budget.
class Program {
 public:
  Program() : engine_(settings()) {
    event(DeviceSeen{{0}, {}, 80_GiB, 80_GiB, true, "Virtual"});
    event(HostMemorySeen{400_GiB});
    for (std::uint32_t i = 0; i < kSegments; ++i) {
      event(AllocationRequested{{i + 1}, {0}, 20_MiB, AllocationKind::linear, {}, {}, false});
      event(AllocationSettled{{i + 1}, {kBase + i * (20ull << 20)}, 20_MiB, Backing::managed, {}});
    }
    for (std::uint32_t shape = 1; shape <= kShapes; ++shape) {
      LaunchShapeSeen seen{{shape}, {1 + shape % 97}, 4096, {}};
      for (std::uint16_t a = 0; a < 4; ++a) {
        seen.arguments.push_back({a, {kBase + ((shape * 4ull + a) % kTensors) * (2ull << 20)}});
      }
      event(seen);
    }
    for (int round = 0; round < 6; ++round) iterate();
  }
  void iterate() {
    for (std::uint32_t i = 0; i < kShapes; ++i) launch();
  }
  void launch() {
    at_ = at_ % kShapes + 1;
    event(Launched{{at_}, {}});
  }
  static constexpr std::uint32_t kShapes = 2500;

 private:
  static Settings settings() {
    Settings s;
    s.device_budget = SizeOrShare{10_GiB};
    return s;
  }
  template <class Body>
  void event(Body body) {
    engine_.process({now_ += Nanoseconds(5000), EventBody(std::move(body))}, decisions_);
    for (std::size_t i = 0; i < decisions_.size(); ++i) {
      if (std::holds_alternative<MoveRange>(decisions_[i].body)) {
        const DecisionId id = decisions_[i].id;
        engine_.process({now_, MoveFinished{id, MoveOutcome::done, {}, {}}}, decisions_);
      }
    }
    decisions_.clear();
  }
  static constexpr std::uint32_t kSegments = 1000, kTensors = 10000;
  static constexpr std::uint64_t kBase = 0x7f0000000000;
  Engine engine_;
  std::vector<Decision> decisions_;
  Nanoseconds now_;
  std::uint32_t at_ = 0;
};

void engine_decides(benchmark::State& state) {
  Program program;
  std::vector<double> steps;
  steps.reserve(1 << 20);
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    program.launch();
    const auto end = std::chrono::steady_clock::now();
    if (steps.size() < steps.capacity()) steps.push_back(std::chrono::duration<double, std::nano>(end - begin).count());
  }
  std::sort(steps.begin(), steps.end());
  state.counters["median_ns"] = steps[steps.size() / 2];
  state.counters["p99_ns"] = steps[steps.size() * 99 / 100];
  state.counters["max_us"] = steps.back() / 1000;
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(engine_decides);

}  // namespace

BENCHMARK_MAIN();
