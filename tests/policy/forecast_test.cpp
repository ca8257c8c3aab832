#include "policy/forecast.hpp"

#include <gtest/gtest.h>

#include <random>

namespace spillway::policy {
namespace {

// Launch sequences as numbers: the function; the shape tells the pointers apart. Accepts or rejects candidates as told.
class Sequence {
 public:
  enum class Candidates { accept, reject_short };
  explicit Sequence(Candidates how = Candidates::accept, std::uint64_t shortest = 0) : how_(how), shortest_(shortest) {}

  void play(std::uint32_t function, std::uint32_t shape, std::uint64_t threads = 1024) {
    if (forecast.predicted(LaunchCount(1)) == LaunchShapeId{shape}) ++right;
    ++played;
    forecast.launched(launch_key({function}, threads), {shape});
    if (forecast.candidate() != LaunchCount()) {
      if (how_ == Candidates::reject_short && forecast.candidate().count() < shortest_)
        forecast.reject();
      else
        forecast.accept();
    }
    ASSERT_EQ(forecast.check_invariants(), "") << "launch " << played;
  }
  void play(const std::vector<std::uint32_t>& functions) {
    for (const std::uint32_t f : functions) play(f, f);
  }

  Forecast forecast{14};
  std::uint64_t right = 0, played = 0;

 private:
  Candidates how_;
  std::uint64_t shortest_;
};

std::vector<std::uint32_t> step(std::uint32_t length, std::uint32_t base = 100) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < length; ++i) all.push_back(base + i);
  return all;
}

// A model: prologue, layers that look alike, turn, layers backward, optimizer.
std::vector<std::uint32_t> training(int layers, int micro = 1) {
  std::vector<std::uint32_t> all;
  for (int m = 0; m < micro; ++m) {
    all.push_back(1);
    for (int i = 0; i < layers; ++i)
      for (std::uint32_t f = 10; f < 22; ++f) all.push_back(f);
    all.push_back(2);
    for (int i = 0; i < layers; ++i)
      for (std::uint32_t f = 30; f < 50; ++f) all.push_back(f);
  }
  for (std::uint32_t f = 60; f < 70; ++f) all.push_back(f);
  return all;
}

TEST(Forecast, AStepThatRepeatsIsLockedAfterTwoAndForecastRightly) {
  Sequence s;
  for (int i = 0; i < 3; ++i) s.play(step(50));
  ASSERT_EQ(s.forecast.state(), ForecastState::locked);
  EXPECT_EQ(s.forecast.period(), LaunchCount(50));
  const std::uint64_t before = s.right;
  s.play(step(50));
  EXPECT_EQ(s.right - before, 50u);
  EXPECT_EQ(s.forecast.predicted(LaunchCount(50)), LaunchShapeId{149});
  EXPECT_EQ(s.forecast.predicted(LaunchCount(120)), LaunchShapeId{100 + 19}) << "past the end it repeats itself";
  EXPECT_GT(s.forecast.confidence(), 0.9);
}

TEST(Forecast, WarmUpOfAnotherKindDoesNotMatter) {
  Sequence s;
  auto random = [engine = std::mt19937(7)]() mutable { return static_cast<std::uint32_t>(engine()); };
  for (int i = 0; i < 700; ++i) s.play(1000 + random() % 200, 5000 + static_cast<std::uint32_t>(i));
  for (int i = 0; i < 4; ++i) s.play(step(80));
  EXPECT_EQ(s.forecast.period(), LaunchCount(80));
}

TEST(Forecast, LayersAreNoIterationWhenTheOwnerSaysSo) {
  Sequence s(Sequence::Candidates::reject_short, 100);
  const auto one = training(12);
  for (int i = 0; i < 4; ++i) s.play(one);
  ASSERT_EQ(s.forecast.state(), ForecastState::locked);
  EXPECT_EQ(s.forecast.period(), LaunchCount(one.size()));
}

TEST(Forecast, GradientAccumulationEndsWithTheWholeStepAsIteration) {
  Sequence s;  // accepts every candidate, so that micro-steps lock first
  const auto one = training(6, 4);
  for (int i = 0; i < 5; ++i) s.play(one);
  ASSERT_EQ(s.forecast.state(), ForecastState::locked);
  EXPECT_EQ(s.forecast.period(), LaunchCount(one.size()));
}

