// `spillway export`: the SQLite file answers its page's ten questions with stats' figures, CSV has its columns, and bad
// input is one line.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/sample_trace.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"
#include "tools/exporter.hpp"
#include "tools/names.hpp"

namespace spillway::tools {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ExportTest = TraceCommandTest;

template <std::size_t... kIndexes>
std::vector<std::string> decision_kinds(std::index_sequence<kIndexes...> /*all*/) {
  return {decision_kind_name(policy::DecisionBody(std::in_place_index<kIndexes>))...};
}

TEST(ExportsPage, NamesEveryKindOfDecision) {
  std::ifstream file(std::filesystem::path(SQLITE_PAGE).parent_path() / "exports.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::size_t decisions = page.find("; decisions are ");
  ASSERT_NE(decisions, std::string::npos);
  const std::string listed = page.substr(decisions, page.find('\n', decisions) - decisions);
  for (const std::string& kind : decision_kinds(std::make_index_sequence<std::variant_size_v<policy::DecisionBody>>()))
    EXPECT_THAT(listed, HasSubstr("`" + kind + "`"));
}

// Rows as JSON objects.
json query(const std::filesystem::path& path, const std::string& sql) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  json rows = json::array();
  while (sqlite3_step(statement) == SQLITE_ROW) {
    json row = json::object();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      json value;
      if (sqlite3_column_type(statement, i) == SQLITE_INTEGER) value = sqlite3_column_int64(statement, i);
      if (sqlite3_column_type(statement, i) == SQLITE_TEXT) {
        value = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
      }
      row[sqlite3_column_name(statement, i)] = value;
    }
    rows.push_back(std::move(row));
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return rows;
}

// The page's questions, in order.
std::vector<std::string> questions() {
  std::ifstream file(SQLITE_PAGE);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> found;
  for (std::size_t at = page.find("```sql"); at != std::string::npos; at = page.find("```sql", at + 1)) {
    const std::size_t begin = at + 6;
    found.push_back(page.substr(begin, page.find("```", begin) - begin));
  }
  return found;
}

// What the page's first example asks, between quotes on its sqlite3 line.
std::string first_example() {
  std::ifstream file(SQLITE_PAGE);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::size_t line = page.find("    sqlite3 train.db ");
  const std::size_t begin = page.find('"', line) + 1;
  return page.substr(begin, page.find('"', begin) - begin);
}

// The rows with these columns only.
json only(const json& rows, const std::vector<std::string>& columns) {
  json out = json::array();
  for (const json& row : rows) {
    json one = json::object();
    for (const std::string& column : columns) one[column] = row[column];
    out.push_back(std::move(one));
  }
  return out;
}

json sorted_by(json rows, const std::string& column) {
  std::sort(rows.begin(), rows.end(), [&](const json& a, const json& b) { return a[column] < b[column]; });
  return rows;
}

TEST_F(ExportTest, ThePagesFirstExampleRuns) {
  put("run.swt", tests::training_trace());
  ASSERT_EQ(spillway({"export", "run.swt", "--format", "sqlite", "-o", "run.db"}).exit_code, 0);
  const json facts = query(folder_ / "run.db", first_example());
  ASSERT_FALSE(facts.empty());
  EXPECT_EQ(facts[0]["key"], "schema_version");
  const json rules = query(folder_ / "run.db", "SELECT * FROM rule ORDER BY rule");
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0], (json{{"rule", 1}, {"name", "weights last"}, {"file", "/etc/training.toml"}, {"line", 4}}));
}

