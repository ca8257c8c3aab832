// Iterations of recorded launches, whatever the policy thought of them.
#include "tools/iteration_finder.hpp"

#include <gtest/gtest.h>

#include <map>

namespace spillway::tools {
namespace {

using namespace policy;

class Launches {
 public:
  // A launch of `function` that points to `address`; the number of iterations so far.
  std::uint64_t launch(std::uint32_t function, std::uint64_t address) {
    const LaunchShapeId shape{static_cast<std::uint32_t>(function * 1000 + address)};
    pointers_[shape.value] = {address};
    return launch_shape(launch_key({function}, 32), shape);
  }
  std::uint64_t launch_graph(std::uint32_t graph) {
    const LaunchShapeId shape{graph | kGraphShape};
    return launch_shape(launch_key({shape.value}, 0), shape);
  }

 private:
  std::uint64_t launch_shape(LaunchKey key, LaunchShapeId shape) {
    finder_.launched(key, shape,
                     [this](LaunchShapeId id) -> const std::vector<std::uint64_t>& { return pointers_[id.value]; });
    return finder_.iteration();
  }
  std::map<std::uint32_t, std::vector<std::uint64_t>> pointers_;
  IterationFinder finder_;
};

// A decoding step: layers that look alike but use other memory, and one function twice in a row at the start.
TEST(IterationFinder, ALoopWithinAStepIsNoIteration) {
  Launches run;
  std::uint64_t found = 0;
  for (int step = 0; step < 40; ++step) {
    run.launch(9, 1);
    run.launch(9, 1);
    for (std::uint64_t layer = 0; layer < 10; ++layer) {
      run.launch(1, 10 + layer);
      run.launch(2, 30 + layer);
    }
    found = run.launch(3, 50);
  }
  EXPECT_GE(found, 30U) << "nearly every step";
  EXPECT_LE(found, 40U) << "and never a part of one";
}

TEST(IterationFinder, TwoKernelsInTurnAreNoIteration) {
  Launches run;
  std::uint64_t found = 0;
  for (int i = 0; i < 500; ++i) found = run.launch(1 + static_cast<std::uint32_t>(i % 2), 7);
  EXPECT_EQ(found, 0U);
}

TEST(IterationFinder, AGraphMayBeAWholeIteration) {
  Launches run;
  std::uint64_t found = 0;
  for (int i = 0; i < 50; ++i) {
    run.launch(1, 7);
    found = run.launch_graph(3);
  }
  EXPECT_GE(found, 40U);
}

// The same functions on other memory each time: a sweep over data, not a repetition.
TEST(IterationFinder, OtherMemoryEachTimeIsNoIteration) {
  Launches run;
  std::uint64_t found = 0;
  for (std::uint64_t step = 0; step < 20; ++step) {
    for (std::uint32_t i = 0; i < 12; ++i) found = run.launch(1 + i, 1 + step * 12 + i);
  }
  EXPECT_EQ(found, 0U);
}

}  // namespace
}  // namespace spillway::tools
