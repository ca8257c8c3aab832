// A program that uses a part of a pool at a time, and a card that knows which of its host chunks are mapped: what is
// probed, found, brought in and sent out.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "policy/modes/sparse_ranges.hpp"
#include "tests/policy/scripted_program.hpp"

namespace spillway::policy {
namespace {

using testing::ScriptedProgram;

constexpr Bytes kPoolBytes = 256_MiB;
constexpr std::uint32_t kPoolChunks = 128;
constexpr Bytes kBudget = 96_MiB;

Rule placed(RulePlace place) {
  Rule rule;
  rule.number = 1;
  rule.name = "pool";
  rule.match.kernel = "*paged_attention*";
  rule.match.arguments = {1};
  rule.action.place = place;
  return rule;
}

class SparseProgram {
 public:
  explicit SparseProgram(std::vector<Rule> rules = {}, Switch probes = Switch::automatic,
                         const std::string& kernel = "paged_attention")
      : program_(made(probes), 1_GiB, 4_GiB, std::move(rules)) {
    program_.send(FunctionSeen{{1}, kernel});
    program_.send(FunctionSeen{{2}, "rms_norm"});
    small_ = program_.allocate(2_MiB);
    pool_ = program_.allocate(kPoolBytes);
    after();
    program_.finish_all();
    program_.send(TelemetryChanged{TelemetryState::running, {}});
    after();
  }

  // Iterations of twelve launches, as long as `launch`.
  void run(int iterations, Nanoseconds launch = Nanoseconds(1'000'000)) {
    for (int i = 0; i < iterations; ++i) {
      for (int j = 0; j < 11; ++j) {
        program_.pass(probes_hurt && !unmapped_.empty() ? launch + launch : launch);
        program_.launch({small_}, {2});
        after();
      }
      program_.pass(launch);
      program_.launch({small_, pool_}, {1});
      after();
      use();
      for (int done = 0; done < 64 && program_.open_moves() > 0; ++done) {
        program_.finish_one();
        after();
      }
      ASSERT_EQ(program_.engine().check_invariants(), "");
    }
  }
  // Telemetry does what policy wants, until the program takes CUPTI.
  void watch() {
    if (program_.engine().wants_page_hits()) program_.send(TelemetryChanged{TelemetryState::pages_watched, {}});
    after();
  }
  void lose() {
    program_.send(TelemetryChanged{TelemetryState::pages_lost, {}});
    after();
  }

  [[nodiscard]] bool in_hbm(std::uint32_t chunk) const { return inside_.contains(chunk); }
  [[nodiscard]] std::size_t hot_inside() const {
    return static_cast<std::size_t>(
        std::count_if(hot.begin(), hot.end(), [this](std::uint32_t chunk) { return in_hbm(chunk); }));
  }
  [[nodiscard]] const std::set<std::uint32_t>& unmapped() const { return unmapped_; }
  [[nodiscard]] int probes() const { return probes_; }
  [[nodiscard]] int hits() const { return hits_; }
  [[nodiscard]] Bytes moved() const { return program_.totals().moved_in + program_.totals().moved_out; }
  [[nodiscard]] bool noted(const std::string& text) const {
    const auto& all = program_.decisions();
    return std::any_of(all.begin(), all.end(), [&text](const Decision& decision) {
      const auto* note = std::get_if<Note>(&decision.body);
      return note != nullptr && note->text.find(text) != std::string::npos;
    });
  }
  [[nodiscard]] const std::vector<Decision>& decisions() const { return program_.decisions(); }

  // The driver, from now on.
  void refuse_moves() { program_.from_now_on(MoveOutcome::failed); }

  std::set<std::uint32_t> hot;
  bool probes_hurt = false;  // more than they can