TEST_F(ExportTest, SqliteAnswersTenQuestionsWithStatsFigures) {
  put("run.swt", tests::training_trace());
  ASSERT_EQ(spillway({"export", "run.swt", "--format", "sqlite", "-o", "run.db"}).exit_code, 0);
  const json stats =
      json::parse(spillway({"stats", "run.swt", "--json", "--by", "class,rule,kernel,iteration,allocation"}).out);
  const std::vector<std::string> asked = questions();
  ASSERT_EQ(asked.size(), 10U);
  const auto answer = [&](std::size_t number) { return query(folder_ / "run.db", asked[number - 1]); };

  EXPECT_EQ(answer(1)[0]["moved_in"], stats["traffic"]["moved_in"]);
  EXPECT_EQ(answer(1)[0]["moved_out"], stats["traffic"]["moved_out"]);

  EXPECT_EQ(only(answer(2), {"class", "moves", "moved_in", "moved_out"}),
            sorted_by(only(stats["by_class"], {"class", "moves", "moved_in", "moved_out"}), "class"));
  EXPECT_EQ(only(answer(3), {"rule", "moves", "moved_in", "moved_out"}),
            only(stats["by_rule"], {"rule", "moves", "moved_in", "moved_out"}));

  json kernels = json::array();
  for (const json& row : stats["by_kernel"]) {
    if (row["launches"] > 0) kernels.push_back(row);
  }
  EXPECT_EQ(sorted_by(answer(4), "demangled"),
            sorted_by(only(kernels, {"demangled", "launches", "host_bytes"}), "demangled"));

  const json iterations = answer(5);
  ASSERT_EQ(iterations.size(), stats["by_iteration"].size());
  json slowest;
  for (std::size_t i = 0; i < iterations.size(); ++i) {
    const json& row = stats["by_iteration"][i];
    const std::int64_t time = row["end_ns"].get<std::int64_t>() - row["begin_ns"].get<std::int64_t>();
    EXPECT_EQ(iterations[i]["time_ns"], time);
    for (const char* figure : {"iteration", "launches", "moved_in", "moved_out"})
      EXPECT_EQ(iterations[i][figure], row[figure]);
    if (row["complete"] == true && row["iteration"] > 0 && (slowest.is_null() || slowest["time_ns"] < time)) {
      slowest = {{"iteration", row["iteration"]}, {"time_ns", time}};
    }
  }
  EXPECT_EQ(answer(6)[0], slowest);
  EXPECT_EQ(answer(7), only(stats["by_allocation"], {"allocation", "moved_in", "moved_out"}));
  EXPECT_EQ(answer(8)[0]["refetched"], stats["traffic"]["refetched"]);
  EXPECT_EQ(answer(8)[0]["useless"], stats["traffic"]["useless"]);

  json decisions = json::array();
  for (const json& row : stats["decisions"]) {
    const std::string name = row["decision"];
    decisions.push_back({{"kind", name.substr(0, name.find(' '))},
                         {"reason", row["reason"]},
                         {"count", row["count"]},
                         {"bytes", row["bytes"]}});
  }
  std::sort(decisions.begin(), decisions.end(), [](const json& a, const json& b) {
    return std::pair(a["kind"], a["reason"]) < std::pair(b["kind"], b["reason"]);
  });
  EXPECT_EQ(answer(9), decisions);

  EXPECT_EQ(answer(10)[0]["backing"], "managed");
  EXPECT_EQ(answer(10)[0]["count"], stats["allocations"]["managed"]["count"]);
  EXPECT_EQ(answer(10)[0]["bytes"], stats["allocations"]["managed"]["bytes"]);
  EXPECT_EQ(answer(10)[0]["live"], stats["allocations"]["live_at_end"]["count"]);
}

// Another trace: plain memory, a refusal, a cancelled move, recorded totals.
TEST_F(ExportTest, SqliteHasWhatWasRefusedAndWhatFailed) {
  put("run.swt", tests::sample_trace());
  ASSERT_EQ(spillway({"export", "run.swt", "--format", "sqlite", "-o", "run.db"}).exit_code, 0);
  const auto rows = query(folder_ / "run.db", "SELECT allocation, outcome, requested_bytes FROM allocation ORDER BY 1");
  EXPECT_EQ(rows[0]["outcome"], "freed");
  EXPECT_EQ(rows[1]["outcome"], "live");
  EXPECT_EQ(rows[3]["outcome"], "refused");
  EXPECT_EQ(rows[3]["requested_bytes"], 1 << 30);
  EXPECT_EQ(query(folder_ / "run.db", "SELECT count(*) AS n FROM move WHERE outcome = 'cancelled'")[0]["n"], 1);
  EXPECT_EQ(query(folder_ / "run.db", "SELECT moved_in_bytes AS n FROM device_end")[0]["n"], 2 << 20);
  EXPECT_EQ(query(folder_ / "run.db", "PRAGMA integrity_check")[0]["integrity_check"], "ok");
  const json decisions =
      query(folder_ / "run.db", "SELECT sum(bytes) AS n FROM decision WHERE kind IN ('back', 'refuse')");
  EXPECT_EQ(decisions[0]["n"], (1 + 5 + 3 + 1024) << 20);
}

