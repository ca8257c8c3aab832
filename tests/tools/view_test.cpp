// What `spillway view` makes of a trace before a browser sees it. The browser's part: tests/viewer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "policy/trace/frame_builder.hpp"
#include "tests/support/process.hpp"
#include "tests/support/random_events.hpp"
#include "tests/support/sample_trace.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/view_reading.hpp"
#include "tools/run_tables.hpp"
#include "tools/trace_source.hpp"
#include "tools/view/page.hpp"

namespace spillway::tools::view {
namespace {

using namespace policy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The sample, written where view_trace can read it.
class ViewSample : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("view_" + std::to_string(::getpid()) + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    write(path(), spillway::tests::sample_trace());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name = "sample.swt") const { return (folder_ / name).string(); }
  static void write(const std::string& path, std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  static std::string text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static spillway::tests::ProcessResult view(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {SPILLWAY_COMMAND, "view"});
    return spillway::tests::run_process(arguments);
  }

  // A build without Node.js: the command says so, and what to do.
  void expect_remedy() const {
    const auto result = view({path()});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("built without the viewer; install Node.js"));
  }

  std::filesystem::path folder_;
};

TEST_F(ViewSample, FiguresAreThoseOfTheTrace) {
  const ViewReading reading = view_trace(path());
  ASSERT_FALSE(reading.problem) << *reading.problem;
  const ViewData& data = reading.data;
  const Json& of = data.directory;
  EXPECT_EQ(of["timeline"]["launches"], 30);
  EXPECT_EQ(of["timeline"]["lanes"].size(), 1U);
  EXPECT_EQ(of["refused"], 1);
  EXPECT_EQ(of["dropped"], 1);
  EXPECT_EQ(of["devices"][0]["budget"], (4_GiB).count());
  EXPECT_EQ(of["completeness"], "whole");
  TableOf allocations = table_of(data, of["allocations"]["table"]);
  EXPECT_THAT(allocations["id"], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(allocations["end"], ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(allocations["launches"], ElementsAre(-1, 30, 20, 0)) << "below 2 MiB they are not recorded";
  EXPECT_THAT(allocations["moved_in"], ElementsAre(0, 2 << 20, 0, 0));
  EXPECT_THAT(allocations["moved_out"], ElementsAre(0, 4 << 20, 0, 0));
  EXPECT_THAT(allocations["populated"], ElementsAre(0, 5 << 20, 3 << 20, 0));
  TableOf moves = table_of(data, of["moves"]);
  EXPECT_THAT(moves["outcome"], ElementsAre(0, 0, 0, 0, 2));
  EXPECT_THAT(moves["crossed"], ElementsAre(0, 0, 1, 1, 0));
  TableOf residency = table_of(data, of["devices"][0]["residency"][0]);
  EXPECT_EQ(*std::max_element(residency["resident"].begin(), residency["resident"].end()), 5 << 20);
  EXPECT_EQ(residency["on_host"].back(), 5 << 20);
  const std::string evidence = inflated(unbase64(data.blocks.at(of["allocations"]["evidence"]["id"])));
  EXPECT_THAT(evidence, ::testing::StartsWith("smaller than 2 MiB: launches that use it are not recorded\n"
                                              "gemm argument 0 (20), adam argument 0 (10)\ngemm argument 1 (20)\n"));
  const std::string sentences = inflated(unbase64(data.blocks.at(of["decisions"]["sentences"][0])));
  EXPECT_THAT(sentences,
              HasSubstr("4 MiB at offset 0 B of allocation 2 goes to the host, in the background, because it "
                        "was launched on least recently\n"));
}

// Five uses of one allocation: four are named, one is counted.
TEST_F(ViewSample, WhatIsLeftOutOfTheUsesIsCounted) {
  spillway::tests::TraceMaker maker({});
  maker.allocate(1, 4_MiB, Backing::managed, {0x7f0000000000});
  LaunchShapeSeen shape;
  shape.shape = {1};
  shape.function = {1};
  for (std::uint16_t argument = 0; argument < 5; ++argument)
    shape.arguments.push_back({argument, {std::uint64_t{0x7f0000000000} + std::uint64_t{argument} * 64}});
  maker.event(FunctionSeen{{1}, "mix"});
  maker.event(shape);
  maker.launch(1);
  write(path(), maker.finish());
  const ViewReading reading = view_trace(path());
  ASSERT_FALSE(reading.problem) << *reading.problem;
  const Json& evidence = reading.data.directory["allocations"]["evidence"];
  EXPECT_THAT(inflated(unbase64(reading.data.blocks.at(evidence["id"]))), ::testing::EndsWith("(1) and 1 more use"));
}

TEST_F(ViewSample, APageHoldsAllAndNothingOfATraceEndsAnElement) {
  ViewData data;
  data.directory["trace"] = "<!--";
  data.directory["program"] = "</script><script>alert(1)</script><!--";
  data.blocks = {"QUJD"};
  const std::string page = make_page("<html><!-- data --><p>after</p>", std::span(&data, 1));
  EXPECT_THAT(page, ::testing::StartsWith(std::string(kPageMark)));
  EXPECT_THAT(page, HasSubstr("<script type=\"text/plain\" id=\"block-0-0\">QUJD</script>"));
  EXPECT_THAT(page, ::testing::EndsWith("<p>after</p>"));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<!-- data -->")));
}

TEST_F(ViewSample, TheCommandWritesAPageAndOnlyOverOneOfItsOwn) {
  if (page_template().empty()) return expect_remedy();
  const auto written = view({path(), "-o", path("page.html"), "--open", "no"});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_THAT(written.out, ::testing::MatchesRegex(path("page.html") + ": [0-9.]+ [KM]iB, the whole trace\n"));
  EXPECT_THAT(text(path("page.html")), ::testing::StartsWith(std::string(kPageMark)));
  const std::vector<std::byte> whole = spillway::tests::sample_trace();
  write(path("cut.swt"), std::span(whole).first(whole.size() - 30));
  EXPECT_THAT(view({path("cut.swt"), "-o", path("cut.html"), "--open", "no"}).out,
              HasSubstr(", the trace as far as it could be read\n"));
  spillway::tests::ProcessOptions in_folder;
  in_folder.folder = folder_.string();
  const auto here = [&in_folder] {
    return spillway::tests::run_process({SPILLWAY_COMMAND, "view", "sample.swt", "--open", "no"}, in_folder);
  };
  EXPECT_THAT(here().out, ::testing::StartsWith("sample.swt.html: "));
  EXPECT_EQ(here().exit_code, 0);
  std::ofstream(path("sample.swt.html")) << "somebody's notes";
  const auto refused = here();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("sample.swt.html: exists, and is no page of spillway view; name another file with -o"));
  EXPECT_EQ(text(path("sample.swt.html")), "somebody's notes");
  std::ofstream(path("keep.toml")) << "[memory]\nbacking = \"auto\"\n";
  const auto named = view({path(), "-o", path("keep.toml"), "--open", "no"});
  EXPECT_EQ(named.exit_code, 2);
  EXPECT_THAT(named.err, HasSubstr("keep.toml: exists, and is no page of spillway view; name another file with -o"));
  EXPECT_EQ(text(path("keep.toml")), "[memory]\nbacking = \"auto\"\n");
  EXPECT_EQ(view({path(), "-o", path("page.html"), "--open", "no"}).exit_code, 0) << "it is a page";
}

TEST_F(ViewSample, TheTraceIsNeverReplacedByItsPage) {
  if (page_template().empty()) return expect_remedy();
  const std::string before = text(path());
  for (const std::string& trace : {path(), folder_.string()}) {
    const auto refused = view({trace, "-o", folder_.string() + "/./sample.swt", "--open", "no"});
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("sample.swt: is the trace itself; name another file"));
  }
  EXPECT_EQ(text(path()), before);
}

