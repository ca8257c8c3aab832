// Streaming ahead of use in whole programs: when it begins, what it is worth, what it never breaks, and when it ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "policy/explain.hpp"
#include "policy/plan.hpp"
#include "policy/replay.hpp"
#include "tests/policy/scripted_program.hpp"
#include "tests/policy/workloads.hpp"

namespace spillway::policy {
namespace {

using testing::Role;
using testing::Tensor;
using testing::Workload;
using testing::Writer;

struct BlockProgram {
  int iterations = 60;
  double crosses = 6;  // of a block, in its product: about what its shape says
  int other_iterations = 0;
  int blocks = 24;
  double seconds = 4e-3;  // of a product
};

// Multiplies by blocks in turn, each of which would cross the link many times in one launch.
Workload block_program(const BlockProgram& options) {
  Writer writer;
  std::vector<Tensor> all;
  const auto make = [&writer](Bytes bytes) { return Tensor{writer.driver_allocate(bytes), bytes, Role::weight}; };
  const Tensor x = make(16_MiB), y = make(16_MiB);
  for (int i = 0; i < options.blocks; ++i) {
    all.push_back(make(64_MiB));
    writer.copy_in(all.back());
  }
  for (int step = 0; step < options.iterations; ++step) {
    for (const Tensor& block : all) {
      writer.launch("sm90_xmma_gemm", {{0, x, 4, 0}, {1, block, options.crosses, 0}, {2, y, 0, 1}}, options.seconds);
      writer.launch("gelu", {{0, y, 1, 0}, {1, x, 0, 1}}, 0.1e-3);
    }
    writer.end_iteration();
  }
  for (int step = 0; step < options.other_iterations; ++step) {
    for (const Tensor& block : all) writer.launch("collect", {{0, y, 0, 1}, {1, block, 1, 0}}, 0.1e-3);
    writer.end_iteration();
  }
  return std::move(writer.work);
}

ReplayResult run(const Workload& work, std::uint32_t lookahead, std::vector<Rule> rules = {}, double share = 0.5) {
  Settings settings;
  settings.device_budget =
      SizeOrShare{Bytes(static_cast<std::uint64_t>(static_cast<double>(work.peak.count()) * share))};
  settings.iteration_lookahead = lookahead;
  ReplayOptions options;
  options.measure_after = work.iteration_ends[work.iteration_ends.size() - 9];
  options.keep = ReplayOptions::Keep::decisions;
  options.check = ReplayOptions::Check::yes;
  return replay(work.events, {settings, std::move(rules)}, work.costs, {}, options);
}

std::ptrdiff_t notes_with(const ReplayResult& result, const std::string& words) {
  return std::count_if(result.notes.begin(), result.notes.end(),
                       [&words](const std::string& note) { return note.find(words) != std::string::npos; });
}

std::ptrdiff_t turns(const ReplayResult& result) {
  return std::count_if(result.decisions.begin(), result.decisions.end(), [](const Decision& decision) {
    return std::holds_alternative<MoveRange>(decision.body) && decision.cause.reason == Reason::turn;
  });
}

TEST(Streaming, BlocksThatAreWorkedOnInTurnComeInAheadOfTheirUse) {
  const Workload work = block_program({});
  const ReplayResult still = run(work, 0);
  const ReplayResult streamed = run(work, 2);
  EXPECT_EQ(notes_with(still, "streaming"), 0);
  EXPECT_EQ(notes_with(streamed, "streaming is tried: "), 1);
  EXPECT_EQ(notes_with(streamed, "streaming begins: "), 1);
  EXPECT_EQ(notes_with(streamed, "streaming is kept: "), 1);
  EXPECT_EQ(notes_with(streamed, "streaming ends"), 0);
  EXPECT_LT(streamed.measured.seconds, 0.85 * still.measured.seconds);
  EXPECT_LT(streamed.measured.model.crossed(), 0.85 * still.measured.model.crossed());
  EXPECT_EQ(streamed.broken, "");
  EXPECT_LE(streamed.resident_peak, streamed.window);
  EXPECT_EQ(streamed.measured.model.faulted, 0);
  EXPECT_LT(static_cast<double>(streamed.measured.useless.count()), 0.15 * streamed.measured.model.moved_in);
}

// Products that are over in less than their block takes to come in, and that leave moves a ninth of their rate while
// they read in place: by deadlines each move that is begun still saves one, and with each there is more of the link.
TEST(Streaming, HelpsWhereMovesCrawlBesideWhatIsReadInPlace) {
  const Workload work = block_program({.crosses = 10.4, .blocks = 64, .seconds = 0.6e-3});
  for (const auto& [share, most] : {std::pair(0.8, 0.8), std::pair(0.5, 0.9), std::pair(0.35, 0.9)}) {
    const ReplayResult still = run(work, 0, {}, share);
    const ReplayResult streamed = run(work, 2, {}, share);
    EXPECT_EQ(notes_with(streamed, "streaming is kept"), 1) << share;
    EXPECT_EQ(notes_with(streamed, "streaming ends"), 0) << share;
    EXPECT_LT(streamed.measured.seconds, most * still.measured.seconds) << share;
    EXPECT_LT(static_cast<double>(streamed.measured.useless.count()), 0.1 * streamed.measured.model.moved_in) << share;
    EXPECT_EQ(streamed.broken, "") << share;
    EXPECT_LE(streamed.resident_peak, streamed.window) << share;
  }
}

TEST(Streaming, EachTurnSaysWhy) {
  const Workload work = block_program({});
  const ReplayResult streamed = run(work, 2);
  ASSERT_GT(turns(streamed), 0);
  const auto turn = std::find_if(streamed.decisions.begin(), streamed.decisions.end(), [](const Decision& decision) {
    return std::holds_alternative<MoveRange>(decision.body) && decision.cause.reason == Reason::turn;
  });
  EXPECT_NE(explain(*turn, {}).find("takes turns in HBM"), std::string::npos) << explain(*turn, {});
}

// What is used in place without crossing costs nothing there, whatever its function's name makes of it.
TEST(Streaming, EndsWhereItDoesNotHelp) {
  const Workload work = block_program({.crosses = 0.001});
  const ReplayResult streamed = run(work, 2);
  EXPECT_EQ(notes_with(streamed, "streaming begins"), 1);
  EXPECT_EQ(notes_with(streamed, "streaming ends"), 1) << "and once, however many marks are still out";
  const ReplayResult still = run(work, 0);
  EXPECT_LT(streamed.measured.seconds, 1.02 * still.measured.seconds);
  EXPECT_EQ(streamed.broken, "");
}

TEST(Streaming, EndsWithTheIterationItWasPlannedFor) {
  const Workload work = block_program({.other_iterations = 40});
  const ReplayResult streamed = run(work, 2);
  const ReplayResult still = run(work, 0);
  EXPECT_EQ(streamed.broken, "");
  EXPECT_LE(streamed.resident_peak, streamed.window);
  EXPECT_LT(streamed.measured.seconds, 1.05 * still.measured.seconds) << "of another loop, which is better left alone";
}

Rule rule(RulePlace place) {
  Rule made;
  made.number = 1;
  made.name = "blocks";
  made.match.kernel = "*gemm*";
  made.match.arguments = {1};
  made.action.place = place;
  return made;
}

TEST(Streaming, ARuleForbidsIt) {
  const Workload work = block_program({});
  EXPECT_EQ(turns(run(work, 2, {rule(RulePlace::host)})), 0);
  EXPECT_EQ(turns(run(work, 2, {rule(RulePlace::device)})), 0);
}

TEST(Streaming, ARuleKeepsItOnTheHostButForItsTurns) {
  const Workload work = block_program({});
  const ReplayResult on_host = run(work, 2, {rule(RulePlace::host)});
  const ReplayResult streamed = run(work, 2, {rule(RulePlace::stream)});
  EXPECT_GT(turns(streamed), 0);
  EXPECT_LT(streamed.measured.seconds, 0.75 * on_host.measured.seconds);
  EXPECT_EQ(streamed.broken, "");
}

TEST(Streaming, TheSameEventsGiveTheSameDecisions) {
  const Workload work = block_program({.iterations = 40});
  EXPECT_EQ(run(work, 2).decisions, run(work, 2).decisions);
}

TEST(Streaming, ADistanceThatNoIterationHasRoomForIsTakenAsFarAsItGoes) {
  const Workload work = block_program({});
  Rule far = rule(RulePlace::stream);
  far.action.prefetch_distance = 1024;
  EXPECT_GT(turns(run(work, 2, {far})), 0);
}

// A place would forbid what made the run fast.
TEST(Streaming, APlanHasNoRuleForWhatTakesTurns) {
  const Workload work = block_program({});
  const ReplayResult streamed = run(work, 2);
  Settings settings;
  settings.device_budget = SizeOrShare{streamed.budget};
  const Plan plan = make_plan(streamed, settings);
  EXPECT_NE(write_plan(plan).find("that took turns in HBM"), std::string::npos) << write_plan(plan);
  const ReplayResult next = run(work, 2, plan.file.rules);
  EXPECT_LT(next.measured.seconds, 1.05 * streamed.measured.seconds);
  EXPECT_GT(turns(next), 0);
}

// Marks that come late, together, out of turn or never, a driver that refuses them, moves that fail, memory that goes.
TEST(Streaming, KeepsItsPromisesWhateverHappensToItsMarks) {
  int streamed = 0;  // seeds in which turns were taken
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    auto random = [engine = std::mt19937(seed)](std::uint32_t below) mutable {
      return static_cast<std::uint32_t>(engine()) % below;
    };
    Settings settings;
    settings.device_budget = SizeOrShare{192_MiB};
    CostTable costs;
    costs.move_beside_in_place = costs.move_out;  // that many turns are taken
    testing::ScriptedProgram program(settings, 1_GiB, 4_GiB, {}, testing::ScriptedProgram::OwnContext::free_of_charge,
                                     costs);
    constexpr std::uint32_t kBlocks = 12, kUses = 6;
    std::vector<Address> blocks;
    for (std::uint32_t i = 0; i < kBlocks; ++i) blocks.push_back(program.allocate(32_MiB));
    program.finish_all();
    std::uint64_t every = 0, launches = 0;
    std::vector<LaunchNumber> marks;
    const auto hear = [&] {
      for (const Decision& decision : program.last()) {
        if (const auto* mark = std::get_if<MarkProgress>(&decision.body)) every = mark->every;
        if (decision.cause.reason == Reason::turn && std::holds_alternative<MoveRange>(decision.body)) ++streamed;
      }
    };
    const bool refuses = seed % 4 == 0;
    for (int step = 0; step < 70; ++step) {
      for (std::uint32_t i = 0; i < kBlocks * kUses; ++i) {
        const Address block = blocks[i / kUses];
        program.launch({block}, {1 + i});
        ++launches;
        program.pass(program.on_card(block) == 32_MiB ? Nanoseconds(50'000) : Nanoseconds(700'000));
        hear();
        if (every > 0 && launches % every == 0) marks.push_back({launches});
        if (!marks.empty() && random(3) != 0) {
          const std::size_t which = random(20) == 0 ? random(static_cast<std::uint32_t>(marks.size())) : 0;
          const bool refused = refuses && step > 40 && random(40) == 0;
          program.send(MarkPassed{marks[which], {refused ? 801 : 0}});
          hear();
          marks.erase(marks.begin() + static_cast<std::ptrdiff_t>(which));
        }
        for (std::uint32_t moves = random(3); moves > 0; --moves) {
          program.finish_one(random(30) == 0 ? MoveOutcome::failed : MoveOutcome::done);
          hear();
        }
        ASSERT_EQ(program.engine().check_invariants(), "") << "seed " << seed << " step " << step;
        ASSERT_LE(program.on_card(), program.totals().window) << "seed " << seed << " step " << step;
      }
      if (step > 50 && random(8) == 0) {
        const std::size_t which = random(kBlocks);
        program.free(blocks[which]);
        blocks[which] = program.allocate(32_MiB);
      }
    }
  }
  EXPECT_GT(streamed, 100);
}

}  // namespace
}  // namespace spillway::policy