TEST_F(ExportTest, WhatWasWrittenIsSaidInALine) {
  put("run.swt", tests::training_trace());
  const auto written = [this](std::vector<std::string> range) {
    std::filesystem::remove(folder_ / "run.pftrace");
    range.insert(range.begin(), {"export", "run.swt", "--format", "perfetto", "-o", "run.pftrace"});
    return spillway(range).out;
  };
  EXPECT_THAT(written({}), ::testing::MatchesRegex("run.pftrace: [0-9.]+ KiB, the whole trace\n"));
  EXPECT_THAT(written({"--iteration", "3..9"}), ::testing::EndsWith("B, iterations 3 to 9\n"));
  EXPECT_THAT(written({"--iteration", "3"}), ::testing::EndsWith("B, iteration 3\n"));
  EXPECT_THAT(written({"--iteration", "3..99"}), ::testing::EndsWith("B, iterations 3 to 19\n")) << "what there is";
  EXPECT_THAT(written({"--to", "20ms"}), ::testing::EndsWith("B, the beginning to 20ms\n"));
  EXPECT_THAT(written({"--from", "1ns", "--iteration", "3"}),
              ::testing::EndsWith("B, iteration 3, of 1ns to the end\n"));
  // What goes to standard output is the export alone.
  const auto csv = spillway({"export", "run.swt", "--format", "csv", "-o", "-"});
  EXPECT_THAT(csv.out, ::testing::Not(HasSubstr("whole trace")));
  const auto plan = spillway({"plan", "run.swt", "--device-budget", "16MiB", "-o", "plan.toml"});
  EXPECT_THAT(plan.out, ::testing::ContainsRegex("\nplan.toml: [0-9.]+ [KM]?i?B, [0-9]+ rules?\n$"));
}

// Not even that of another format.
TEST_F(ExportTest, OnlyWhatTheSameExportWroteIsReplaced) {
  put("run.swt", tests::sample_trace());
  const std::vector<std::string> formats = {"perfetto", "sqlite", "csv"};
  const auto into = [this](const std::string& format, const std::string& name) {
    return spillway({"export", "run.swt", "--format", format, "-o", name});
  };
  for (const std::string& format : formats) ASSERT_EQ(into(format, format).exit_code, 0);
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ / "mine.db").c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "CREATE TABLE mine (a)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  std::ofstream(folder_ / "keep.toml") << "[memory]\nbacking = \"auto\"\n";
  std::filesystem::create_symlink("keep.toml", folder_ / "link");
  for (const std::string& format : formats) {
    std::vector<std::string> foreign = {"keep.toml", "link", "mine.db"};
    std::copy_if(formats.begin(), formats.end(), std::back_inserter(foreign),
                 [&](const auto& f) { return f != format; });
    for (const std::string& name : foreign) {
      const std::string before = text(name);
      const auto refused = into(format, name);
      EXPECT_EQ(refused.exit_code, 2) << format << " over " << name;
      EXPECT_EQ(refused.err, "spillway: " + name + ": exists, and was not written by spillway export --format " +
                                 format + "; name another file with -o, or remove this one\n");
      EXPECT_EQ(text(name), before);
    }
    EXPECT_EQ(into(format, format).exit_code, 0) << "it is an earlier one";
    put("empty", {});
    EXPECT_EQ(into(format, "empty").exit_code, 0);
    EXPECT_EQ(text("empty"), text(format));
  }
}

// A piece of the same run takes its place, and a line says so. CSV has no place for the run's name.
TEST_F(ExportTest, AnExportOfAnotherRunIsNotReplaced) {
  put("a.swt", tests::training_trace());
  put("b.swt", tests::training_trace({"", "2026-01-02T03:04:06+00:00", 4242, 20}));
  for (const std::string format : {"perfetto", "sqlite", "csv"}) {
    const auto into = [this, &format](const std::string& trace, std::vector<std::string> piece = {}) {
      piece.insert(piece.begin(), {"export", trace, "--format", format, "-o", format});
      return spillway(piece);
    };
    EXPECT_THAT(into("a.swt").out, ::testing::EndsWith("iB, the whole trace\n"));
    const std::string before = text(format);
    const auto other = into("b.swt");
    if (format == "csv") {
      EXPECT_EQ(other.exit_code, 0);
      EXPECT_THAT(other.out, ::testing::EndsWith("the whole trace, in place of an earlier one\n"));
      continue;
    }
    EXPECT_EQ(other.exit_code, 2) << format;
    EXPECT_EQ(other.out, "");
    EXPECT_EQ(other.err, "spillway: " + format +
                             ": exists, and is of another run (node1/4242/2026-01-02T03:04:05+00:00); name another "
                             "file with -o, or add --replace\n");
    EXPECT_TRUE(text(format) == before);
    EXPECT_THAT(into("a.swt", {"--iteration", "3"}).out,
                ::testing::EndsWith("iteration 3, in place of an earlier one\n"));
    EXPECT_THAT(into("b.swt", {"--replace"}).out, ::testing::EndsWith("whole trace, in place of an earlier one\n"));
    EXPECT_EQ(into("a.swt").exit_code, 2) << "it is of the other now";
  }
}

