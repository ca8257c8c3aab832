#include "policy/reach.hpp"

#include <gtest/gtest.h>

#include "policy/launch_book.hpp"

namespace spillway::policy {
namespace {

constexpr FunctionId kFill{1};
constexpr FunctionId kProduct{2};

TEST(Reach, TheTightestRoomBoundsTheBytesOfAThread) {
  Reach reach;
  EXPECT_EQ(reach.of(kFill, 0, 1000), Bytes());
  reach.seen(kFill, 0, 1 << 20, 64_MiB);
  EXPECT_EQ(reach.of(kFill, 0, 1 << 20), 64_MiB);
  reach.seen(kFill, 0, 1 << 20, 8_MiB);  // a tensor that fills its allocation
  EXPECT_EQ(reach.of(kFill, 0, 4 << 20), 32_MiB);
  reach.seen(kFill, 0, 1 << 10, 8_MiB);  // a small one in a large allocation says nothing
  EXPECT_EQ(reach.of(kFill, 0, 4 << 20), 32_MiB);
  EXPECT_EQ(reach.of(kFill, 1, 4 << 20), Bytes()) << "each argument for itself";
  reach.seen(kProduct, 0, 0, 8_MiB);
  EXPECT_EQ(reach.of(kProduct, 0, 64), Bytes()) << "a launch without threads teaches nothing";
}

// Two halves of an allocation are used by themselves in one part of the iteration and as a whole in another.
TEST(Reach, AUseRunsOverTheCutsOfOtherPartsOfTheIteration) {
  SpanMap spans;
  spans.add({1}, 64_MiB);
  LaunchBook book;
  const Epoch now{1};
  const NamedPointer whole{{1}, {}, 64_MiB, 0};
  const NamedPointer half{{1}, 32_MiB, 32_MiB, 0};
  book.learn({1}, kFill, 2 << 20, 1, {whole}, spans, now);
  book.learn({2}, kProduct, 512, 1, {half}, spans, now);
  std::vector<SpanUse> uses;
  book.uses({1}, spans, now, uses);
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_EQ(spans.span(uses[0].span).bytes + spans.span(uses[1].span).bytes, 64_MiB);
  // Half as many threads reach half as far.
  book.learn({3}, kFill, 1 << 20, 1, {whole}, spans, now);
  uses.clear();
  book.uses({3}, spans, now, uses);
  EXPECT_EQ(uses.size(), 1U);
}

}  // namespace
}  // namespace spillway::policy
