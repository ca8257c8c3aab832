#include "policy/watchdog.hpp"

#include <gtest/gtest.h>

namespace spillway::policy {
namespace {

Verdict run(Watchdog& dog, std::initializer_list<int> times, Watchdog::Moves moves = Watchdog::Moves::settled) {
  Verdict last = Verdict::none;
  for (const int time : times) last = dog.iteration(Nanoseconds(time), moves);
  return last;
}

TEST(Watchdog, AChangeThatSlowsIterationsDownIsReverted) {
  Watchdog dog;
  run(dog, {100, 101, 99});
  dog.change();
  EXPECT_EQ(run(dog, {500, 200, 201, 199}), Verdict::revert);  // the first is half old
  EXPECT_EQ(dog.before(), Nanoseconds(100));
  EXPECT_EQ(dog.after(), Nanoseconds(200));
  EXPECT_FALSE(dog.judging());
}

TEST(Watchdog, AChangeThatHelpsOrDoesNothingIsKept) {
  Watchdog dog;
  run(dog, {100, 101, 99});
  dog.change();
  EXPECT_EQ(run(dog, {100, 103, 102, 104}), Verdict::keep);
  dog.change();
  EXPECT_EQ(run(dog, {50, 50, 50, 50}), Verdict::keep);
}

TEST(Watchdog, IterationsThatGrowByThemselvesAreExpectedToGrowOn) {
  Watchdog dog;
  run(dog, {1000, 1008, 1016});
  dog.change();
  EXPECT_EQ(run(dog, {1100, 1100, 1100, 1100, 1100, 1100}, Watchdog::Moves::open), Verdict::none);
  EXPECT_EQ(run(dog, {1100, 1080, 1090, 1100}), Verdict::keep);
  Watchdog noisy;  // a slope of 50% an iteration is noise, and excuses 1% of it
  run(noisy, {1000, 2000, 2000});
  noisy.change();
  EXPECT_EQ(run(noisy, {9000, 4000, 4000, 4000}), Verdict::revert);
}

TEST(Watchdog, OneSlowIterationIsNoise) {
  Watchdog dog;
  run(dog, {100, 100, 100});
  dog.change();
  EXPECT_EQ(run(dog, {100, 100, 900, 100}), Verdict::keep);
}

TEST(Watchdog, IterationsWhileMovesAreOpenAreNotJudged) {
  Watchdog dog;
  run(dog, {100, 100, 100});
  dog.change();
  EXPECT_EQ(run(dog, {300, 300, 300, 300, 300}, Watchdog::Moves::open), Verdict::none);
  EXPECT_EQ(run(dog, {300, 90, 90}), Verdict::none);
  EXPECT_EQ(run(dog, {90}), Verdict::keep);
}

TEST(Watchdog, ChangesInARowAreJudgedAgainstTheTimeBeforeTheFirst) {
  Watchdog dog;
  run(dog, {100, 100, 100});
  dog.change();
  run(dog, {150, 150});
  dog.change();
  EXPECT_EQ(run(dog, {150, 150, 150, 150}), Verdict::revert);
}

TEST(Watchdog, WithoutATimeBeforeThereIsNoVerdict) {
  Watchdog dog;
  dog.change();
  EXPECT_EQ(run(dog, {100, 100, 100, 100, 100}), Verdict::none);
  dog.change();
  dog.reset();
  EXPECT_EQ(run(dog, {900, 900, 900, 900}), Verdict::none);
}

}  // namespace
}  // namespace spillway::policy