TEST_F(ExportTest, PiecesHoldWhatLiesInside) {
  put("run.swt", tests::training_trace());
  ASSERT_EQ(spillway({"export", "run.swt", "--format", "sqlite", "-o", "run.db", "--iteration", "3..4"}).exit_code, 0);
  EXPECT_EQ(query(folder_ / "run.db", "SELECT count(*) AS n FROM launch")[0]["n"], 48);
  EXPECT_EQ(query(folder_ / "run.db", "SELECT count(*) AS n FROM iteration")[0]["n"], 2);
  EXPECT_EQ(query(folder_ / "run.db", "SELECT count(*) AS n FROM allocation")[0]["n"], 3) << "names are whole";
}

TEST_F(ExportTest, AnIterationThatThereIsNotIsNamedAndNothingIsWritten) {
  put("run.swt", tests::training_trace());
  ASSERT_EQ(spillway({"export", "run.swt", "--format", "csv", "-o", "old.csv"}).exit_code, 0);
  const std::string before = text("old.csv");
  for (const char* format : {"csv", "sqlite", "perfetto"}) {
    const auto late = spillway({"export", "run.swt", "--format", format, "-o", "late", "--iteration", "100"});
    EXPECT_EQ(late.exit_code, 1) << format;
    EXPECT_THAT(late.err, HasSubstr("--iteration 100: this trace has the iterations 1 to 19"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "late")) << format;
  }
  EXPECT_EQ(spillway({"export", "run.swt", "--format", "csv", "-o", "old.csv", "--iteration", "20..30"}).exit_code, 1);
  EXPECT_EQ(text("old.csv"), before);
  EXPECT_EQ(spillway({"export", "run.swt", "--format", "csv", "-o", "old.csv", "--iteration", "19..30"}).exit_code, 0);
  EXPECT_NE(text("old.csv"), before);
}

// A header alone would look like a run in which nothing happened.
TEST_F(ExportTest, APieceThatHoldsNothingIsRefused) {
  put("run.swt", tests::training_trace());
  for (const char* format : {"csv", "sqlite", "perfetto"}) {
    SCOPED_TRACE(format);
    const auto refused = [&](std::vector<std::string> piece) {
      piece.insert(piece.begin(), {"export", "run.swt", "--format", format, "-o", "piece"});
      const auto result = spillway(piece);
      EXPECT_EQ(result.exit_code, 1);
      EXPECT_EQ(result.out, "");
      EXPECT_FALSE(std::filesystem::exists(folder_ / "piece"));
      return result.err;
    };
    EXPECT_THAT(
        refused({"--from", "100s"}),
        ::testing::MatchesRegex("spillway: --from 100s: nothing happened there; this trace goes up to [0-9.]+ s; "
                                "name a piece of it\n"));
    EXPECT_THAT(refused({"--from", "1.0000001ms", "--to", "1000000.2ns"}), HasSubstr("nothing happened there"));
    EXPECT_THAT(
        refused({"--from", "100s", "--iteration", "3"}),
        AllOf(HasSubstr("--from 100s --iteration 3: nothing happened"), HasSubstr("`spillway stats --by iter")));
  }
}

// Its reader may have gone away before anything is written: that is how `| head -1` ends.
TEST_F(ExportTest, IsQuietOnAClosedPipe) {
  put("run.swt", tests::training_trace());
  tests::ProcessOptions options;
  options.close_stdout_reader = true;
  for (const char* format : {"csv", "perfetto"}) {
    const auto result = spillway({"export", "run.swt", "--format", format, "-o", "-"}, options);
    EXPECT_EQ(result.err, "") << format;
    EXPECT_EQ(result.exit_code, 0) << format;
  }
}

TEST_F(ExportTest, AFullDiskBehindStandardOutputIsSaidOnce) {
  put("run.swt", tests::training_trace());
  tests::ProcessOptions options;
  options.folder = folder_.string();
  for (const std::string format : {"csv", "perfetto"}) {
    const std::string script = SPILLWAY_COMMAND " export run.swt -o - --format " + format + " > /dev/full";
    const auto result = tests::run_process({"sh", "-c", script}, options);
    EXPECT_EQ(result.exit_code, 1) << format;
    EXPECT_EQ(result.err,
              "spillway: -: cannot be written: No space left on device; make room, or name another place\n");
  }
}

