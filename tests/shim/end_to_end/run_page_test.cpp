// What `spillway top` sees of a program that runs without a trace: the page in shared memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// A shell beside the program: $PROBE waits under Spillway with 32 MiB in a budget of 24 MiB, its number is $probe, its
// output `out`. Its standard input is a pipe that ends when the shell closes 9.
ProcessResult beside(const std::string& how, const std::string& script, const Scratch& folder,
                     const std::string& mode = "adaptive") {
  ProcessOptions options;
  options.folder = folder.path().string();
  options.environment = {{"SPILLWAY", SPILLWAY_COMMAND},
                         {"LIBRARY", SPILLWAY_LIBRARY},
                         {"PROBE", GUEST_PROBE},
                         {"HOW", how},
                         {"LD_LIBRARY_PATH", SPILLWAY_SIMULATED_FOLDER},
                         {"SPILLWAY_SIMULATED_MEMORY", "64MiB"},
                         {"SPILLWAY_SIMULATED_KERNELS", TEST_TWINS},
                         {"SPILLWAY_MODE", mode},
                         {"SPILLWAY_DEVICE_BUDGET", "24MiB"}};
  const std::string start =
      "mkfifo in; LD_PRELOAD=$LIBRARY $PROBE watched $HOW < in > out 2> err & probe=$!; exec 9> in; "
      "while ! grep -q ready out; do kill -0 $probe || exit 9; sleep 0.02; done; ";
  return run_process({"timeout", "-k", "2", "60", "bash", "-c", start + script}, options);
}

// A frame in which all is there: the page is at most a quarter of a second behind.
constexpr const char* kFrameWithAll =
    "for i in $(seq 200); do $SPILLWAY top $probe --once --json > frame || break; "
    "grep -q '\"launches\":30,' frame && break; sleep 0.05; done; cat frame; ";

TEST(RunPage, TopShowsAProgramThatWritesNoTrace) {
  const Scratch folder;
  const auto result = beside("", std::string(kFrameWithAll) + "exec 9>&-; wait $probe; echo code $? >&2", folder);
  ASSERT_THAT(result.err, HasSubstr("code 0\n"));
  const json frame = json::parse(result.out);
  EXPECT_EQ(frame["source"], "process");
  EXPECT_EQ(frame["state"], "running");
  EXPECT_THAT(frame["program"].get<std::string>(), HasSubstr("shim_guest_probe"));
  EXPECT_EQ(frame["launches"], 30);
  ASSERT_EQ(frame["devices"].size(), 1U);
  const json& device = frame["devices"][0];
  EXPECT_EQ(device["budget"], 24 * kMiB);
  EXPECT_GE(device["managed"], 32 * kMiB);
  EXPECT_LE(device["resident"].get<std::uint64_t>() + device["plain"].get<std::uint64_t>(), 24 * kMiB);
  EXPECT_EQ(device["resident"].get<std::uint64_t>() + device["on_host"].get<std::uint64_t>(), device["managed"]);
  ASSERT_GE(frame["allocations"].size(), 2U);
  std::uint64_t in_hbm = 0;
  std::uint64_t on_host = 0;
  for (const json& allocation : frame["allocations"]) {
    in_hbm += allocation["in_hbm"].get<std::uint64_t>();
    on_host += allocation["on_host"].get<std::uint64_t>();
    EXPECT_THAT(allocation["caller"].get<std::string>(), HasSubstr("shim_guest_probe"));
  }
  EXPECT_EQ(in_hbm, device["resident"]);
  EXPECT_EQ(on_host, device["on_host"]);
  EXPECT_GT(on_host, 0U);
}

TEST(RunPage, IsTheOwnersAloneAndNobodyCanCutOrWriteIt) {
  const Scratch folder;
  const auto result = beside(
      "",
      "page=$(ls -l /proc/$probe/fd | grep spillway-run-page | sed 's/.* \\([0-9]*\\) -> .*/\\1/'); "
      "stat -L -c 'mode %a' /proc/$probe/fd/$page; [ $page -ge 512 ] && echo high; "
      "truncate -s 0 /proc/$probe/fd/$page 2> /dev/null || echo not cut; "
      "(echo x > /proc/$probe/fd/$page) 2> /dev/null; $SPILLWAY top $probe --once > /dev/null && echo still whole; "
      "exec 9>&-; wait $probe; echo code $?",
      folder);
  EXPECT_EQ(result.out, "mode 600\nhigh\nnot cut\nstill whole\ncode 0\n") << result.err;
}

