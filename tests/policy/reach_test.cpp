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
  EXPECT_EQ(reach.of(kFill, 1, 4 << 20), Bytes()) << "each operand for itself";
  reach.seen(kFill, 0, 128, Bytes(128));  // one block for one number, at the end of an allocation
  EXPECT_EQ(reach.of(kFill, 0, 4 << 20), 32_MiB);
  reach.seen(kProduct, 0, 1 << 16, 64_MiB);
  EXPECT_EQ(reach.of(kProduct, 0, 1 << 16), Bytes()) << "a KiB a thread: it does not stream";
}

// A tensor is made by a streaming kernel and read by a product; another part of the iteration has cut its memory.
TEST(Reach, AUseRunsOverTheCutsOfOtherPartsOfTheIteration) {
  SpanMap spans;
  spans.add({1}, 64_MiB);
  LaunchBook book;
  const Epoch now{1};
  const NamedPointer whole{{1}, {}, 64_MiB, 0};
  const NamedPointer half{{1}, 32_MiB, 32_MiB, 0};
  book.learn({1}, kFill, 2 << 20, 1, {whole}, spans, now, Reaching::by_threads);
  book.learn({2}, kFill, 1 << 20, 1, {half}, spans, now, Reaching::by_threads);
  book.learn({3}, kProduct, 512, 1, {whole}, spans, now);
  book.learn({4}, kFill, 1 << 20, 1, {whole}, spans, now, Reaching::by_threads);
  const auto spans_of = [&](std::uint32_t shape) {
    std::vector<SpanUse> uses;
    book.uses({shape}, spans, now, uses);
    return uses.size();
  };
  EXPECT_EQ(spans_of(1), 2U);
  EXPECT_EQ(spans_of(2), 1U);
  EXPECT_EQ(spans_of(3), 2U) << "the product reads what the fill has made";
  EXPECT_EQ(spans_of(4), 1U) << "half as many threads reach half as far";
  EXPECT_EQ(spans_of(3), 1U);
}

}  // namespace
}  // namespace spillway::policy
