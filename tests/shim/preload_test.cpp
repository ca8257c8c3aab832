// The built library, preloaded into real programs: what changes for them, and what does not.
// Paths of the library and the probes come from the build (see CMakeLists.txt).
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

#include "shim/hook.hpp"

namespace {

struct Ran {
  std::string output;
  int status = -1;
  friend bool operator==(const Ran&, const Ran&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Ran& ran) {
    return out << "exit " << ran.status << "\n" << ran.output;
  }
};

// Runs a shell command; standard error is marked and mixed in after standard output.
Ran run(const std::string& command) {
  const std::string errors = testing::TempDir() + "preload_" + std::to_string(getpid());  // tests run side by side
  const std::string wrapped =
      "{ " + command + " ; } 2>" + errors + "; code=$?; echo ---; cat " + errors + "; rm " + errors + "; exit $code";
  Ran ran;
  std::FILE* pipe = popen(wrapped.c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) != 0;) {
    ran.output.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

Ran preloaded(const std::string& libraries, const std::string& command) {
  return run("LD_PRELOAD='" + libraries + "' SPILLWAY_TRACE= " + command);
}

const std::string kShim = SPILLWAY_LIBRARY;
const std::string kDriver = "LD_LIBRARY_PATH=" SPILLWAY_STAND_IN " ";
const std::string kOldDriver = "LD_LIBRARY_PATH=" SPILLWAY_OLD_STAND_IN " ";
// The settings only keep the session out of tests about the hooks.
const std::string kQuiet = "SPILLWAY_MODE=off ";
const std::string kProbe = "env " + kQuiet + kDriver + PROBE " ";
const std::string kLateProbe = LATE_PROBE;

bool contains(const Ran& ran, const std::string& text) { return ran.output.find(text) != std::string::npos; }

class Neutral : public testing::TestWithParam<const char*> {};

TEST_P(Neutral, ExitCodeAndBothOutputsAreTheSame) {
  const std::string command = GetParam();
  const Ran bare = run(command);
  EXPECT_EQ(preloaded(kShim, command), bare);
}

INSTANTIATE_TEST_SUITE_P(
    Programs, Neutral,
    testing::Values("bash -c 'echo out; echo err >&2; exit 7'", "bash -c 'kill -TERM $$'", "git --version",
                    "git no-such-command", "g++ --version",
                    "echo 'int main() { return x; }' | g++ -x c++ -fsyntax-only -",
                    "python3 -c 'import ctypes, threading; print(1); raise SystemExit(3)'",
                    "python3 -c 'import os; pid = os.fork(); print(pid == 0 or os.waitpid(pid, 0)[1])'",
                    "python3 -c 'import ctypes; print(hasattr(ctypes.CDLL(None), \"cuInit\"))'",
                    "python3 -c 'import os; os.abort()'"));

TEST(Preload, EveryWayLeadsToTheShim) {
  const Ran ran = preloaded(kShim, kProbe + "ways");
  EXPECT_EQ(ran.status, 0);
  for (const char* way : {"linked", "handle", "default scope", "first form", "second form"}) {
    EXPECT_TRUE(contains(ran, std::string(way) + ": " + std::to_string(HOOK_ROWS) + " shim, 0 other")) << way << "\n"
                                                                                                       << ran;
  }
  EXPECT_TRUE(contains(run(kProbe + "ways"), "linked: 0 shim")) << "the test sees the shim where it is not";
}

TEST(Preload, ForwardsOnce) {
  EXPECT_TRUE(contains(preloaded(kShim, kProbe + "calls"), "cuMemAlloc: 0, forwarded 1 time(s)"));
}

TEST(Dlsym, AnswersOnlyForTheDriversFunctions) {
  const Ran bare = run(kProbe + "semantics");
  const Ran with = preloaded(kShim, kProbe + "semantics");
  ASSERT_TRUE(contains(bare, "deep-bound handle: libcuda.so.1")) << bare;
  std::string expected = bare.output;
  const std::string ours = "deep-bound handle: ";
  expected.replace(expected.find(ours) + ours.size(), std::string("libcuda.so.1").size(), "libspillway.so");
  EXPECT_EQ(with.output, expected) << "more than the hooked function changed";
  EXPECT_TRUE(contains(with, "undefined symbol: cuMemAlloc_v2")) << with;
}

TEST(Dlsym, NextIsTheCallersOwn) {
  const Ran before = preloaded(std::string(WRAPPER) + ":" + kShim, kProbe + "next");
  EXPECT_TRUE(contains(before, "wrapper's next: libspillway.so")) << before;
  EXPECT_TRUE(contains(before, "forwarded 1 time(s)")) << before;
  const Ran after = preloaded(kShim + ":" + WRAPPER, kProbe + "next");
  EXPECT_TRUE(contains(after, "wrapper's next: libcuda.so.1")) << after;
  EXPECT_TRUE(contains(after, "forwarded 1 time(s)")) << after;
}

TEST(Dlsym, AnotherInterposerOrAllocatorBesideInBothOrders) {
  const std::string all = std::to_string(HOOK_ROWS) + " shim, 0 other";
  for (const std::string other : {OTHER_DLSYM, ALLOCATOR}) {
    for (const std::string& order : {other + ":" + kShim, kShim + ":" + other}) {
      const Ran ran = preloaded(order, kProbe + "ways");
      EXPECT_EQ(ran.status, 0) << order << ran;
      EXPECT_TRUE(contains(ran, "handle: " + all)) << order << ran;
      EXPECT_EQ(preloaded(order, "python3 -c 'print(2)'"), run("python3 -c 'print(2)'")) << order;
    }
  }
}

TEST(Driver, NoneAtAll) {
  const Ran ran = preloaded(kShim, "env " + kQuiet + "LD_LIBRARY_PATH=/nonexistent " + kLateProbe);
  EXPECT_EQ(ran.status, 0);
  EXPECT_TRUE(contains(ran, "default scope before loading: nothing")) << ran;
  EXPECT_TRUE(contains(ran, "program's handle before loading: nothing")) << ran;
  // A machine that has a driver of its own in the system's folders initialises that one.
  EXPECT_TRUE(contains(ran, "driver: loaded") || contains(ran, "cuInit: 100")) << ran;
}

TEST(Driver, LoadedLate) {
  const Ran ran = preloaded(kShim, "env " + kQuiet + kDriver + kLateProbe);
  EXPECT_TRUE(contains(ran, "cuInit: 0")) << ran;
  EXPECT_TRUE(contains(ran, "handle: libspillway.so")) << ran;
  EXPECT_TRUE(contains(ran, "missing in old drivers: libspillway.so")) << ran;
}

TEST(Driver, AnOldOneServesWhatItHas) {
  const Ran ran = preloaded(kShim, "env " + kQuiet + kOldDriver + kLateProbe);
  EXPECT_EQ(ran.status, 0);
  EXPECT_TRUE(contains(ran, "handle: libspillway.so")) << ran;
  EXPECT_TRUE(contains(ran, "missing in old drivers: nothing")) << ran;
  EXPECT_TRUE(contains(ran, "cuMemAdvise_v2: 500")) << ran;
}

TEST(Process, ForkBeforeAndAfterWithThreadsAndExec) {
  const Ran bare = run(kProbe + "processes");
  ASSERT_TRUE(contains(bare, "after exec")) << bare;
  EXPECT_EQ(preloaded(kShim, kProbe + "processes"), bare);
}

TEST(Process, UnloadIsNoDanger) {
  // Opened and closed by name, used afterwards: the library stays, as pointers into it are out.
  const std::string program =
      "import ctypes, _ctypes; l = ctypes.CDLL(\"" + kShim + "\"); f = l.cuInit; _ctypes.dlclose(l._handle); f(0)";
  const Ran ran = run("env " + kQuiet + kDriver + "python3 -c '" + program + "'");
  EXPECT_EQ(ran.status, 0) << ran;
}

}  // namespace