TEST(Forecast, AnEvaluationDropsTheForecastAndTrainingIsLockedAgainSoon) {
  Sequence s;
  const auto one = training(6);
  for (int i = 0; i < 4; ++i) s.play(one);
  ASSERT_EQ(s.forecast.period(), LaunchCount(one.size()));
  std::vector<std::uint32_t> evaluation(one.begin(), one.begin() + 1 + 6 * 12);
  for (int i = 0; i < 4; ++i) s.play(evaluation);
  EXPECT_NE(s.forecast.period(), LaunchCount(one.size()));
  s.play(one);
  const std::uint64_t before = s.right;
  s.play(one);
  EXPECT_GT(s.right - before, one.size() * 9 / 10) << "the second step after an evaluation is forecast";
  s.play(one);
  EXPECT_EQ(s.forecast.period(), LaunchCount(one.size()));
}

TEST(Forecast, ActivationsAtOtherAddressesStayTheSameIteration) {
  Sequence s;
  std::uint32_t shape = 1000;
  for (int i = 0; i < 5; ++i) {
    for (const std::uint32_t f : training(4)) s.play(f, ++shape);  // never the same pointers twice
  }
  EXPECT_EQ(s.forecast.period(), LaunchCount(training(4).size()));
}

TEST(Forecast, OneLaunchMoreOrLessNowAndThenKeepsTheLock) {
  Sequence s;
  for (int i = 0; i < 4; ++i) s.play(step(100));
  ASSERT_EQ(s.forecast.state(), ForecastState::locked);
  const std::uint64_t locks = s.forecast.locks();
  for (int i = 0; i < 12; ++i) {
    auto one = step(100);
    if (i % 3 == 0) one.insert(one.begin() + 40, 9000 + static_cast<std::uint32_t>(i));
    if (i % 3 == 1) one.erase(one.begin() + 60);
    if (i % 3 == 2) one[20] = 8000 + static_cast<std::uint32_t>(i);
    s.play(one);
    EXPECT_EQ(s.forecast.state(), ForecastState::locked) << "iteration " << i;
  }
  EXPECT_EQ(s.forecast.locks(), locks);
  EXPECT_GT(s.right, s.played * 7 / 10);
}

TEST(Forecast, PiecesOfOneArrayStreamedByOneFunctionAreToldByTheirPointers) {
  Sequence s(Sequence::Candidates::reject_short, 10);
  for (int round = 0; round < 6; ++round) {
    for (std::uint32_t piece = 0; piece < 64; ++piece) s.play(7, 100 + piece);
  }
  ASSERT_EQ(s.forecast.state(), ForecastState::locked);
  EXPECT_EQ(s.forecast.period(), LaunchCount(64));
  EXPECT_EQ(s.forecast.predicted(LaunchCount(1)), LaunchShapeId{100});
}

// Each piece is used again and again before the next: what is followed then is the loop within.
TEST(Forecast, TheLoopAroundALoopIsFoundWithItsSecondRound) {
  for (const std::uint32_t body : {1U, 2U, 5U}) {
    Sequence s(Sequence::Candidates::reject_short, 100);
    for (int round = 0; round < 2; ++round) {
      for (std::uint32_t piece = 0; piece < 32; ++piece) {
        for (int time = 0; time < 8; ++time)
          for (std::uint32_t f = 0; f < body; ++f) s.play(7 + f, 100 + 10 * piece + f);
      }
    }
    EXPECT_EQ(s.forecast.period(), LaunchCount(32 * 8 * body));
    EXPECT_EQ(s.forecast.predicted(LaunchCount(8 * body + 1)), LaunchShapeId{110});
  }
}

TEST(Forecast, ChangingShapesDropTheForecastAndTheNewOnesAreLearned) {
  Sequence s;
  for (int i = 0; i < 4; ++i) s.play(step(60));
  for (int i = 0; i < 3; ++i) s.play(step(70, 500));
  EXPECT_EQ(s.forecast.period(), LaunchCount(70));
  const std::uint64_t before = s.right;
  for (int i = 0; i < 4; ++i) s.play(step(60));
  EXPECT_EQ(s.forecast.period(), LaunchCount(60));
  EXPECT_GT(s.right - before, 190u) << "known steps are forecast long before they are an iteration again";
}