TEST_F(ExportTest, CsvHasItsColumnsInEveryLine) {
  put("run.swt", tests::sample_trace());
  const auto result = spillway({"export", "run.swt", "--format", "csv", "-o", "-"});
  EXPECT_EQ(result.exit_code, 0);
  expect_golden("export.csv", result.out);
  const std::size_t commas = 21;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = result.out.find('\n', begin)) != std::string::npos; begin = end + 1) {
    bool quoted = false;
    std::size_t seen = 0;
    for (const char letter : result.out.substr(begin, end - begin)) {
      quoted = letter == '"' ? !quoted : quoted;
      seen += letter == ',' && !quoted ? 1U : 0U;
    }
    EXPECT_EQ(seen, commas) << result.out.substr(begin, end - begin);
  }
}

TEST_F(ExportTest, CutAndDamagedTracesAreExportedAsFarAsTheyGo) {
  const std::vector<std::byte> whole = tests::training_trace();
  put("cut.swt", {whole.begin(), whole.end() - 40});
  for (const char* format : {"csv", "sqlite", "perfetto"}) {
    const auto result = spillway({"export", "cut.swt", "--format", format, "-o", std::string("cut.") + format});
    EXPECT_EQ(result.exit_code, 0) << format;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr("cut.swt: exported as far as it goes: cut at byte"));
    EXPECT_THAT(result.out, ::testing::EndsWith("B, the trace as far as it could be read\n"));
  }
  EXPECT_EQ(query(folder_ / "cut.sqlite", "SELECT count(*) AS n FROM launch")[0]["n"], 480);
  for (std::size_t at = 30; at < whole.size(); at += 997) {
    std::vector<std::byte> flipped = whole;
    flipped[at] ^= std::byte{0x10};
    put("flipped.swt", flipped);
    EXPECT_EQ(spillway({"export", "flipped.swt", "--format", "sqlite", "-o", "f.db"}).exit_code, 0) << at;
  }
}

TEST_F(ExportTest, BadInputIsOneLineAndLeavesNoFile) {
  put("run.swt", tests::training_trace());
  const auto complaint = [this](std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.begin(), {"export", "run.swt"});
    const auto result = spillway(arguments);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(complaint({"--format", "xml", "-o", "x"}, 2), HasSubstr("xml"));
  EXPECT_THAT(complaint({"--format", "csv", "-o", "x", "--from", "soon"}, 2), HasSubstr("\"soon\" is no time"));
  EXPECT_THAT(complaint({"--format", "csv", "-o", "x", "--from", "2s", "--to", "1s"}, 2),
              HasSubstr("nothing lies between"));
  EXPECT_THAT(complaint({"--format", "csv", "-o", "x", "--iteration", "9..3"}, 2),
              HasSubstr("\"9..3\" is no iteration"));
  for (const char* flag : {"--from", "--to", "--iteration"}) {
    EXPECT_THAT(complaint({"--format", "csv", "-o", "x", flag, ""}, 2), HasSubstr(std::string(flag) + ": \"\" is no"));
  }
  EXPECT_THAT(complaint({"--format", "csv", "-o", "run.swt"}, 2), HasSubstr("is the trace itself"));
  EXPECT_THAT(complaint({"--format", "csv", "-o", "."}, 2), HasSubstr("is a folder"));
  EXPECT_THAT(complaint({"--format", "sqlite", "-o", "-"}, 2), HasSubstr("standard output"));
  for (const char* format : {"csv", "sqlite", "perfetto"}) {
    EXPECT_THAT(complaint({"--format", format, "-o", "no/such/place"}, 1),
                HasSubstr("no/such/place: cannot be written"));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "run.swt, nothing else";
}

TEST(Export, TimesAndIterationsAreRead) {
  EXPECT_EQ(parse_time("1.5s"), policy::Nanoseconds(1'500'000'000));
  EXPECT_EQ(parse_time("2"), policy::Nanoseconds(2'000'000'000));
  EXPECT_EQ(parse_time("20ms"), policy::Nanoseconds(20'000'000));
  EXPECT_EQ(parse_time("3us"), policy::Nanoseconds(3'000));
  EXPECT_EQ(parse_time("-1s"), std::nullopt);
  EXPECT_EQ(parse_time("nan"), std::nullopt);
  EXPECT_EQ(parse_time("1h"), std::nullopt);
  EXPECT_EQ(parse_time(""), std::nullopt);
  ExportWindow window;
  EXPECT_TRUE(parse_iterations("7", window));
  EXPECT_EQ(window.last_iteration, 7U);
  EXPECT_TRUE(parse_iterations("7..12", window));
  EXPECT_EQ(window.last_iteration, 12U);
  EXPECT_FALSE(parse_iterations("7..", window));
  EXPECT_FALSE(parse_iterations("..7", window));
}

}  // namespace
}  // namespace spillway::tools