 private:
  static Settings made(Switch probes) {
    Settings settings;
    settings.device_budget = SizeOrShare{kBudget};
    settings.probes = probes;
    return settings;
  }
  // What the latest decisions make of the card; moves count when they are finished.
  void after() {
    for (; seen_ < program_.decisions().size(); ++seen_) {
      const Decision& decision = program_.decisions()[seen_];
      if (const auto* advise = std::get_if<AdviseRange>(&decision.body)) take(*advise);
    }
    ASSERT_LE(program_.on_card(), program_.totals().window);
    if (!pool_) return;
    const auto& chunks = chunks_of_pool();
    for (std::uint32_t chunk = 0; chunk < kPoolChunks; ++chunk) {
      const bool was = inside_.contains(chunk);
      if (chunks[chunk] && !was) {
        EXPECT_FALSE(unmapped_.contains(chunk)) << "brought in without being mapped again";
        inside_.insert(chunk);
      }
      if (!chunks[chunk] && was) {
        inside_.erase(chunk);
        if (!accessed_.contains(chunk)) unmapped_.insert(chunk);
      }
    }
  }
  void take(const AdviseRange& advise) {
    if (!pool_ || advise.allocation != program_.id(pool_)) return;
    const auto first = static_cast<std::uint32_t>(advise.offset.count() / kChunk.count());
    const auto end = static_cast<std::uint32_t>((advise.offset + advise.bytes).count() / kChunk.count());
    for (std::uint32_t chunk = first; chunk < end; ++chunk) {
      if (advise.advice == Advice::accessed_by) accessed_.insert(chunk), unmapped_.erase(chunk);
      if (advise.advice == Advice::unset_accessed_by) accessed_.erase(chunk);
      if (advise.advice != Advice::probe) continue;
      EXPECT_FALSE(inside_.contains(chunk)) << "a probe in HBM says nothing";
      accessed_.erase(chunk);
      unmapped_.insert(chunk);
      ++probes_;
    }
  }
  [[nodiscard]] std::vector<bool> chunks_of_pool() const {
    std::vector<bool> inside(kPoolChunks);
    for (std::uint32_t chunk = 0; chunk < kPoolChunks; ++chunk)
      inside[chunk] = program_.chunk_on_card(pool_, kChunk * chunk);
    return inside;
  }
  // The kernel reads what is hot: a first touch of an unmapped chunk is a fault, and maps a page of it.
  void use() {
    std::vector<std::uint32_t> faults;
    for (const std::uint32_t chunk : unmapped_)
      if (hot.contains(chunk)) faults.push_back(chunk);
    for (const std::uint32_t chunk : faults) {
      ++hits_;
      program_.send(PagesObserved{PageTraffic::remote_map, pool_ + kChunk * chunk + Bytes(8192), 4_KiB});
      after();
    }
  }