TEST(Forecast, ADroppedIterationIsNotOfferedAgainSoon) {
  Sequence s;
  for (int i = 0; i < 6; ++i) s.play(step(60));
  ASSERT_EQ(s.forecast.period(), LaunchCount(60));
  s.forecast.drop();
  EXPECT_EQ(s.forecast.period(), LaunchCount());
  for (int i = 0; i < 3; ++i) s.play(step(60));
  EXPECT_EQ(s.forecast.period(), LaunchCount());
  for (int i = 0; i < 12; ++i) s.play(step(60));
  EXPECT_EQ(s.forecast.period(), LaunchCount(60)) << "but later, when it has held for long";
}

// A decoder under a caching allocator: layers that look alike and take turns with the same few buffers, other ones in
// each token, and a cache that is copied over as it grows.
void play_token(Sequence& s, std::uint32_t token) {
  const std::uint32_t buffers = 1000 * (1 + token % 5);
  for (std::uint32_t f = 1; f < 8; ++f) s.play(f, buffers + f);
  for (std::uint32_t layer = 0; layer < 6; ++layer) {
    for (std::uint32_t f = 10; f < 60; ++f) s.play(f, buffers + f + (f % 10 == 0 ? 100 * layer : 0));
    for (std::uint32_t f = 60; f < 63; ++f) s.play(f, 100'000 + 100 * token + 10 * layer + f, 40'000 + 500 * token);
  }
  for (std::uint32_t f = 70; f < 77; ++f) s.play(f, buffers + f);
}
constexpr std::uint64_t kToken = 7 + 6 * 53 + 7;

TEST(Forecast, ATokenIsFoundThoughItsLayersLookAlikeAndLengthsGrow) {
  Sequence s(Sequence::Candidates::reject_short, kToken);
  for (std::uint32_t token = 0; token < 5; ++token) play_token(s, token);
  EXPECT_EQ(s.forecast.period(), LaunchCount(kToken));
}

TEST(Forecast, ALengthThatGrowsKeepsTheIteration) {
  Sequence s(Sequence::Candidates::reject_short, kToken);
  // 65,536 threads, where the coarse size changes, are passed at the token 52.
  for (std::uint32_t token = 0; token < 80; ++token) play_token(s, token);
  EXPECT_EQ(s.forecast.period(), LaunchCount(kToken));
  EXPECT_EQ(s.forecast.locks(), 1U);
}

// Blocks of one size, worked on by the same functions: every third launch tells its block, the others are all the same.
TEST(Forecast, LaunchesThatAreTheSameEverywhereSayNothingAgainstADistance) {
  Sequence s(Sequence::Candidates::reject_short, 78);
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t block = 0; block < 24; ++block) {
      if (block % 4 == 0) s.play(2, 500 + block);
      s.play(3, 100 + block);
      s.play(4, 4);
      s.play(5, 5);
    }
  }
  EXPECT_EQ(s.forecast.period(), LaunchCount(78));
}

TEST(Forecast, WithoutAnyIterationSuccessorsAreForecast) {
  Sequence s;
  auto random = [engine = std::mt19937(3)]() mutable { return static_cast<std::uint32_t>(engine()); };
  // 20 short phrases in random order: no period, but within a phrase the next launch is known.
  for (int i = 0; i < 400; ++i) {
    const std::uint32_t phrase = random() % 20;
    for (std::uint32_t f = 0; f < 10; ++f) s.play(phrase * 16 + f, phrase * 16 + f);
  }
  EXPECT_GT(static_cast<double>(s.right) / static_cast<double>(s.played), 0.8);
}

TEST(Forecast, HistoryThatIsGoneIsNotForecastAndNothingBreaksOnNoise) {
  Sequence s;
  auto random = [engine = std::mt19937(11)]() mutable { return static_cast<std::uint32_t>(engine()); };
  for (int i = 0; i < 60000; ++i) {
    const std::uint32_t f = random() % 50;
    s.play(f, f + (random() % 3) * 100);
    ASSERT_FALSE(::testing::Test::HasFatalFailure());
  }
  EXPECT_FALSE(s.forecast.shape_at({1}));
  EXPECT_LT(s.forecast.confidence(), 0.5);
}

}  // namespace
}  // namespace spillway::policy
