// Adaptive on the events of real programs: what it decides is written down in expected/, and changes only on purpose.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include "policy/explain.hpp"
#include "policy/trace/trace_reader.hpp"
#include "tests/golden/golden.hpp"
#include "tests/golden/rewrite.hpp"

namespace spillway::golden {
namespace {

using namespace policy;

std::string decided(const ReplayResult& result) {
  struct Sum {
    std::size_t count = 0;
    Bytes bytes;
  };
  std::map<std::string, Sum> sums;
  for (const Decision& decision : result.decisions) {
    const auto* move = std::get_if<MoveRange>(&decision.body);
    if (move == nullptr) continue;
    Sum& sum =
        sums[std::string(in_hbm(move->to) ? "in" : "out") + ", " +
             std::string(kSpanClassNames[decision.cause.span_class]) + ", " + reason_text(decision.cause.reason)];
    ++sum.count;
    sum.bytes += move->bytes;
  }
  std::ostringstream text;
  for (const auto& [what, sum] : sums)
    text << "  " << what << ": " << sum.count << " moves, " << (sum.bytes.count() >> 20) << " MiB\n";
  return text.str();
}

std::string describe(const Golden& golden) {
  std::ostringstream text;
  text.setf(std::ios::fixed);
  text.precision(2);
  text << golden.name << ": " << golden.trace.launches << " launches, peak " << (golden.peak.count() >> 20) << " MiB\n";
  for (const double share : kShares) {
    const ReplayResult result = golden.replay(ModeName::adaptive, share);
    Bytes inside, outside;
    for (const FinalPlacement& placement : result.placements) {
      inside += placement.in_hbm;
      outside += placement.on_host;
    }
    text << "\nbudget " << static_cast<int>(share * 100) << "%: iteration of " << result.iteration << " launches, "
         << result.refused << " requests refused\n";
    for (const std::string& note : result.notes) text << "  note: " << note << "\n";
    text << decided(result);
    text << "  at the end " << (inside.count() >> 20) << " MiB in HBM, " << (outside.count() >> 20)
         << " MiB on the host\n";
    text << "  last third: crossed " << result.measured.model.crossed() / (1 << 30) << " GiB, least "
         << result.bounds.traffic / (1 << 30) << " GiB\n";
  }
  return text.str();
}

// What moves in pieces of 32 MiB is worth some percent either way in programs this small.
constexpr double kAllowed = 1.05;

// What adaptive is estimated to take and to move, of the last third of the launches.
struct Estimate {
  int percent = 0;
  double seconds = 0;
  double gibibytes = 0;
};

// By how much an estimate may exceed the recorded one. Below it nothing fails: whoever makes things better records it.
constexpr double kEstimateMargin = 0.05;

std::vector<Estimate> estimate(const Golden& golden) {
  std::vector<Estimate> all;
  for (const double share : kShares) {
    const ReplayFigures measured = golden.replay(ModeName::adaptive, share).measured;
    all.push_back({static_cast<int>(share * 100), measured.seconds, measured.model.crossed() / (1 << 30)});
  }
  return all;
}

std::vector<Estimate> read_estimates(std::istream& stream) {
  std::vector<Estimate> all;
  Estimate one;
  std::string percent, s, gib;
  while (stream >> percent >> one.seconds >> s >> one.gibibytes >> gib) {
    one.percent = std::atoi(percent.c_str());
    all.push_back(one);
  }
  return all;
}

// Empty, or a sentence that says what has become worse, by how much, and what to do.
std::string worse(const std::string& what, double now, double recorded) {
  if (now <= recorded * (1 + kEstimateMargin)) return {};
  std::ostringstream text;
  text << what << " was " << recorded << " and is " << now << ", " << 100 * (now / recorded - 1) << "% more; "
       << 100 * kEstimateMargin
       << "% are allowed. If the change is meant: SPILLWAY_REFRESH_GOLDEN=1, and review the diff";
  return text.str();
}

class GoldenTrace : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenTrace, IsDecidedAsExpected) {
  const Golden golden = load(GetParam());
  const std::string text = describe(golden);
  const std::filesystem::path file = std::filesystem::path(GOLDEN_FOLDER) / "expected" / (golden.name + ".txt");
  if (std::getenv("SPILLWAY_REFRESH_GOLDEN") != nullptr) {
    std::ofstream(file) << text;
    return;
  }
  std::ifstream stream(file);
  ASSERT_TRUE(stream) << file << " is missing: run once with SPILLWAY_REFRESH_GOLDEN=1, and look at what it says";
  const std::string expected((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_EQ(text, expected) << "if the change is meant: SPILLWAY_REFRESH_GOLDEN=1, and review the diff";
}

TEST_P(GoldenTrace, StaysWithinItsBudgetAndIsNotWorseThanTheBaselines) {
  const Golden golden = load(GetParam());
  EXPECT_LE(std::filesystem::file_size(GetParam()), 300U << 10);
  for (const double share : kShares) {
    const ReplayResult adaptive = golden.replay(ModeName::adaptive, share);
    EXPECT_LE(adaptive.resident_peak, adaptive.budget) << share;
    EXPECT_EQ(adaptive.measured.model.faulted, 0) << share;
    for (const ModeName mode : {ModeName::demand, ModeName::alloc_prefetch, ModeName::arrival}) {
      EXPECT_LE(adaptive.measured.seconds, kAllowed * golden.replay(mode, share).measured.seconds)
          << "mode " << static_cast<int>(mode) << " share " << share;
    }
  }
}

TEST_P(GoldenTrace, IsEstimatedToTakeAndToMoveNoMoreThanItDid) {
  const Golden golden = load(GetParam());
  const std::vector<Estimate> now = estimate(golden);
  const std::filesystem::path file = std::filesystem::path(GOLDEN_FOLDER) / "expected" / (golden.name + ".estimates");
  if (std::getenv("SPILLWAY_REFRESH_GOLDEN") != nullptr) {
    std::ofstream stream(file);
    stream << std::fixed << std::setprecision(4);
    for (const Estimate& one : now) stream << one.percent << "% " << one.seconds << " s " << one.gibibytes << " GiB\n";
    return;
  }
  std::ifstream stream(file);
  ASSERT_TRUE(stream) << file << " is missing: run once with SPILLWAY_REFRESH_GOLDEN=1, and look at what it says";
  const std::vector<Estimate> recorded = read_estimates(stream);
  ASSERT_EQ(recorded.size(), now.size()) << file << " is not a line for each budget";
  for (std::size_t i = 0; i < now.size(); ++i) {
    ASSERT_EQ(recorded[i].percent, now[i].percent) << file;
    const std::string where = golden.name + " at " + std::to_string(now[i].percent) + "%: ";
    EXPECT_EQ(worse(where + "time in seconds", now[i].seconds, recorded[i].seconds), "");
    EXPECT_EQ(worse(where + "traffic in GiB", now[i].gibibytes, recorded[i].gibibytes), "");
  }
}

TEST(Estimates, AMarginIsAllowedAndMoreIsSaid) {
  EXPECT_EQ(worse("time", 1.04, 1), "");
  EXPECT_EQ(worse("time", 0.5, 1), "");
  EXPECT_NE(worse("time", 1.06, 1).find("time was 1 and is 1.06, 6% more; 5% are allowed"), std::string::npos);
}

// What is known of the recorded programs: a token of the decoder, whose cache grows with each, and a pass over the
// blocks.
TEST(Iterations, OfGenerationAndOfBlocksAreFound) {
  const std::filesystem::path traces = std::filesystem::path(GOLDEN_FOLDER) / "traces";
  EXPECT_EQ(load(traces / "generate_llama.swt").replay(ModeName::adaptive, 0.5).iteration, 356U);
  EXPECT_EQ(load(traces / "cupy_blocks.swt").replay(ModeName::adaptive, 0.5).iteration, 78U);
}

struct ReadAll {
  std::vector<Event> events;
  std::vector<Decision> decisions;
  bool whole = false;
};

ReadAll read_all(std::span<const std::byte> file) {
  ReadAll all;
  trace::TraceReader reader(trace::pull_from(file));
  if (reader.open()) return all;
  for (trace::Record record; reader.next(record);) {
    if (record.kind == trace::RecordKind::event) all.events.push_back(record.event);
    if (record.kind == trace::RecordKind::decision) all.decisions.push_back(record.decision);
  }
  all.whole = reader.whole();
  return all;
}

// 12 bytes are the promise. What the writer of today makes of a recording, and what lies here.
TEST_P(GoldenTrace, TakesTwelveBytesALaunchAtMost) {
  const std::vector<std::byte> file = bytes_of(GetParam());
  const Rewritten now = rewrite(file);
  ASSERT_TRUE(now.whole);
  ASSERT_GT(now.launches, 1000U);
  EXPECT_LE(now.file.size(), now.launches * 12);
  EXPECT_LE(file.size(), now.launches * 12) << "golden_rewrite tests/golden/traces/*.swt packs it anew";
}

TEST_P(GoldenTrace, SaysTheSameWhenWrittenAgain) {
  const std::vector<std::byte> file = bytes_of(GetParam());
  const ReadAll before = read_all(file);
  const ReadAll after = read_all(rewrite(file).file);
  EXPECT_TRUE(before.whole && after.whole);
  EXPECT_EQ(before.events, after.events);
  EXPECT_EQ(before.decisions, after.decisions);
}

INSTANTIATE_TEST_SUITE_P(Recorded, GoldenTrace,
                         ::testing::ValuesIn(list(std::filesystem::path(GOLDEN_FOLDER) / "traces")),
                         [](const auto& each) { return each.param.stem().string(); });

}  // namespace
}  // namespace spillway::golden