TEST(RunPage, FollowsAProcessToItsEnd) {
  const Scratch folder;
  const auto result = beside("",
                             "$SPILLWAY top $probe --json --interval 0.05 > frames 9>&- & top=$!; "
                             "while [ ! -s frames ]; do sleep 0.02; done; exec 9>&-; wait $probe; wait $top; "
                             "echo code $?; head -n 1 frames; tail -n 1 frames",
                             folder);
  ASSERT_TRUE(result.out.starts_with("code 0\n")) << result.out << result.err;
  const std::size_t first = result.out.find('\n') + 1;
  const std::size_t second = result.out.find('\n', first) + 1;
  EXPECT_EQ(json::parse(result.out.substr(first, second - first))["state"], "running");
  const json last = json::parse(result.out.substr(second));
  EXPECT_EQ(last["state"], "ended by exit");
  EXPECT_EQ(last["launches"], 36);
  EXPECT_EQ(last["devices"][0]["on_host"], 0) << "all is freed";
}

TEST(RunPage, AKilledProcessIsSaidToBeKilled) {
  const Scratch folder;
  const auto result = beside("",
                             "$SPILLWAY top $probe --json --interval 0.05 > frames 9>&- & top=$!; "
                             "while [ ! -s frames ]; do sleep 0.02; done; kill -KILL $probe; wait $probe 2> /dev/null; "
                             "wait $top; tail -n 1 frames",
                             folder);
  EXPECT_EQ(json::parse(result.out)["state"], "killed") << result.err;
}

// The child has neither the memory nor the descriptor; the parent's page is the parent's.
TEST(RunPage, AForkedChildHasNoPage) {
  const Scratch folder;
  const auto result =
      beside("forks",
             "child=$(sed -n 's/^child //p' out); grep -c spillway-run-page /proc/$child/maps; "
             "ls -l /proc/$child/fd | grep -c spillway-run-page; $SPILLWAY top $child --once; "
             "$SPILLWAY top $probe --once > /dev/null; echo parent $?; exec 9>&-; wait $probe; echo code $?",
             folder);
  EXPECT_EQ(result.out, "0\n0\nparent 0\ncode 0\n");
  EXPECT_THAT(result.err, HasSubstr("is not under Spillway"));
}

// A program that closes all descriptors has no page any more, and is not disturbed.
TEST(RunPage, ClosingItsDescriptorHarmsNobody) {
  const Scratch folder;
  const auto result =
      beside("closes", "$SPILLWAY top $probe --once; exec 9>&-; wait $probe; echo code $?; tail -n 1 out", folder);
  EXPECT_THAT(result.out, HasSubstr("code 0\nsum 6\n")) << result.out << result.err;
  EXPECT_THAT(result.err, HasSubstr("is not under Spillway"));
}

// Once all launches are in the page: too few for `adaptive` to have found iterations; the others look for none.
TEST(RunPage, IsFoundBelowALauncherAndInEveryMode) {
  for (const std::string& mode : all_modes()) {
    const Scratch folder;
    const std::string script =
        std::string(kFrameWithAll) + "$SPILLWAY top $$ --once; echo code $?; exec 9>&-; wait $probe";
    const auto result = beside("", script, folder, mode);
    EXPECT_THAT(result.out, HasSubstr("shim_guest_probe, pid ")) << mode << result.err;
    EXPECT_THAT(result.out, HasSubstr("code 0\n"));
    const std::string progress =
        mode == "adaptive" ? "a second; no iteration found yet" : "mode " + mode + " looks for no iterations";
    EXPECT_THAT(result.out, HasSubstr(progress));
  }
}

}  // namespace
}  // namespace spillway::tests