// Ranks in their order, not that of their names; what cannot be read is said and left out.
TEST_F(ViewSample, AFolderIsOnePageOfAllItsTraces) {
  if (page_template().empty()) return expect_remedy();
  std::filesystem::remove(path());
  for (const char* const rank : {"10", "2", "0"}) {
    write(path(std::string("run.") + rank + ".swt"), spillway::tests::sample_trace({rank}));
  }
  const auto made = view({folder_.string() + "/", "-o", path("page.html"), "--open", "no"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  const std::string page = text(path("page.html"));
  const std::size_t at = page.find("id=\"traces-in-page\">");
  ASSERT_NE(at, std::string::npos);
  const std::size_t begin = page.find('>', at) + 1;
  const Json listed = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  ASSERT_EQ(listed.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(listed[i]["rank"], (std::vector<std::string>{"0", "2", "10"})[i]);
    EXPECT_EQ(listed[i]["launches"], 30);
    EXPECT_EQ(listed[i]["moved_out"], 4 << 20);
    EXPECT_THAT(page, HasSubstr("id=\"directory-" + std::to_string(i) + "\""));
    EXPECT_THAT(page, HasSubstr("id=\"block-" + std::to_string(i) + "-0\""));
  }
  std::ofstream(path("torn.swt")) << "no trace";
  const auto torn = view({folder_.string(), "-o", path("page.html"), "--open", "no"});
  EXPECT_EQ(torn.exit_code, 1);
  EXPECT_THAT(torn.err, HasSubstr("torn.swt: "));
  EXPECT_THAT(torn.err, HasSubstr("; left out"));
  EXPECT_THAT(torn.out,
              ::testing::MatchesRegex(path("page.html") + ": [0-9.]+ [KM]iB, 3 traces, in place of an earlier one\n"));
}

// Made anew, and of more traces, it may be replaced, which is said; a run that the new page would not show may not.
TEST_F(ViewSample, APageOfAnotherRunIsNotReplaced) {
  if (page_template().empty()) return expect_remedy();
  std::filesystem::create_directory(folder_ / "both");
  write(path("a.swt"), spillway::tests::training_trace());
  write(path("b.swt"), spillway::tests::training_trace({"", "2026-01-02T03:04:05+00:00", 4243, 20}));
  std::filesystem::copy_file(path("a.swt"), path("both/a.swt"));
  std::filesystem::copy_file(path("b.swt"), path("both/b.swt"));
  const auto into_page = [this](const std::string& trace) {
    return view({path(trace), "-o", path("page.html"), "--open", "no"});
  };
  EXPECT_THAT(into_page("a.swt").out, ::testing::EndsWith("iB, the whole trace\n"));
  const std::string before = text(path("page.html"));
  const auto refused = into_page("b.swt");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(refused.err, "spillway: " + path("page.html") +
                             ": exists, and is of another run (node1/4242/2026-01-02T03:04:05+00:00); name another "
                             "file with -o, or add --replace\n");
  EXPECT_TRUE(text(path("page.html")) == before);
  EXPECT_THAT(into_page("a.swt").out, ::testing::EndsWith("the whole trace, in place of an earlier one\n"));
  EXPECT_EQ(into_page("both").exit_code, 0);
  EXPECT_EQ(into_page("b.swt").exit_code, 2) << "that of the other would be gone";
  EXPECT_EQ(into_page("both").exit_code, 0);
  const auto wanted = view({path("b.swt"), "-o", path("page.html"), "--open", "no", "--replace"});
  EXPECT_THAT(wanted.out, ::testing::EndsWith("the whole trace, in place of an earlier one\n"));
  EXPECT_EQ(into_page("a.swt").exit_code, 2) << "it is of the other now";
  // Nor is one whose name nobody has given.
  spillway::tests::ProcessOptions in_folder;
  in_folder.folder = folder_.string();
  const auto here = [&in_folder](const std::string& trace) {
    return spillway::tests::run_process({SPILLWAY_COMMAND, "view", trace, "--open", "no"}, in_folder).exit_code;
  };
  EXPECT_EQ(here("both/a.swt"), 0);
  std::filesystem::copy_file(path("b.swt"), path("a.swt"), std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(here("a.swt"), 2);
}

// The lane of stalls tells what `stats` tells.
TEST_F(ViewSample, BytesNamedOnTheHostAreThoseOfStats) {
  write(path("training.swt"), spillway::tests::training_trace());
  const ViewReading reading = view_trace(path("training.swt"));
  ASSERT_FALSE(reading.problem) << *reading.problem;
  RunFollower run;
  RunTableMaker maker;
  const auto problem = read_trace(
      path("training.swt"),
      [&](const trace::Record& record) {
        run.add(record);
        maker.add(record, run);
      },
      [](const trace::TraceReader&) {});
  ASSERT_FALSE(problem);
  const RunTables tables = maker.finish(run, reading.summary.header);
  ASSERT_GT(tables.host_bytes.count(), 0U);
  EXPECT_EQ(reading.data.directory["named_on_host"], tables.host_bytes.count());
  EXPECT_EQ(reading.data.directory["link_in"], tables.link_in);
  for (const Json& level : reading.data.directory["moves"]["traffic"]) {
    TableOf table = table_of(reading.data, level);
    std::int64_t sum = 0;
    for (const std::int64_t bytes : table["named_on_host"]) sum += bytes;
    EXPECT_EQ(sum, static_cast<std::int64_t>(tables.host_bytes.count()));
  }
}

TEST_F(ViewSample, WhatCannotBeShownIsOneLine) {
  if (page_template().empty()) return expect_remedy();
  const auto missing = view({path("none.swt")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.swt: cannot be opened: No such file or directory"));
  EXPECT_EQ(view({path(), "--serve", "-o", path("x.html")}).exit_code, 2);
  EXPECT_EQ(view({path(), "-o", path("no/such/folder.html")}).exit_code, 1);
}

TEST_F(ViewSample, EveryCutIsShownOrRefusedInALine) {
  const std::vector<std::byte> whole = spillway::tests::sample_trace();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    write(path("cut.swt"), std::span(whole).first(size));
    const ViewReading reading = view_trace(path("cut.swt"));
    if (reading.problem) {
      EXPECT_THAT(*reading.problem, HasSubstr("byte"));
    } else {
      EXPECT_FALSE(reading.data.directory["whole"].get<bool>());
      EXPECT_NE(reading.data.directory["completeness"], "whole");
      EXPECT_GT(make_page("<!-- data -->", std::span(&reading.data, 1)).size(), kPageMark.size());
    }
  }
}

// The end's totals would stand beside figures of what could be read.
TEST_F(ViewSample, FiguresOfADamagedTraceAreAllOfWhatCouldBeRead) {
  const std::vector<std::byte> whole = spillway::tests::sample_trace({"", true, 512, 0});
  bool lost_a_move = false;
  for (std::size_t at = whole.size() / 4; at < whole.size() - 600; at += 40) {
    std::vector<std::byte> flipped = whole;
    flipped[at] ^= std::byte{4};
    write(path("flipped.swt"), flipped);
    const ViewReading reading = view_trace(path("flipped.swt"));
    ASSERT_FALSE(reading.problem);
    const Json& of = reading.data.directory;
    if (of["end_reason"] != "exit" || reading.summary.whole) continue;
    EXPECT_THAT(of["completeness"].get<std::string>(), HasSubstr("; all figures are of what could be read"));
    RunFollower run;
    read_trace(path("flipped.swt"), [&run](const trace::Record& record) { run.add(record); }, {});
    if (run.devices().empty()) continue;
    const Bytes read_out = run.devices()[0].moved_out;
    lost_a_move = lost_a_move || read_out < reading.summary.moved_out();
    EXPECT_EQ(of["devices"][0]["moved_out"], read_out.count()) << at;
  }
  EXPECT_TRUE(lost_a_move) << "else nothing is shown";
}

// Any ids, sizes, times and texts, extremes among them, in frames that are right.
TEST_F(ViewSample, AnythingThatAReaderLetsThroughIsSurvived) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    spillway::tests::RandomEvents random(seed);
    trace::FrameBuilder builder;
    std::vector<std::byte> file = trace::encode_file_start("{}");
    const auto put = [&file](const std::optional<trace::FrameBytes>& frame) {
      if (frame) file.insert(file.end(), frame->begin(), frame->end());
    };
    for (int i = 0; i < 3000; ++i) {
      const Nanoseconds time(static_cast<std::int64_t>(random.below(std::uint64_t{1} << (1 + random.below(62)))));
      if (random.below(2) == 0) {
        put(builder.add({time, random.event_body()}));
      } else {
        put(builder.add(time, random.decision()));
      }
    }
    put(builder.finish());
    write(path("random.swt"), file);
    const ViewReading reading = view_trace(path("random.swt"));
    ASSERT_FALSE(reading.problem) << *reading.problem;
    EXPECT_EQ(reading.data.directory["whole"], false);
    EXPECT_GT(make_page("<!-- data -->", std::span(&reading.data, 1)).size(), kPageMark.size());
  }
}

}  // namespace
}  // namespace spillway::tools::view