  ScriptedProgram program_;
  Address small_, pool_;
  std::size_t seen_ = 0;
  std::set<std::uint32_t> inside_, accessed_, unmapped_;
  int probes_ = 0, hits_ = 0;
};

std::set<std::uint32_t> chunks(std::uint32_t first, std::uint32_t count) {
  std::set<std::uint32_t> all;
  for (std::uint32_t i = first; i < first + count; ++i) all.insert(i);
  return all;
}

TEST(SparseRanges, WhatIsUsedComesInAndWhatIsNotGoesOut) {
  SparseProgram program;
  program.hot = chunks(80, 16);
  program.run(20);
  EXPECT_EQ(program.probes(), 0) << "nobody watches pages yet";
  program.watch();
  program.run(200);
  EXPECT_EQ(program.hot_inside(), 16U);
  EXPECT_TRUE(program.noted("it is used sparsely"));
  // Others have their turn, and those before are parked.
  const auto parked = program.hot;
  program.hot = chunks(104, 16);
  program.run(200);
  EXPECT_EQ(program.hot_inside(), 16U);
  // And come back.
  program.hot = chunks(0, 16);
  program.run(200);
  EXPECT_EQ(program.hot_inside(), 16U);
  program.hot = parked;
  program.run(200);
  EXPECT_EQ(program.hot_inside(), 16U);
}

TEST(SparseRanges, MovesSayWhy) {
  SparseProgram program;
  program.hot = chunks(80, 16);
  program.run(20);
  program.watch();
  program.run(200);
  int in = 0, out = 0;
  for (const Decision& decision : program.decisions()) {
    if (!std::holds_alternative<MoveRange>(decision.body)) continue;
    in += decision.cause.reason == Reason::hot ? 1 : 0;
    out += decision.cause.reason == Reason::second_chance ? 1 : 0;
  }
  EXPECT_GT(in, 0);
  EXPECT_GT(out, 0);
}

TEST(SparseRanges, WhatIsUsedAsAWholeIsProbedOnce) {
  SparseProgram program;
  program.hot = chunks(0, kPoolChunks);
  program.run(20);
  program.watch();
  program.run(60);
  EXPECT_TRUE(program.noted("it is used as a whole"));
  EXPECT_LE(program.probes(), 8);
  EXPECT_EQ(program.unmapped().size(), 0U);
  const int probes = program.probes();
  program.run(300);
  EXPECT_EQ(program.probes(), probes);
}

// What is asked for in answer to a refusal would be refused again: an exchange a round is as much as is tried.
TEST(SparseRanges, WhereNothingMovesLittleIsAskedFor) {
  SparseProgram program;
  program.hot = chunks(80, 16);
  program.run(20);
  program.watch();
  program.run(100);
  program.refuse_moves();
  program.hot = chunks(40, 16);
  const std::size_t before = program.decisions().size();
  program.run(200);
  const auto moves =
      std::count_if(program.decisions().begin() + static_cast<std::ptrdiff_t>(before), program.decisions().end(),
                    [](const Decision& decision) { return std::holds_alternative<MoveRange>(decision.body); });
  EXPECT_GT(moves, 0);
  EXPECT_LT(moves, 200 * 16);
  program.lose();
  EXPECT_EQ(program.unmapped().size(), 0U) << "what stayed has its mapping";
}

// More is hot than fits: exchanges are mistakes, and cease.
TEST(SparseRanges, TrafficCeasesWhereMoreIsHotThanFits) {
  SparseProgram program;
  program.hot = chunks(0, 100);
  program.run(20);
  program.watch();
  program.run(1000);
  const Bytes first = program.moved();
  program.run(1000);
  const Bytes second = program.moved() - first;
  // An iteration reads 200 MiB, half of it over the link, whatever is where: 100 GiB each time.
  EXPECT_LT(first, 1_GiB);
  EXPECT_LT(second, 640_MiB);
}

TEST(SparseRanges, HotSpotsThatJumpAboutCauseLittleTraffic) {
  SparseProgram program;
  std::mt19937 random(3);
  program.run(20);
  program.watch();
  for (int i = 0; i < 400; ++i) {
    program.hot = chunks(static_cast<std::uint32_t>(random() % 112), 16);
    program.run(2);
  }
  // Each stay is over before anything could be gained: what is read in place meanwhile is 25 GiB.
  EXPECT_LT(program.moved(), 1_GiB + 256_MiB);
}

TEST(SparseRanges, EverythingIsMappedWhenNobodyWatches) {
  SparseProgram program;
  program.hot = chunks(80, 16);
  program.run(20);
  program.watch();
  program.run(100);
  ASSERT_GT(program.unmapped().size(), 5U);
  program.lose();
  EXPECT_EQ(program.unmapped().size(), 0U);
  const int probes = program.probes();
  program.run(100);
  EXPECT_EQ(program.probes(), probes);
  EXPECT_EQ(program.unmapped().size(), 0U);
  // And goes on when pages are watched again.
  program.watch();
  program.run(100);
  EXPECT_GT(program.probes(), probes);
}

TEST(SparseRanges, WhatARulePlacesIsNotProbed) {
  for (const RulePlace place : {RulePlace::device, RulePlace::host}) {
    SparseProgram program({placed(place)});
    program.hot = chunks(80, 16);
    program.run(20);
    program.watch();
    program.run(100);
    EXPECT_EQ(program.probes(), 0);
  }
}

TEST(SparseRanges, SwitchedOffNothingIsProbed) {
  SparseProgram program({}, Switch::off);
  program.hot = chunks(80, 16);
  program.run(20);
  program.watch();
  program.run(100);
  EXPECT_EQ(program.probes(), 0);
}

TEST(SparseRanges, MatrixOperandsAreNotProbed) {
  SparseProgram program({}, Switch::automatic, "sm90_gemm_bf16");
  program.hot = chunks(80, 16);
  program.run(20);
  program.watch();
  program.run(100);
  EXPECT_EQ(program.probes(), 0);
}

TEST(SparseRanges, ProbesThatMakeIterationsSlowerAreLeftAlone) {
  SparseProgram program;
  program.hot = chunks(80, 16);
  program.probes_hurt = true;
  program.run(20);
  program.watch();
  for (std::uint32_t i = 0; i < 60 && !program.noted("they are left alone for a while"); ++i) {
    program.hot = chunks(i * 16 % 112, 16);
    program.run(12);
  }
  ASSERT_TRUE(program.noted("they are left alone for a while"));
  EXPECT_EQ(program.unmapped().size(), 0U);
  const int probes = program.probes();
  program.run(60);
  EXPECT_EQ(program.probes(), probes);
}

TEST(SparseRanges, AProgramThatGetsSlowerByItselfIsNotTheirFault) {
  SparseProgram program;
  program.hot = chunks(80, 16);
  program.run(20);
  program.watch();
  program.run(60);
  ASSERT_GT(program.probes(), 0);
  program.run(120, Nanoseconds(2'000'000));
  program.hot = chunks(104, 16);
  program.run(200, Nanoseconds(2'000'000));
  EXPECT_FALSE(program.noted("they are left alone for a while"));
  EXPECT_EQ(program.hot_inside(), 16U);
}

TEST(SparseRanges, TheSameEventsGiveTheSameDecisions) {
  const auto decisions = [] {
    SparseProgram program;
    program.hot = chunks(80, 16);
    program.run(20);
    program.watch();
    program.run(100);
    program.hot = chunks(0, 16);
    program.run(100);
    return program.decisions();
  };
  EXPECT_EQ(decisions(), decisions());
}

}  // namespace
}  // namespace spillway::policy
