// Programs over arrays that are worked on piece by piece and then waited for, a few passes in all
// (benchmarks/workloads, `out_of_core` and `block`): what is learned has to be learned within the first of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "policy/replay.hpp"
#include "tests/policy/workloads.hpp"

namespace spillway::policy {
namespace {

using testing::Tensor;
using testing::Workload;
using testing::Writer;

constexpr std::uint32_t kArrayPieces = 32;
constexpr Bytes kArrayPiece = 256_MiB;

std::vector<Tensor> make_array_pieces(Writer& writer) {
  std::vector<Tensor> pieces;
  for (std::uint32_t i = 0; i < kArrayPieces; ++i) {
    pieces.push_back({writer.driver_allocate(kArrayPiece), kArrayPiece});
    writer.launch("fill", {{0, pieces.back(), 0, 1}}, 0.1e-3);
  }
  return pieces;
}

// The Gram matrix of a tall matrix: a product of each block with itself, and a sum.
Workload products_of_blocks(int passes) {
  Writer writer;
  const std::vector<Tensor> blocks = make_array_pieces(writer);
  const Tensor gram{writer.driver_allocate(16_MiB), 16_MiB}, product{writer.driver_allocate(16_MiB), 16_MiB};
  for (int pass = 0; pass < passes; ++pass) {
    for (const Tensor& block : blocks) {
      writer.launch("sgemm", {{0, block, 11.5, 0}, {1, block, 11.5, 0}, {2, product, 0, 1}}, 5.15e-3);
      writer.launch("add", {{0, gram, 1, 1}, {1, product, 1, 0}}, 0.03e-3);
    }
    writer.end_iteration();
  }
  return std::move(writer.work);
}

// Each piece is read and written some times before the next one.
Workload loop_in_loop(int passes, const std::vector<std::string>& kernels = {"change"}, int times = 8) {
  Writer writer;
  const std::vector<Tensor> pieces = make_array_pieces(writer);
  const Tensor sum{writer.driver_allocate(2_MiB), Bytes(8)};
  for (int pass = 0; pass < passes; ++pass) {
    for (const Tensor& piece : pieces) {
      for (int time = 0; time < times; ++time) {
        for (const std::string& kernel : kernels) writer.launch(kernel, {{0, piece, 1, 1}, {2, sum, 1, 1}}, 0.187e-3);
      }
    }
    writer.end_iteration();
  }
  return std::move(writer.work);
}

constexpr std::size_t kLastPasses = 3;  // passes at the end that are measured

ReplayResult run_arrays(const Workload& work, std::uint32_t lookahead) {
  Settings settings;
  settings.device_budget = SizeOrShare{Bytes(work.peak.count() / 2)};
  settings.iteration_lookahead = lookahead;
  ReplayOptions options;
  if (work.iteration_ends.size() > kLastPasses)
    options.measure_after = work.iteration_ends[work.iteration_ends.size() - 1 - kLastPasses];
  options.check = ReplayOptions::Check::yes;
  options.bounds = ReplayOptions::WithBounds::no;
  return replay(work.events, {settings, {}}, work.costs, {}, options);
}

bool notes_say(const ReplayResult& result, const std::string& words) {
  return std::any_of(result.notes.begin(), result.notes.end(),
                     [&words](const std::string& note) { return note.find(words) != std::string::npos; });
}

std::ptrdiff_t iterations_found(const ReplayResult& result) {
  return std::count_if(result.notes.begin(), result.notes.end(),
                       [](const std::string& note) { return note.starts_with("an iteration of "); });
}

TEST(Arrays, AFewLongLaunchesThatAreWaitedForTakeTurnsFromTheFourthPassOn) {
  const ReplayResult two = run_arrays(products_of_blocks(2), 2);
  EXPECT_EQ(two.iteration, 64U);
  EXPECT_TRUE(notes_say(two, "streaming is tried")) << "what repeats is known with the second pass";
  EXPECT_TRUE(notes_say(run_arrays(products_of_blocks(4), 2), "streaming begins"));
  const Workload work = products_of_blocks(8);
  const ReplayResult streamed = run_arrays(work, 2);
  EXPECT_TRUE(notes_say(streamed, "streaming is kept"));
  EXPECT_LT(streamed.measured.seconds, 0.65 * run_arrays(work, 0).measured.seconds) << "of what the first passes took";
  EXPECT_EQ(streamed.broken, "");
  EXPECT_LE(streamed.resident_peak, streamed.totals.window);
}

TEST(Arrays, TheLoopAroundALoopIsTheIterationAndTakesTurns) {
  const ReplayResult two = run_arrays(loop_in_loop(2), 2);
  EXPECT_EQ(two.iteration, 256U);
  EXPECT_EQ(iterations_found(two), 1) << "the inner loop is none";
  EXPECT_TRUE(notes_say(two, "streaming is tried"));
  const Workload work = loop_in_loop(8);
  const ReplayResult streamed = run_arrays(work, 2);
  EXPECT_EQ(iterations_found(streamed), 1);
  EXPECT_TRUE(notes_say(streamed, "streaming begins"));
  EXPECT_LT(streamed.measured.seconds, 0.85 * run_arrays(work, 0).measured.seconds);
  EXPECT_EQ(streamed.broken, "");
  EXPECT_LE(streamed.resident_peak, streamed.totals.window);
}

// The inner loop may be of several launches, or go on for long enough to be taken for the iteration.
TEST(Arrays, TheLoopAroundALoopIsFoundWhateverIsInIt) {
  for (const auto& [kernels, times] : {std::pair(std::vector<std::string>{"change", "add"}, 8),
                                       std::pair(std::vector<std::string>{"change", "add", "scale"}, 3),
                                       std::pair(std::vector<std::string>{"change"}, 100)}) {
    const ReplayResult result = run_arrays(loop_in_loop(4, kernels, times), 2);
    EXPECT_EQ(result.iteration, kArrayPieces * kernels.size() * static_cast<std::size_t>(times)) << kernels.size();
  }
}

// Nothing but its last launch uses what came first. By its looks that is read once, which is worth less than the room.
Workload with_seldom_used_memory(int passes, double rereads, int waits_every) {
  Writer writer;
  const Tensor seldom{writer.driver_allocate(4_GiB), 4_GiB};
  writer.launch("fill", {{0, seldom, 0, 1}}, 0.1e-3);
  std::vector<Tensor> pieces = make_array_pieces(writer);
  pieces.resize(kArrayPieces / 2);
  const Tensor sum{writer.driver_allocate(2_MiB), Bytes(8)};
  for (int pass = 0; pass < passes; ++pass) {
    for (const Tensor& piece : pieces) {
      writer.launch("sum_up", {{0, piece, 1, 0}, {1, sum, 1, 1}}, 2e-3);
      writer.launch("sum_again", {{0, piece, 1, 0}, {1, sum, 1, 1}}, 2e-3);
    }
    writer.launch("looks_harmless", {{0, seldom, rereads, 0}, {1, sum, 1, 1}}, 1e-3);
    if (pass % waits_every == waits_every - 1) writer.synchronize();
    writer.note_iteration();
  }
  return std::move(writer.work);
}

// What would have to be taken back if it were a mistake waits for a measure of the passes before it. They are of 33
// launches, and a program can be 1,024 ahead; this one waits for its device each time, or each third time.
TEST(Arrays, WhatIsToBeExchangedIsSoWithinTheFirstPasses) {
  for (const int waits_every : {1, 3}) {
    const Workload work = with_seldom_used_memory(15, 0.01, waits_every);
    const ReplayResult by_marks = run_arrays(work, 2);
    EXPECT_LT(by_marks.measured.seconds, 0.6 * run_arrays(work, 0).measured.seconds) << "which hears of no marks";
    EXPECT_FALSE(notes_say(by_marks, "taken back"));
  }
}

TEST(Arrays, AMistakeIsTakenBackWithinTheFirstPasses) {
  for (const int waits_every : {1, 3}) {
    const Workload work = with_seldom_used_memory(20, 30, waits_every);
    const ReplayResult by_marks = run_arrays(work, 2);
    EXPECT_TRUE(notes_say(by_marks, "it is taken back"));
    EXPECT_LT(by_marks.measured.seconds, 1.02 * run_arrays(work, 0).measured.seconds) << "where nothing was changed";
  }
}

}  // namespace
}  // namespace spillway::policy
