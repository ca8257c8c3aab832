// `spillway stats` as a person runs it: real processes on small traces with known figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "policy/trace/frame.hpp"
#include "tests/support/long_trace.hpp"
#include "tests/support/process.hpp"
#include "tests/support/sample_trace.hpp"
#include "tests/support/trace_maker.hpp"

namespace spillway::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using tests::run_process;
namespace fs = std::filesystem;

class StatsTest : public ::testing::Test {
 protected:
  StatsTest() {
    std::string pattern = (fs::temp_directory_path() / "stats-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~StatsTest() override { fs::remove_all(folder_); }

  std::string put(const std::string& name, const std::vector<std::byte>& bytes) {
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return name;
  }
  tests::ProcessResult stats(std::vector<std::string> arguments, tests::ProcessOptions options = {}) {
    arguments.insert(arguments.begin(), {SPILLWAY_COMMAND, "stats"});
    options.folder = folder_.string();
    return run_process(arguments, options);
  }

  fs::path folder_;
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Refresh with SPILLWAY_REFRESH_GOLDEN=1; the change is reviewed as a diff.
TEST_F(StatsTest, PageIsTheGoldenOne) {
  put("run.swt", tests::sample_trace());
  const auto result = stats({"run.swt"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const fs::path golden = fs::path(GOLDEN_FOLDER) / "stats.txt";
  if (std::getenv("SPILLWAY_REFRESH_GOLDEN") != nullptr) std::ofstream(golden) << result.out;
  EXPECT_EQ(result.out, text_of(golden));
}

TEST_F(StatsTest, JsonHasTheFigures) {
  put("run.swt", tests::sample_trace({"5", true, 1024, 1}));
  const auto result = stats({"run.swt", "--json"});
  ASSERT_EQ(result.exit_code, 0);
  const auto json = nlohmann::json::parse(result.out);
  constexpr std::uint64_t kMiB = 1U << 20U;
  EXPECT_EQ(json["whole"], true);
  EXPECT_EQ(json["rank"], "5");
  EXPECT_EQ(json["launches"], 30);
  EXPECT_EQ(json["allocations"]["settled"], 3);
  EXPECT_EQ(json["allocations"]["managed"]["bytes"], 8 * kMiB);
  EXPECT_EQ(json["allocations"]["refused"]["count"], 1);
  EXPECT_EQ(json["allocations"]["refused"]["bytes"], 1024 * kMiB);
  EXPECT_EQ(json["allocations"]["live_at_end"]["count"], 2);
  EXPECT_EQ(json["devices"][0]["budget"], 4096 * kMiB);
  EXPECT_EQ(json["devices"][0]["resident_peak"], 6 * kMiB);
  EXPECT_EQ(json["traffic"]["moved_to_device"]["count"], 2);
  EXPECT_EQ(json["traffic"]["moves_cancelled"], 1);
  EXPECT_EQ(json["functions"][0]["name"], "gemm");
  EXPECT_EQ(json["functions"][0]["launches"], 20);
  EXPECT_EQ(json["functions"][1]["demangled"], "adam(float*, float*, int)");
  EXPECT_EQ(json["dropped_events"], 1);
  EXPECT_EQ(json["settings"]["policy.mode"], "arrival");
}

// Without the end the figures are added up from the moves themselves: chunk by chunk, each once.
TEST_F(StatsTest, TraceWithoutAnEndIsAddedUpAndSaysSo) {
  put("run.swt", tests::sample_trace({"", false, 1024, 1}));
  const auto result = stats({"run.swt", "--json"});
  ASSERT_EQ(result.exit_code, 0);
  const auto json = nlohmann::json::parse(result.out);
  constexpr std::uint64_t kMiB = 1U << 20U;
  EXPECT_EQ(json["whole"], false);
  EXPECT_EQ(json["devices"][0]["totals_are_recorded"], false);
  EXPECT_EQ(json["devices"][0]["budget"], 4096 * kMiB) << "from the settings";
  EXPECT_EQ(json["devices"][0]["resident_peak"], 5 * kMiB);
  EXPECT_EQ(json["devices"][0]["resident"], 3 * kMiB);
  EXPECT_EQ(json["devices"][0]["on_host"], 5 * kMiB);
  EXPECT_EQ(json["devices"][0]["moved_out"], 4 * kMiB);
  EXPECT_EQ(json["devices"][0]["moved_in"], 2 * kMiB);
  EXPECT_EQ(json["devices"][0]["plain"], 0);
  EXPECT_THAT(stats({"run.swt"}).out, HasSubstr("still running, or killed"));
}

TEST_F(StatsTest, CutAndFlippedTracesNameTheOffset) {
  std::vector<std::byte> bytes = tests::sample_trace();
  std::vector<std::byte> cut(bytes.begin(), bytes.end() - 30);
  put("cut.swt", cut);
  auto result = stats({"cut.swt"});
  EXPECT_EQ(result.exit_code, 0) << "what can be shown is shown";
  EXPECT_THAT(result.out, HasSubstr("cut at byte " + std::to_string(cut.size())));
  bytes[bytes.size() / 2] ^= std::byte{1};
  put("flipped.swt", bytes);
  result = stats({"flipped.swt"});
  EXPECT_THAT(result.out, HasSubstr("1 damaged piece left out, the first at byte "));
}

// What an end records is of the whole run, what is added up is not: each is said to be which.
TEST_F(StatsTest, OfADamagedTraceEachFigureSaysWhatItIsOf) {
  const std::vector<std::byte> whole = tests::sample_trace({"", true, 512, 0});
  std::vector<std::byte> flipped = whole;
  flipped[whole.size() / 2] ^= std::byte{1};
  put("middle.swt", flipped);
  const std::string page = stats({"middle.swt"}).out;
  EXPECT_THAT(page, HasSubstr("figures       of what could be read, but for what is said to be recorded at the end\n"));
  EXPECT_THAT(page, HasSubstr(", last event read at "));
  EXPECT_THAT(page, HasSubstr("Devices, as recorded at the end\n"));
  EXPECT_THAT(page, HasSubstr(" at least "));
  auto json = nlohmann::json::parse(stats({"middle.swt", "--json"}).out);
  EXPECT_EQ(json["devices"][0]["totals_are_recorded"], true);
  EXPECT_EQ(json["devices"][0]["on_host_peak_is_at_least"], true);
  EXPECT_EQ(json["duration_is_at_least"], true);
  EXPECT_EQ(json["header_is_known"], true);
  put("whole.swt", whole);
  EXPECT_THAT(stats({"whole.swt"}).out, ::testing::Not(::testing::AnyOf(HasSubstr("at least"), HasSubstr("figures "))));
  json = nlohmann::json::parse(stats({"whole.swt", "--json"}).out);
  EXPECT_EQ(json["devices"][0]["on_host_peak_is_at_least"], false);
  EXPECT_EQ(json["duration_is_at_least"], false);
}

// A disk may be too slow where there is a limit, too: then something is written after the loss, or the limit is far.
TEST_F(StatsTest, ATraceEndedByItsLimitSaysSoAndIsNotWhole) {
  const auto make = [](const char* limit, bool goes_on) {
    policy::trace::TraceHeader header;
    if (*limit != '\0') header.settings = {{"trace.max_size", limit}};
    tests::TraceMaker maker(header);
    maker.launch(1);
    maker.drop(7, 2);
    if (goes_on) maker.launch(1);
    return maker;
  };
  put("full.swt", make("1MiB", false).finish());
  const auto full = stats({"full.swt"});
  EXPECT_THAT(full.out,
              HasSubstr("trace         full.swt, ended by trace.max_size (1 MiB): what came later is counted, "
                        "not written\n"));
  EXPECT_THAT(full.out, HasSubstr("dropped       7 events, 2 frames: this trace is no exact replay; it reached "
                                  "trace.max_size: raise that, or leave it out\n"));
  EXPECT_THAT(full.out, Not(HasSubstr("whole")));
  const auto json = nlohmann::json::parse(stats({"full.swt", "--json"}).out);
  EXPECT_EQ(json["whole"], false);
  EXPECT_EQ(json["reached_max_size"], true);
  EXPECT_EQ(json["dropped_is_at_least"], false);
  put("killed.swt", make("1MiB", false).finish_without_end());
  EXPECT_THAT(stats({"killed.swt"}).out, HasSubstr("ended by trace.max_size (1 MiB): what came later is counted, not "
                                                   "written; no end after byte "));
  put("slow.swt", make("1MiB", true).finish());
  put("small.swt", make("1GiB", false).finish());
  put("free.swt", make("", false).finish());
  for (const char* name : {"slow.swt", "small.swt", "free.swt"}) {
    const std::string page = stats({name}).out;
    EXPECT_THAT(page, HasSubstr(std::string(name) + ", whole\n"));
    EXPECT_THAT(page, HasSubstr("no exact replay; its disk was full or too slow\n"));
  }
}

TEST_F(StatsTest, OfACutOrDamagedTraceItIsNotSaidThatNothingIsMissing) {
  tests::TraceMaker maker({});
  for (int i = 0; i < 100; ++i) maker.launch(1);
  const std::vector<std::byte> whole = maker.finish();
  put("whole.swt", whole);
  EXPECT_THAT(stats({"whole.swt"}).out, HasSubstr("dropped       nothing\n"));
  std::vector<std::byte> flipped = whole;
  flipped[flipped.size() / 2] ^= std::byte{1};
  put("flipped.swt", flipped);
  put("cut.swt", {whole.begin(), whole.end() - 30});
  for (const char* name : {"flipped.swt", "cut.swt"}) {
    const std::string page = stats({name}).out;
    EXPECT_THAT(page, HasSubstr("dropped       not known: records are missing that were not counted\n")) << page;
    EXPECT_EQ(nlohmann::json::parse(stats({name, "--json"}).out)["dropped_is_at_least"], true);
  }
  EXPECT_THAT(stats({"whole.swt", "cut.swt"}).out, HasSubstr(" unknown "));
  std::vector<std::byte> sample = tests::sample_trace();
  sample.resize(sample.size() - 30);
  put("sample.swt", sample);
  EXPECT_THAT(stats({"sample.swt"}).out, HasSubstr("dropped       at least 1 event, "));
}

TEST_F(StatsTest, ADamagedHeaderIsUnknownAndNotEmptyOrAtItsDefaults) {
  std::vector<std::byte> flipped = tests::sample_trace({"", true, 512, 0});
  flipped[40] ^= std::byte{1};
  put("header.swt", flipped);
  const std::string page = stats({"header.swt"}).out;
  for (const char* line : {"program       unknown\n", "process       unknown, last event read at ",
                           "spillway      unknown\n", "settings      unknown\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  EXPECT_EQ(nlohmann::json::parse(stats({"header.swt", "--json"}).out)["header_is_known"], false);
  const std::vector<std::byte> cut = tests::sample_trace({"", false, 512, 0});
  std::vector<std::byte> without_end = cut;
  without_end[40] ^= std::byte{1};
  put("no-budget.swt", without_end);
  EXPECT_EQ(nlohmann::json::parse(stats({"no-budget.swt", "--json"}).out)["devices"][0]["budget"], 0)
      << "the settings are not known";
}

TEST_F(StatsTest, BadInputIsOneLineWithPlaceAndRemedy) {
  const auto complaint = [this](const std::string& name) {
    const auto result = stats({name});
    EXPECT_EQ(result.exit_code, 1) << name;
    EXPECT_EQ(result.out, "") << name;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  put("empty.swt", {});
  EXPECT_THAT(complaint("empty.swt"), HasSubstr("empty.swt: byte 0: the file is empty"));
  std::ofstream(folder_ / "foreign.swt") << "PK\x03\x04 something else entirely";
  EXPECT_THAT(complaint("foreign.swt"), HasSubstr("not a Spillway trace"));
  std::vector<std::byte> newer = tests::sample_trace();
  newer[8] = std::byte{policy::trace::kVersion + 1};
  put("newer.swt", newer);
  EXPECT_THAT(complaint("newer.swt"),
              HasSubstr("byte 8: the trace has format version " + std::to_string(policy::trace::kVersion + 1)));
  EXPECT_THAT(complaint("missing.swt"), HasSubstr("No such file"));
  fs::create_directory(folder_ / "nothing");
  EXPECT_THAT(complaint("nothing"), HasSubstr("holds no trace"));
}

TEST_F(StatsTest, AHeaderNestedTooDeepIsSaidAndTheRestIsShown) {
  const std::vector<std::byte> whole = tests::sample_trace();
  std::uint32_t length = 0;
  std::memcpy(&length, whole.data() + 12, sizeof length);
  std::vector<std::byte> deep = policy::trace::encode_file_start(
      R"({"cost_table":{"x":)" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}}");
  deep.insert(deep.end(), whole.begin() + 20 + length, whole.end());
  fs::create_directory(folder_ / "deep");
  put("deep/run.swt", deep);
  for (const char* name : {"deep/run.swt", "deep"}) {
    const auto result = stats({name});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("the first at byte 20; its header cannot be read"));
  }
}

TEST_F(StatsTest, FolderOfRanksIsALineEachAndTotals) {
  fs::create_directory(folder_ / "ranks");
  put("ranks/b.swt", tests::sample_trace({"1", true, 1024, 1}));
  put("ranks/a.swt", tests::sample_trace({"0", true, 1024, 1}));
  put("ranks/a.swt.1", tests::sample_trace({"2", true, 1024, 1}));
  std::ofstream(folder_ / "ranks" / "notes.txt") << "no trace";
  const auto result = stats({"ranks"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5) << result.out;
  EXPECT_THAT(result.out, HasSubstr("90"));
  const auto json = nlohmann::json::parse(stats({"ranks", "--json"}).out);
  EXPECT_EQ(json["totals"]["launches"], 90);
  EXPECT_EQ(json["traces"].size(), 3U);
  // One that cannot be read does not hide the others.
  std::ofstream(folder_ / "ranks" / "c.swt") << "foreign";
  const auto mixed = stats({"ranks"});
  EXPECT_EQ(mixed.exit_code, 1);
  EXPECT_THAT(mixed.out, HasSubstr("ranks/a.swt.1"));
  EXPECT_THAT(mixed.err, HasSubstr("c.swt"));
}

#if !defined(__SANITIZE_ADDRESS__)
// 200 MiB, whatever the size of the file: the limit is on address space, so that nothing escapes it.
TEST_F(StatsTest, ALongTraceIsReadIn200MiB) {
  {
    std::ofstream file(folder_ / "long.swt", std::ios::binary);
    tests::LongTrace options;
    options.events = 3'000'000;
    tests::write_long_trace(options, [&file](std::span<const std::byte> bytes) {
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    });
  }
  const auto result = tests::run_process(
      {"sh", "-c",
       "ulimit -v 204800 && cd \"$0\" && exec \"$1\" stats long.swt --by class,rule,kernel,iteration,allocation",
       folder_.string(), SPILLWAY_COMMAND});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("all"), std::string::npos);
}
#endif

TEST_F(StatsTest, IsQuietOnAClosedPipe) {
  put("run.swt", tests::sample_trace());
  tests::ProcessOptions options;
  options.close_stdout_reader = true;
  const auto result = stats({"run.swt"}, options);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.exit_code, 0);
}

TEST_F(StatsTest, ATraceIsCountedOnceHoweverOftenItIsNamed) {
  put("run.swt", tests::sample_trace());
  std::filesystem::create_symlink("run.swt", folder_ / "link.swt");
  const auto once = stats({"run.swt"});
  const auto twice = stats({"run.swt", "./run.swt", "link.swt"});
  EXPECT_EQ(twice.out, once.out);
  EXPECT_EQ(twice.exit_code, 0);
  EXPECT_EQ(twice.err,
            "spillway: ./run.swt: is named more than once; it is counted once\n"
            "spillway: link.swt: is named more than once; it is counted once\n");
}

TEST_F(StatsTest, AStoryHasNoTables) {
  put("run.swt", tests::sample_trace());
  const auto result = stats({"run.swt", "--by", "allocation", "--explain", "2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("--explain tells the story of one allocation, and --by makes tables"));
}

TEST_F(StatsTest, FullDiskIsSaid) {
  put("run.swt", tests::sample_trace());
  const auto result = run_process(
      {"sh", "-c", std::string(SPILLWAY_COMMAND) + " stats " + (folder_ / "run.swt").string() + " > /dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("No space left"));
}

TEST_F(StatsTest, UsageMistakesExitWithTwo) {
  EXPECT_EQ(stats({}).exit_code, 2);
  EXPECT_EQ(stats({"--frobnicate", "x.swt"}).exit_code, 2);
  EXPECT_EQ(stats({"--top", "many", "x.swt"}).exit_code, 2);
}

}  // namespace
}  // namespace spillway::tools
