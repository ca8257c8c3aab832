// From some moment on nothing moves any more, as when a process ends or a driver has had enough: in every mode, what is
// decided in answer to the refusals ends by itself, and soon.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "tests/policy/scripted_program.hpp"

namespace spillway::policy {
namespace {

using testing::ScriptedProgram;

constexpr Bytes kBudget = 192_MiB;
constexpr Bytes kBlock = 32_MiB;
constexpr std::uint32_t kBlocks = 12, kUses = 6;
constexpr int kSteps = 60;
// Chunks of all memory, each way and once more.
constexpr std::size_t kMostMoves = 4 * (kBlock.count() / kChunk.count()) * (kBlocks + 2);

// Blocks in turn, each many times, so that they are streamed where the mode does that; other memory comes and goes.
class RefusedProgram {
 public:
  RefusedProgram(ModeName mode, std::uint32_t seed)
      : random_(seed),
        refuses_at_(20 + below(kSteps - 25)),
        outcome_(below(2) == 0 ? MoveOutcome::failed : MoveOutcome::cancelled),
        program_(settings(mode), 1_GiB, 4_GiB, {}, ScriptedProgram::OwnContext::free_of_charge, costs()) {
    for (std::uint32_t i = 0; i < kBlocks; ++i) blocks_.push_back(program_.allocate(kBlock));
    finish(2);
  }

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      const std::uint32_t when = below(kBlocks * kUses);
      for (std::uint32_t i = 0; i < kBlocks * kUses; ++i) {
        if (step == static_cast<int>(refuses_at_) && i == when) refuse();
        launch(i);
        if (::testing::Test::HasFailure()) return;
      }
      if (below(6) == 0) exchange(below(kBlocks));
      if (below(6) == 0) comes_and_goes();
      if (::testing::Test::HasFailure()) return;
    }
  }

  [[nodiscard]] std::size_t turns() const { return turns_; }  // before anything was refused
  [[nodiscard]] std::size_t refused() const { return refused_; }

 private:
  static Settings settings(ModeName mode) {
    Settings made;
    made.mode = mode;
    made.device_budget = SizeOrShare{kBudget};
    return made;
  }
  static CostTable costs() {
    CostTable made;
    made.move_beside_in_place = made.move_out;  // that many turns are taken
    return made;
  }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_()) % limit; }

  void refuse() {
    refuses_ = true;
    program_.from_now_on(outcome_);
    answers();
  }
  void launch(std::uint32_t i) {
    const Address block = blocks_[i / kUses];
    program_.launch({block}, {1 + i});
    ++launches_;
    program_.pass(program_.on_card(block) == kBlock ? Nanoseconds(50'000) : Nanoseconds(700'000));
    answers();
    if (every_ == 0 || launches_ % every_ != 0) return;
    program_.send(MarkPassed{{launches_}, {}});
    answers();
  }
  void exchange(std::uint32_t which) {
    program_.free(blocks_[which]);
    answers();
    blocks_[which] = program_.allocate(kBlock);
    if (!blocks_[which]) {
      FAIL() << "memory for which there is room on the host";
    }
    answers();
  }
  void comes_and_goes() {
    // Plain memory needs room that others hold; where they stay there, the driver has none.
    const bool plain = below(2) == 0;
    const Address address = program_.allocate(kBlock, plain ? AllocationKind::stream_ordered : AllocationKind::linear,
                                              {plain && refuses_ ? 2 : 0});
    answers();
    if (!address) return;
    program_.free(address);
    answers();
  }

  // What was decided since the last look, and all that follows from its ending.
  void answers() {
    if (!refuses_) return finish(below(4));
    std::map<std::tuple<AllocationId, Bytes, Bytes, Placement>, int> asked;
    std::size_t moves = 0;
    for (;;) {
      for (; seen_ < program_.decisions().size(); ++seen_) {
        hear(program_.decisions()[seen_]);
        const auto* move = std::get_if<MoveRange>(&program_.decisions()[seen_].body);
        if (move == nullptr) continue;
        ++moves;
        ASSERT_LE(++asked[std::tuple(move->allocation, move->offset, move->bytes, move->to)], 2)
            << "asked for again in answer to its refusal, in event " << seen_;
      }
      ASSERT_LE(moves, kMostMoves) << "this does not end";
      if (program_.open_moves() == 0) break;
      program_.finish_one();
    }
    refused_ += moves;
    ASSERT_EQ(program_.engine().check_invariants(), "");
  }
  void finish(std::uint32_t moves) {
    for (; moves > 0; --moves) program_.finish_one();
    for (; seen_ < program_.decisions().size(); ++seen_) {
      hear(program_.decisions()[seen_]);
      turns_ += program_.decisions()[seen_].cause.reason == Reason::turn ? 1U : 0U;
    }
  }
  void hear(const Decision& decision) {
    if (const auto* mark = std::get_if<MarkProgress>(&decision.body)) every_ = mark->every;
  }

  std::mt19937 random_;
  std::uint32_t refuses_at_;
  MoveOutcome outcome_;
  ScriptedProgram program_;
  std::vector<Address> blocks_;
  bool refuses_ = false;
  std::uint64_t every_ = 0;
  std::uint64_t launches_ = 0;
  std::size_t seen_ = 0;
  std::size_t turns_ = 0;
  std::size_t refused_ = 0;
};

class RefusedMoves : public ::testing::TestWithParam<ModeName> {};

TEST_P(RefusedMoves, AreAnsweredByFewDecisions) {
  std::size_t turns = 0;
  std::size_t refused = 0;
  for (std::uint32_t seed = 1; seed <= 16; ++seed) {
    RefusedProgram program(GetParam(), seed);
    program.run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    turns += program.turns();
    refused += program.refused();
  }
  EXPECT_GT(refused, 0U) << "this test shows nothing";
  if (GetParam() == ModeName::adaptive) {
    EXPECT_GT(turns, 100U) << "this test shows nothing of streaming";
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, RefusedMoves,
                         ::testing::Values(ModeName::demand, ModeName::alloc_prefetch, ModeName::arrival,
                                           ModeName::adaptive));

}  // namespace
}  // namespace spillway::policy
