// `spillway top`: one frame, a trace that grows, and finding the trace of a process.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "policy/settings.hpp"
#include "tests/support/sample_trace.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"

namespace spillway::tools {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
constexpr std::uint64_t kMebibyte = 1U << 20U;

class TopTest : public TraceCommandTest {
 protected:
  // A script in the folder; $SPILLWAY is the command.
  tests::ProcessResult shell(const std::string& script) {
    tests::ProcessOptions options;
    options.folder = folder_.string();
    options.environment["SPILLWAY"] = SPILLWAY_COMMAND;
    return tests::run_process({"bash", "-c", script}, options);
  }
};

TEST_F(TopTest, OneFrameIsTheGoldenOne) {
  put("run.swt", tests::training_trace());
  const auto result = spillway({"top", "run.swt", "--once"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  expect_golden("top.txt", result.out);
}

TEST_F(TopTest, JsonHasTheFigures) {
  put("run.swt", tests::training_trace());
  const json frame = json::parse(spillway({"top", "run.swt", "--once", "--json"}).out);
  EXPECT_EQ(frame["state"], "ended by exit");
  EXPECT_EQ(frame["launches"], 480);
  EXPECT_EQ(frame["iteration"], 19);
  EXPECT_EQ(frame["devices"][0]["budget"], 64 * kMebibyte);
  EXPECT_EQ(frame["devices"][0]["resident"], 8 * kMebibyte);
  EXPECT_EQ(frame["devices"][0]["on_host"], 16 * kMebibyte);
  EXPECT_EQ(frame["devices"][0]["moved_in"], 76 * kMebibyte);
  // The whole run is shorter than the two seconds that rates are over.
  const double seconds = frame["time_ns"].get<double>() / 1e9;
  EXPECT_NEAR(frame["devices"][0]["in_per_second"].get<double>(), 76.0 * kMebibyte / seconds, 1.0);
  EXPECT_EQ(frame["allocations"][0]["allocation"], 2);
  EXPECT_EQ(frame["allocations"][0]["crossed"], 128 * kMebibyte);
}

// Everything is freed at the end, and no budget was set: what there was is in the trace's end.
TEST_F(TopTest, AFinishedRunShowsItsBudgetAndItsPeaks) {
  tests::TraceMaker maker({});
  maker.event(policy::DeviceSeen{{0}, {}, policy::Bytes(1U << 30U), policy::Bytes(1U << 30U), true, "card"});
  maker.allocate(1, policy::Bytes(8 * kMebibyte), policy::Backing::managed, {0x7f0000000000});
  maker.move(1, {}, policy::Bytes(8 * kMebibyte), policy::Placement::device, {});
  maker.move(1, {}, policy::Bytes(6 * kMebibyte), policy::Placement::host, {});
  maker.event(policy::FreeRequested{{1}, {}});
  maker.event(policy::Freed{{1}, {}});
  policy::trace::DeviceEnd end;
  end.totals.budget = policy::Bytes(100 * kMebibyte);
  end.totals.resident_peak = policy::Bytes(9 * kMebibyte);
  put("run.swt", maker.finish({end}));
  const json device = json::parse(spillway({"top", "run.swt", "--once", "--json"}).out)["devices"][0];
  EXPECT_EQ(device["resident"], 0);
  EXPECT_EQ(device["budget"], 100 * kMebibyte);
  EXPECT_EQ(device.at("resident_peak"), 9 * kMebibyte);
  EXPECT_EQ(device.at("on_host_peak"), 6 * kMebibyte);
  const std::string frame = spillway({"top", "run.swt", "--once"}).out;
  EXPECT_THAT(frame, HasSubstr("peaks of device 0: plain 0 B, resident 9 MiB, on host 6 MiB\n"));
  EXPECT_THAT(frame, ::testing::Not(HasSubstr("not set")));
}

// Killed, or still running: the header's settings and what was free when the context was made tell the budget, as the
// engine made it of them.
TEST_F(TopTest, TheBudgetIsKnownBeforeTheEndOfTheTrace) {
  const auto card = [](std::uint64_t free) {
    return policy::DeviceSeen{{0}, {}, policy::Bytes(1U << 30U), policy::Bytes(free * kMebibyte), true, "card"};
  };
  const struct {
    const char* setting;
    std::uint64_t mebibytes;
  } cases[] = {{"", 768 - 32}, {"64MiB", 64}, {"50%", 512}, {"100%", 768}};
  for (const auto& [setting, mebibytes] : cases) {
    policy::trace::TraceHeader header;
    header.settings = {{"memory.device_budget", setting}};
    header.devices = {card(1024)};
    tests::TraceMaker maker(header);
    maker.event(card(1024));
    maker.event(card(768));
    maker.allocate(1, policy::Bytes(8 * kMebibyte), policy::Backing::managed, {0x7f0000000000});
    put("run.swt", maker.finish_without_end());
    const json of_top = json::parse(spillway({"top", "run.swt", "--once", "--json"}).out);
    const json of_stats = json::parse(spillway({"stats", "run.swt", "--json"}).out);
    EXPECT_EQ(of_top["devices"][0]["budget"], mebibytes * kMebibyte) << setting;
    EXPECT_EQ(of_stats["devices"][0]["budget"], mebibytes * kMebibyte) << setting;
    EXPECT_FALSE(of_stats["devices"][0]["totals_are_recorded"]);
    const std::string text = policy::format_bytes(policy::Bytes(mebibytes * kMebibyte));
    EXPECT_THAT(spillway({"top", "run.swt", "--once"}).out, HasSubstr("0 card  " + text + " "));
    EXPECT_THAT(spillway({"stats", "run.swt"}).out, HasSubstr("0 card  " + text + " "));
  }
}

TEST_F(TopTest, ATraceCutBeforeItsFirstEventsHasTheHeadersDevice) {
  policy::trace::TraceHeader header;
  header.devices = {{{0}, {}, policy::Bytes(1U << 30U), policy::Bytes(1U << 30U), true, "card"}};
  put("run.swt", tests::TraceMaker(header).finish_without_end());
  const json device = json::parse(spillway({"stats", "run.swt", "--json"}).out)["devices"][0];
  EXPECT_EQ(device["name"], "card");
  EXPECT_EQ(device["budget"], 992 * kMebibyte);
}

TEST_F(TopTest, ModeOffHasNoBudget) {
  policy::trace::TraceHeader header;
  header.settings = {{"policy.mode", "off"}, {"memory.device_budget", "64MiB"}};
  tests::TraceMaker maker(header);
  maker.event(policy::DeviceSeen{{0}, {}, policy::Bytes(1U << 30U), policy::Bytes(1U << 30U), true, "card"});
  maker.allocate(1, policy::Bytes(8 * kMebibyte), policy::Backing::device, {0x7f0000000000});
  put("run.swt", maker.finish_without_end());
  EXPECT_THAT(spillway({"top", "run.swt", "--once"}).out, HasSubstr("0 card  none (off) "));
}

// The driver's blocks are 2 MiB: a small one may share its block, one of 1 MiB has its own. What is imported counts
// where it was made.
TEST_F(TopTest, PlainMemoryIsCountedInTheDriversBlocks) {
  tests::TraceMaker maker({});
  maker.event(policy::DeviceSeen{{0}, {}, policy::Bytes(1U << 30U), policy::Bytes(1U << 30U), true, "card"});
  for (std::uint64_t i = 0; i < 3; ++i) {
    maker.allocate(static_cast<std::uint32_t>(i + 1), policy::Bytes(kMebibyte), policy::Backing::device,
                   {0x7f0000000000 + i * 2 * kMebibyte});
    maker.allocate(static_cast<std::uint32_t>(i + 11), policy::Bytes(512), policy::Backing::device,
                   {0x7f0100000000 + i * 512});
  }
  put("run.swt", maker.finish({}));
  EXPECT_EQ(json::parse(spillway({"top", "run.swt", "--once", "--json"}).out)["devices"][0]["plain"], 8 * kMebibyte);
}

// What came in within the last two seconds counts, what came before does not.
TEST_F(TopTest, RatesAreOverTheLastTwoSeconds) {
  const auto trace = [](bool ended) {
    tests::TraceMaker maker({});
    maker.allocate(1, policy::Bytes(8 * kMebibyte), policy::Backing::managed, {0x7f0000000000});
    maker.move(1, {}, policy::Bytes(8 * kMebibyte), policy::Placement::host, {});
    maker.move(1, {}, policy::Bytes(8 * kMebibyte), policy::Placement::device, {});
    maker.pass(policy::Nanoseconds(10'000'000'000));
    maker.move(1, {}, policy::Bytes(8 * kMebibyte), policy::Placement::host, {});
    return ended ? maker.finish() : maker.finish_without_end();
  };
  put("run.swt", trace(false));
  const json frame = json::parse(spillway({"top", "run.swt", "--once", "--json"}).out);
  EXPECT_EQ(frame["devices"][0]["in_per_second"], 0.0);
  EXPECT_NEAR(frame["devices"][0]["out_per_second"].get<double>(), 4.0 * kMebibyte, 1.0);
  EXPECT_EQ(frame["devices"][0]["budget"], 0) << "none was set";
  // The last moments of a run that has ended say nothing: then they are of all of it.
  put("run.swt", trace(true));
  const json whole = json::parse(spillway({"top", "run.swt", "--once", "--json"}).out);
  EXPECT_NEAR(whole["devices"][0]["in_per_second"].get<double>(), 0.8 * kMebibyte, 0.01 * kMebibyte);
  EXPECT_NEAR(whole["devices"][0]["out_per_second"].get<double>(), 0.8 * kMebibyte, 0.01 * kMebibyte);
  EXPECT_THAT(spillway({"top", "run.swt", "--once"}).out, HasSubstr("launch 0, 0 a second over the whole run; "));
}

// Frame by frame while the file grows, until its end is there.
TEST_F(TopTest, FollowsATraceThatIsBeingWritten) {
  const std::vector<std::byte> whole = tests::training_trace();
  put("all.swt", whole);
  const auto result = shell(
      "head -c 700 all.swt > run.swt; ($SPILLWAY top run.swt --json --interval 0.05 > frames) & "
      "while [ ! -s frames ]; do sleep 0.05; done; tail -c +701 all.swt >> run.swt; wait");
  EXPECT_EQ(result.err, "");
  std::vector<json> frames;
  const std::string lines = text("frames");
  for (std::size_t begin = 0, end = 0; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
    frames.push_back(json::parse(lines.substr(begin, end - begin)));
  }
  ASSERT_GE(frames.size(), 2U);
  EXPECT_EQ(frames.front()["state"], "running");
  EXPECT_LT(frames.front()["launches"], 480);
  EXPECT_EQ(frames.back()["state"], "ended by exit");
  EXPECT_EQ(frames.back()["launches"], 480);
}

TEST_F(TopTest, IntoAPipeItPrintsOneFrameAndSaysHowLongNothingHappened) {
  tests::SampleOptions sample;
  sample.with_end = false;
  put("run.swt", tests::sample_trace(sample));
  const auto result = shell(
      "touch -d '-90 seconds' run.swt; exec 9>>run.swt; timeout 20 $SPILLWAY top $$ | cat; echo code ${PIPESTATUS[0]}");
  EXPECT_THAT(result.out, HasSubstr("code 0\n")) << "it went on for ever";
  EXPECT_THAT(result.out, ::testing::ContainsRegex(", running, .* s, last event 9[0-9] s ago\n"));
}

// Copying a trace makes its file new, not its run.
TEST_F(TopTest, ATraceWithoutItsEndIsDatedByItsRunNotByItsFile) {
  policy::trace::TraceHeader header;
  header.program = "/bin/train";
  header.pid = 4242;
  header.start = "2026-01-02T03:04:05+01:00";
  header.host = "node1";
  tests::TraceMaker maker(header);
  maker.pass(policy::Nanoseconds(90'000'000'000));
  maker.event(policy::EventsDropped{1});
  const std::vector<std::byte> killed = maker.finish_without_end();
  put("killed.swt", killed);
  EXPECT_THAT(spillway({"top", "killed.swt", "--once"}).out,
              ::testing::StartsWith("train, pid 4242 on node1, still running, or killed, or its disk was full, 90.0 s, "
                                    "last event at 2026-01-02T02:05:35Z\n"));
  const json frame = json::parse(spillway({"top", "killed.swt", "--once", "--json"}).out);
  EXPECT_EQ(frame.value("last_event", ""), "2026-01-02T02:05:35Z");
  EXPECT_GT(frame["quiet_seconds"], 3600);
  std::vector<std::byte> cut = killed;
  cut.insert(cut.end(), killed.end() - 20, killed.end() - 10);
  put("cut.swt", cut);
  EXPECT_THAT(spillway({"top", "cut.swt", "--once"}).out,
              HasSubstr(", last event read at 90.0 s, at 2026-01-02T02:05:35Z\nincomplete: "));
  // Nobody knows when; a run that has ended needs no date.
  tests::TraceMaker undated({});
  undated.event(policy::EventsDropped{1});
  put("undated.swt", undated.finish_without_end());
  EXPECT_THAT(shell("touch -d '-90 seconds' undated.swt; $SPILLWAY top undated.swt --once").out,
              ::testing::Not(HasSubstr("last event")));
  put("whole.swt", tests::training_trace());
  EXPECT_THAT(spillway({"top", "whole.swt", "--once"}).out, ::testing::Not(HasSubstr("last event")));
}

TEST_F(TopTest, AnInterruptEndsItWithALastFrame) {
  tests::SampleOptions sample;
  sample.with_end = false;
  put("run.swt", tests::sample_trace(sample));
  const auto result = shell(
      "$SPILLWAY top run.swt --json --interval 0.05 > frames & top=$!; "
      "while [ ! -s frames ]; do sleep 0.05; done; kill -TERM $top; wait $top; echo code $?");
  EXPECT_EQ(result.out, "code 0\n");
}

TEST_F(TopTest, AProcessIsFoundByItsOpenTrace) {
  tests::SampleOptions sample;
  sample.with_end = false;
  put("run.swt", tests::sample_trace(sample));
  // The shell holds the trace open for writing, as the shim does; its parent is asked as well.
  EXPECT_EQ(json::parse(shell("exec 9>>run.swt; $SPILLWAY top $$ --once --json").out)["launches"], 30);
  EXPECT_EQ(json::parse(shell("exec 9>>run.swt; rm run.swt; $SPILLWAY top $$ --once --json").out)["launches"], 30)
      << "removed, but still there";
  put("run.swt", tests::sample_trace(sample));
  const auto child = shell(
      "bash -c 'exec 9>>run.swt; echo > ready; while [ ! -e done ]; do sleep 0.05; done' & "
      "while [ ! -e ready ]; do sleep 0.05; done; echo $$; $SPILLWAY top $$ --once; $SPILLWAY top $! --once; "
      "touch done; wait");
  const std::string named = child.out.substr(0, child.out.find('\n'));
  EXPECT_THAT(child.out, ::testing::ContainsRegex("pid 4242, a child of " + named + ", on node1, running"))
      << child.err;
  EXPECT_THAT(child.out, HasSubstr("pid 4242 on node1, running")) << "that one was asked for";
}

TEST_F(TopTest, AProcessThatEndsWithoutAnEndIsSaidToBeKilled) {
  tests::SampleOptions sample;
  sample.with_end = false;
  put("run.swt", tests::sample_trace(sample));
  const auto result = shell(
      "bash -c 'exec 9>>run.swt; echo > ready; sleep 60' & writer=$!; while [ ! -e ready ]; do sleep 0.05; done; "
      "$SPILLWAY top $writer --json --interval 0.05 > frames & while [ ! -s frames ]; do sleep 0.05; done; "
      "kill -KILL $writer; wait $! 2>/dev/null; tail -n 1 frames");
  EXPECT_EQ(json::parse(result.out)["state"], "no end in the trace (killed, or its disk was full)");
}

// Neither who ended it is known, nor how long it took; a program that has ended is not "still running".
TEST_F(TopTest, ADamagedTraceClaimsNothingOfTheWholeRun) {
  const std::vector<std::byte> whole = tests::sample_trace({"", true, 512, 0});
  std::vector<std::byte> flipped = whole;
  flipped[whole.size() / 2] ^= std::byte{4};
  put("middle.swt", flipped);
  const std::string middle = spillway({"top", "middle.swt", "--once"}).out;
  EXPECT_THAT(middle, HasSubstr("ended by exit, last event read at "));
  EXPECT_THAT(middle, HasSubstr(" a second over what could be read; "));
  EXPECT_THAT(middle, HasSubstr("on host at least "));
  flipped = whole;
  flipped[whole.size() - 5] ^= std::byte{4};
  put("end.swt", flipped);
  EXPECT_THAT(spillway({"top", "end.swt", "--once"}).out,
              HasSubstr("still running, or its end is damaged, or it was killed, or its disk was full, last event"));
  flipped = whole;
  flipped[40] ^= std::byte{4};
  put("header.swt", flipped);
  const std::string header = spillway({"top", "header.swt", "--once"}).out;
  EXPECT_THAT(header, ::testing::StartsWith("unknown program, ended by exit"));
}

TEST_F(TopTest, BadInputIsOneLine) {
  const auto complaint = [this](const std::string& pid) {
    const auto result = shell("$SPILLWAY top " + pid + " --once");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(complaint("4194305"), HasSubstr("there is none of this number"));
  EXPECT_THAT(
      complaint("$$"),
      HasSubstr("is not under Spillway, nor is a child of it, or it has not used CUDA yet; start the program with"));
  EXPECT_EQ(spillway({"top", "run.swt", "--interval", "0"}).exit_code, 2);
  const auto word = spillway({"top", "train", "--once"});
  EXPECT_EQ(word.exit_code, 1);
  EXPECT_THAT(word.err, HasSubstr("check the path of the trace; a process is named by its number\n"));
  const auto nameless = spillway({"top", ""});
  EXPECT_EQ(nameless.exit_code, 2);
  EXPECT_THAT(nameless.err, HasSubstr("the name of the run is empty; name a process"));
}

// Digits are a process, whatever files there are; the line says how to name the file.
TEST_F(TopTest, ANumberIsAProcessAndAFileOfThatNameIsNamedByItsFolder) {
  put("4194305", tests::training_trace());
  const auto number = spillway({"top", "4194305", "--once"});
  EXPECT_EQ(number.exit_code, 1);
  EXPECT_THAT(number.err, HasSubstr("process 4194305: there is none of this number"));
  EXPECT_THAT(number.err, HasSubstr("the file of that name is ./4194305"));
  EXPECT_EQ(spillway({"top", "./4194305", "--once"}).exit_code, 0);
}

TEST_F(TopTest, IsQuietOnAClosedPipe) {
  put("run.swt", tests::training_trace());
  tests::ProcessOptions options;
  options.close_stdout_reader = true;
  EXPECT_EQ(spillway({"top", "run.swt"}, options).err, "");
}

}  // namespace
}  // namespace spillway::tools
