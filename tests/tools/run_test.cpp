// `spillway run` with real programs and a stand-in for the library: what is refused, what is set, and that the program
// is the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/process.hpp"
#include "tests/support/sample_trace.hpp"
#include "tools/elf_file.hpp"
#include "tools/run_summary.hpp"

namespace spillway::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

// An installed tree of its own: bin/spillway, lib/libspillway.so, lib/spillway/simulated/libcuda.so.1.
class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    std::string pattern = (fs::temp_directory_path() / "run-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    install(folder_ / "prefix");
  }
  ~RunTest() override { fs::remove_all(folder_); }

  void install(const fs::path& prefix) {
    fs::create_directories(prefix / "bin");
    fs::create_directories(prefix / "lib/spillway/simulated");
    fs::copy_file(SPILLWAY_COMMAND, prefix / "bin/spillway");
    fs::copy_file(FAKE_LIBRARY, prefix / "lib/libspillway.so");
    std::ofstream(prefix / "lib/spillway/simulated/libcuda.so.1") << "";
    // Any library will do: it is only looked for.
    fs::create_directories(folder_ / "driver");
    if (!fs::exists(folder_ / "driver/libcuda.so.1")) fs::copy_file(FAKE_LIBRARY, folder_ / "driver/libcuda.so.1");
    command_ = (prefix / "bin/spillway").string();
  }
  tests::ProcessResult run(std::vector<std::string> arguments, tests::ProcessOptions options = {}) {
    arguments.insert(arguments.begin(), {command_, "run"});
    if (options.folder.empty()) options.folder = folder_.string();
    if (has_driver_) options.environment.emplace("LD_LIBRARY_PATH", (folder_ / "driver").string());
    return tests::run_process(arguments, options);
  }
  // One line, exit code 2, nothing on stdout.
  std::string refusal(const std::vector<std::string>& arguments, tests::ProcessOptions options = {}) {
    const auto result = run(arguments, std::move(options));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  }
  std::string write(const std::string& name, const std::string& content, unsigned mode = 0755) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    ::chmod((folder_ / name).c_str(), mode);
    return (folder_ / name).string();
  }
  // A copy of a real program with one field of its ELF header changed.
  std::string altered(const std::string& name, std::size_t offset, char value) {
    std::ifstream file("/bin/true", std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    bytes.at(offset) = value;
    return write(name, bytes);
  }

  fs::path folder_;
  std::string command_;
  bool has_driver_ = true;
};

TEST_F(RunTest, AMachineWithoutADriverIsNamedAndTheProgramRuns) {
  has_driver_ = false;
  tests::ProcessOptions options;
  options.environment = {{"LD_LIBRARY_PATH", folder_.string()}};
  // Not what the machine has: a file of that name that is no library is not passed over for another.
  write("libcuda.so.1", "no library");
  const auto result = run({"--", "sh", "-c", "echo out; exit 37"}, options);
  EXPECT_EQ(result.exit_code, 37);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_THAT(result.err, HasSubstr("no CUDA driver (libcuda.so.1) is found here"));
  EXPECT_THAT(result.err, HasSubstr("--simulated"));
  EXPECT_THAT(run({"--simulated", "true"}, options).err, Not(HasSubstr("no CUDA driver")));
  options.environment["LD_LIBRARY_PATH"] = folder_.string();
  const auto doctor = tests::run_process({command_, "doctor", "--", "true"}, options);
  EXPECT_EQ(doctor.exit_code, 1);
  EXPECT_THAT(doctor.out, HasSubstr("no CUDA driver (libcuda.so.1) is found here"));
  EXPECT_THAT(doctor.out, HasSubstr("--simulated"));
}

TEST_F(RunTest, HelpSaysHowItIsCalledAndEachFlagOnce) {
  const std::string help = run({"--help"}).out;
  EXPECT_THAT(help, HasSubstr("Usage: spillway run [flags] [--] program [arguments]\n"));
  EXPECT_THAT(help, Not(HasSubstr("--trace,--trace")));
}

TEST_F(RunTest, ProgramKeepsItsOutputAndExitCode) {
  const auto result = run({"--", "sh", "-c", "echo out; echo err >&2; exit 37"});
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(result.exit_code, 37);
}

TEST_F(RunTest, FlagsAfterTheProgramAreTheProgramsOwn) {
  EXPECT_EQ(run({"--", "sh", "-c", "kill -PIPE $$; echo survived"}).signal, SIGPIPE);
  EXPECT_EQ(run({"sh", "-c", "echo $1 $2", "x", "--device-budget", "--help"}).out, "--device-budget --help\n");
  EXPECT_EQ(run({"--mode", "off", "echo", "--mode", "--", "y"}).out, "--mode -- y\n");
  EXPECT_EQ(run({"--", "echo", "--", "y"}).out, "-- y\n");
}

TEST_F(RunTest, SettingsReachTheEnvironment) {
  const std::string print = "echo $SPILLWAY_DEVICE_BUDGET $SPILLWAY_MODE $SPILLWAY_TRACE_PATH";
  fs::create_directory(folder_ / "50%");
  tests::ProcessOptions options;
  options.folder = (folder_ / "50%").string();
  const auto result =
      run({"--device-budget=16GiB", "--mode", "arrival", "--trace", "a.%p.swt", "--", "sh", "-c", print}, options);
  EXPECT_EQ(result.out, "16GiB arrival " + folder_.string() + "/50%%/a.%p.swt\n");
  // Nothing behind the "=" is no trace, and takes nothing of what follows.
  EXPECT_EQ(run({"--trace=", "--mode", "arrival", "--", "sh", "-c", print}).out, "arrival\n");
}

TEST_F(RunTest, LibraryIsPreloadedAfterWhatIsThere) {
  const std::string other = (folder_ / "other.so").string();
  fs::copy_file(FAKE_LIBRARY, other);
  tests::ProcessOptions options;
  options.environment = {{"LD_PRELOAD", other}, {"FAKE_MARK", (folder_ / "mark").string()}};
  const std::string library = (folder_ / "prefix/lib/libspillway.so").string();
  EXPECT_EQ(run({"sh", "-c", "echo $LD_PRELOAD"}, options).out, other + ":" + library + "\n");
  EXPECT_TRUE(fs::exists(folder_ / "mark"));
  // A run inside a run adds nothing.
  EXPECT_EQ(run({command_, "run", "sh", "-c", "echo $LD_PRELOAD"}, options).out, other + ":" + library + "\n");
}

TEST_F(RunTest, PrefixWithBlanksAndColonsWorks) {
  has_driver_ = false;  // so that the path printed is ours alone
  install(folder_ / "a prefix:with both");
  tests::ProcessOptions options;
  options.environment = {{"FAKE_MARK", (folder_ / "mark").string()}, {"XDG_RUNTIME_DIR", folder_.string()}};
  const auto result = run({"--simulated", "sh", "-c", "echo $LD_LIBRARY_PATH"}, options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "") << "the loader could not read the path";
  EXPECT_TRUE(fs::exists(folder_ / "mark"));
  const std::string link = result.out.substr(0, result.out.find('\n'));
  EXPECT_TRUE(fs::exists(fs::path(link) / "libcuda.so.1")) << link;
  struct stat status {};
  ASSERT_EQ(::lstat((folder_ / ("spillway-" + std::to_string(::geteuid()))).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
}

TEST_F(RunTest, ForeignPrivateFolderIsNotTrusted) {
  install(folder_ / "a prefix");
  const fs::path taken = folder_ / ("spillway-" + std::to_string(::geteuid()));
  fs::create_directory(taken);
  ::chmod(taken.c_str(), 0777);
  tests::ProcessOptions options;
  options.environment = {{"XDG_RUNTIME_DIR", folder_.string()}};
  EXPECT_THAT(refusal({"true"}, options), HasSubstr("not a folder of this user's alone"));
}

TEST_F(RunTest, SimulatedDeviceComesFirstAndKeepsTheUsersPath) {
  tests::ProcessOptions options;
  options.environment = {{"LD_LIBRARY_PATH", "/my/libs"}};
  EXPECT_EQ(run({"--simulated", "sh", "-c", "echo $LD_LIBRARY_PATH"}, options).out,
            (folder_ / "prefix/lib/spillway/simulated").string() + ":/my/libs\n");
}

TEST_F(RunTest, RefusesProgramsThatCannotBeRunOrIntercepted) {
  EXPECT_THAT(refusal({"no-such-program-anywhere"}), HasSubstr("cannot find no-such-program-anywhere in PATH"));
  EXPECT_THAT(refusal({"./missing"}), HasSubstr("No such file"));
  EXPECT_THAT(refusal({"/tmp"}), HasSubstr("is a folder"));
  EXPECT_THAT(refusal({write("plain", "text", 0644)}), HasSubstr("not executable"));
  EXPECT_THAT(refusal({write("words", "just words\n")}), HasSubstr("neither an ELF program nor a script"));
  EXPECT_THAT(refusal({altered("b32", 4, 1)}), HasSubstr("32-bit"));
  EXPECT_THAT(refusal({altered("other", 18, static_cast<char>(own_machine() == 183 ? 62 : 183))}),
              HasSubstr("built for"));
  EXPECT_THAT(refusal({write("cut", std::string("\x7f"
                                                "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02",
                                                17))}),
              HasSubstr("is cut"));
  EXPECT_THAT(refusal({write("lost", "#!/no/such/interpreter\n")}), HasSubstr("/no/such/interpreter"));
  EXPECT_THAT(refusal({write("env", "#!/usr/bin/env no-such-python\n")}), HasSubstr("no-such-python"));
}

TEST_F(RunTest, RefusesStaticAndMuslPrograms) {
  // Without PT_INTERP (3 becomes 4, a note) a program is static; its loader's name says which C library it has.
  std::ifstream file("/bin/true", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::string no_loader = bytes;
  for (std::size_t at = 64; at < 64 + 56 * 12; at += 56) {
    if (no_loader[at] == 3) no_loader[at] = 4;
  }
  EXPECT_THAT(refusal({write("static", no_loader)}), HasSubstr("statically linked"));
  std::string musl = bytes;
  const std::size_t name = musl.find("/lib64/ld-linux");
  ASSERT_NE(name, std::string::npos);
  musl.replace(name, 16, std::string("/lib/ld-musl.so\0", 16));
  EXPECT_THAT(refusal({write("musl", musl)}), HasSubstr("musl"));
}

TEST_F(RunTest, AStaticCudaRuntimeIsNamedBeforeItStartsOnTheSimulatedDevice) {
  std::ifstream file("/bin/true", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  // What such a program holds, across the border of a block too.
  const std::string padding((std::size_t{1} << 20U) - bytes.size() - 5, ' ');
  const std::string with_runtime = bytes + padding + ".nv_fatbin cudaErrorMemoryAllocation";
  EXPECT_THAT(refusal({"--simulated", write("static-runtime", with_runtime)}), HasSubstr("nvcc --cudart shared"));
  EXPECT_EQ(run({write("on-a-gpu", with_runtime)}).exit_code, 0) << "fine on a real one";
  EXPECT_EQ(run({"--simulated", write("shared-runtime", with_runtime + " libcudart.so.13")}).exit_code, 0);
}

TEST_F(RunTest, RefusesSetuidPrograms) {
  if (::geteuid() != 0) GTEST_FAIL() << "needs root to make a setuid file of another user";
  fs::copy_file("/bin/true", folder_ / "setuid");
  ASSERT_EQ(::chown((folder_ / "setuid").c_str(), 65534, 65534), 0);
  ::chmod((folder_ / "setuid").c_str(), 04755);
  EXPECT_THAT(refusal({"./setuid"}), HasSubstr("setuid"));
  ::chmod((folder_ / "setuid").c_str(), 02755);
  EXPECT_THAT(refusal({"./setuid"}), HasSubstr("setgid"));
}

TEST_F(RunTest, ScriptsRunThroughTheirInterpreter) {
  EXPECT_EQ(run({write("script", "#!/bin/sh\necho from a script\n")}).out, "from a script\n");
  EXPECT_EQ(run({write("env-script", "#!/usr/bin/env sh\necho through env\n")}).out, "through env\n");
}

TEST_F(RunTest, SettingsMistakesAreAllReportedAtOnce) {
  tests::ProcessOptions options;
  options.environment = {{"SPILLWAY_HOST_BUDGET", "much"}, {"SPILLWAY_WINDWO", "3"}};
  const auto result = run({"--device-budget", "huge", "--mode", "fast", "true"}, options);
  EXPECT_EQ(result.exit_code, 2);
  for (const char* part : {"--device-budget", "huge", "--mode", "SPILLWAY_HOST_BUDGET", "SPILLWAY_WINDWO"}) {
    EXPECT_THAT(result.err, HasSubstr(part));
  }
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 4) << result.err;
  EXPECT_THAT(refusal({"--windwo", "3", "true"}), HasSubstr("did you mean --window?"));
  EXPECT_THAT(refusal({"--device-budget", "16G", "true"}), HasSubstr("\"16G\" is not a size; did you mean \"16GiB\"?"));
  EXPECT_THAT(refusal({"--trace-max-size", "2m", "true"}), HasSubstr("\"2m\" is not a size; did you mean \"2MiB\"?"));
  EXPECT_THAT(refusal({}), HasSubstr("no program given"));
  EXPECT_EQ(run({"--device-budget"}).exit_code, 2);
}

// Else the program starts, and sees no device.
TEST_F(RunTest, TheMemoryOfASimulatedDeviceIsCheckedBeforeTheProgramStarts) {
  tests::ProcessOptions options;
  for (const char* bad : {"foo", "1GiB and more", "16MiB", "65GiB", "-1", "99999999999GiB"}) {
    options.environment = {{"SPILLWAY_SIMULATED_MEMORY", bad}};
    const auto result = run({"--simulated", "echo", "started"}, options);
    EXPECT_EQ(result.exit_code, 2) << bad;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "spillway: SPILLWAY_SIMULATED_MEMORY=\"" + std::string(bad) +
                              "\": give a size from 32MiB to 64GiB, for example 256MiB\n");
    EXPECT_EQ(run({"echo", "started"}, options).out, "started\n") << "a GPU is none";
  }
  for (const char* good : {"", "32MiB", "64GiB", "67108864"}) {
    options.environment = {{"SPILLWAY_SIMULATED_MEMORY", good}};
    EXPECT_EQ(run({"--simulated", "echo", "started"}, options).out, "started\n") << good;
  }
}

TEST_F(RunTest, TheOtherVariablesOfASimulatedDeviceAreCheckedBeforeTheProgramStarts) {
  tests::ProcessOptions options;
  const auto said = [&](const std::string& name, const std::string& value) {
    options.environment = {{name, value}};
    return refusal({"--simulated", "echo", "started"}, options);
  };
  EXPECT_EQ(said("SPILLWAY_SIMULATED_DEVICES", "99"),
            "spillway: SPILLWAY_SIMULATED_DEVICES=\"99\": give a number of devices from 0 to 8\n");
  EXPECT_THAT(said("SPILLWAY_SIMULATED_NO_MANAGED", "yes"), HasSubstr("give 0 or 1"));
  EXPECT_THAT(said("SPILLWAY_SIMULATED_NO_MANAGED", "1x"), HasSubstr("give 0 or 1"));
  EXPECT_THAT(said("SPILLWAY_SIMULATED_NO_HOST_NUMA", "99999999999999999999"), HasSubstr("give 0 or 1"));
  EXPECT_THAT(said("SPILLWAY_SIMULATED_DRIVER_VERSION", "10999"), HasSubstr("from 11000 to 13000"));
  EXPECT_THAT(said("SPILLWAY_SIMULATED_SOMETHING_ELSE", "1"),
              HasSubstr("is no variable of the simulated device; unset it\n"));
  EXPECT_EQ(said("SPILLWAY_SIMULATED_KERNEL", "x.so"),
            "spillway: SPILLWAY_SIMULATED_KERNEL: is no variable of the simulated device; did you mean "
            "SPILLWAY_SIMULATED_KERNELS?\n");
  options.environment = {{"SPILLWAY_SIMULATED_DEVICES", "2"}, {"SPILLWAY_SIMULATED_DRIVER_VERSION", ""}};
  EXPECT_EQ(run({"--simulated", "echo", "started"}, options).out, "started\n");
}

// Nobody has asked for the trace that a summary is read from.
TEST_F(RunTest, TheTraceOfASummaryIsBoundedUnlessABoundIsSet) {
  const auto bound = [this](std::vector<std::string> flags, tests::ProcessOptions options = {}) {
    flags.insert(flags.end(), {"--summary", "sh", "-c", "echo $SPILLWAY_TRACE_MAX_SIZE"});
    return run(flags, std::move(options)).out;
  };
  tests::ProcessOptions options;
  options.environment = {{"SPILLWAY_TRACE_MAX_SIZE", "3GiB"}};
  EXPECT_EQ(bound({}), "1GiB\n");
  EXPECT_EQ(bound({"--trace-max-size", "2GiB"}), "2GiB\n");
  EXPECT_EQ(bound({}, options), "3GiB\n");
  EXPECT_EQ(bound({"--trace", "t.swt"}), "\n");
  write("bound.toml", "[trace]\nmax_size = \"2GiB\"\n", 0644);
  EXPECT_EQ(bound({"--policy", "bound.toml"}), "\n");
}

TEST_F(RunTest, PolicyFileIsCheckedAndPassedOnAbsolute) {
  write("good.toml", "[memory]\ndevice_budget = \"1GiB\"\n", 0644);
  EXPECT_EQ(run({"--policy", "good.toml", "sh", "-c", "echo $SPILLWAY_POLICY"}).out,
            (folder_ / "good.toml").string() + "\n");
  write("bad.toml", "[memory]\nwindwo = \"1GiB\"\n", 0644);
  EXPECT_THAT(refusal({"--policy", "bad.toml", "true"}), HasSubstr("bad.toml:2:1"));
  EXPECT_THAT(refusal({"--policy", "missing.toml", "true"}), HasSubstr("missing.toml"));
}

TEST_F(RunTest, MissingLibraryIsNamed) {
  fs::remove(folder_ / "prefix/lib/libspillway.so");
  EXPECT_THAT(refusal({"true"}), HasSubstr("cannot find libspillway.so"));
}

TEST_F(RunTest, SummarySaysWhatWasSeen) {
  const std::vector<std::byte> bytes = tests::sample_trace();
  write("sample.swt", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), 0644);
  tests::ProcessOptions options;
  options.environment = {{"FAKE_TRACE", (folder_ / "sample.swt").string()}, {"TMPDIR", folder_.string()}};
  auto result = run({"--summary", "sh", "-c", "exit 5"}, options);
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err,
              HasSubstr("spillway[4242] summary: 30 launches, 3 allocations, at most 9 MiB at a time, moved in 2 MiB, "
                        "out 4 MiB, managed peak 6 MiB of a budget of 4 GiB, on host peak "));
  EXPECT_EQ(run({"--summary", "sh", "-c", "kill -9 $$"}, options).signal, 9);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("spillway-run"))) << "its own traces are removed";
  }
  result = run({"--summary", "--trace", "t.%p.swt", "true"}, options);
  EXPECT_THAT(result.err, HasSubstr("trace: " + folder_.string() + "/t."));
  result = run({"--summary", "true"});
  EXPECT_THAT(result.err, HasSubstr("no CUDA call was seen"));
}

TEST_F(RunTest, ATraceThatCannotBeWrittenIsRefusedBeforeTheStart) {
  EXPECT_THAT(refusal({"--trace", "/no/such/folder/x.swt", "true"}),
              HasSubstr("\"/no/such/folder\" does not exist; create the folder"));
  EXPECT_THAT(refusal({"--trace", "missing/x.swt", "true"}), HasSubstr("/missing\" does not exist"));
  write("file", "");
  EXPECT_THAT(refusal({"--trace", "file/x.swt", "true"}), HasSubstr("is no folder"));
  tests::ProcessOptions options;
  options.environment = {{"SPILLWAY_TRACE_PATH", "/no/such/folder/x.swt"}};
  EXPECT_THAT(refusal({"--summary", "true"}, options), HasSubstr("does not exist"));
  EXPECT_THAT(refusal({"--trace", folder_.string(), "true"}), HasSubstr("it is a folder; name a file in it"));
  EXPECT_THAT(refusal({"--trace", "/proc/x.swt", "true"}), HasSubstr("\"/proc\""));
  for (const char* stream : {"/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/1"}) {
    EXPECT_THAT(refusal({"--trace", stream, "true"}), HasSubstr("a stream of the program's own; name a file"));
  }
  for (const char* path : {"/no/such/folder/x.swt", "missing/x.swt"}) {
    write("p.toml", "[trace]\npath = \"" + std::string(path) + "\"\n");
    EXPECT_THAT(refusal({"--policy", "p.toml", "true"}), HasSubstr("does not exist; create the folder")) << path;
  }
  EXPECT_EQ(run({"--trace", "x.swt", "true"}).exit_code, 0);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".spillway"))) << "what was tried is removed";
  }
  // Where only the run can tell, it may start.
  EXPECT_EQ(run({"--trace", "/no/%h/x.swt", "true"}).exit_code, 0);
  EXPECT_EQ(run({"--trace", "/dev/null", "true"}).exit_code, 0);
}

TEST_F(RunTest, SummaryWithoutATraceSaysThatItCouldNotBeWritten) {
  fs::create_directory(folder_ / "traces");
  const auto result = run({"--summary", "--trace", "traces/x.swt", "sh", "-c", "rmdir traces"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("no trace was written"));
  EXPECT_THAT(result.err, HasSubstr("traces\" does not exist"));
  EXPECT_THAT(result.err, Not(HasSubstr("no CUDA call was seen")));
}

TEST_F(RunTest, SummaryOfAnUnwrittenOrUnfinishedTraceSaysWhatIsKnown) {
  const std::vector<std::byte> bytes = tests::sample_trace({"", false, 512, 0});
  const std::string whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  write("empty.swt", "", 0644);
  write("cut.swt", whole.substr(0, whole.size() - 30), 0644);
  write("header.swt", whole.substr(0, 100), 0644);
  const auto said = [this](const std::string& trace, const std::string& place) {
    tests::ProcessOptions options;
    // Named by %p: the command loads the stand-in too, as its driver.
    options.environment = {{"FAKE_TRACE", trace.empty() ? trace : (folder_ / trace).string()}};
    const auto result = run({"--summary", "--trace", place, "true"}, options);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, Not(HasSubstr("no CUDA call was seen")));
    return result.err;
  };
  EXPECT_THAT(said("empty.swt", "a.%p.swt"), AllOf(HasSubstr("no summary: the trace " + folder_.string() + "/a."),
                                                   HasSubstr(".swt is empty: its disk was full, or"),
                                                   HasSubstr("; make room, or name another place with --trace")));
  EXPECT_THAT(said("header.swt", "b.%p.swt"),
              AllOf(HasSubstr("no summary: "), HasSubstr(".swt: byte 100: the trace ends inside its header")));
  EXPECT_THAT(
      said("cut.swt", "c.%p.swt"),
      AllOf(HasSubstr("] summary (partial: tracing stopped at byte " + std::to_string(whole.size() - 30) + ": "),
            HasSubstr("or its disk was full): "), HasSubstr(" launches, "), Not(HasSubstr("still running"))));
  EXPECT_THAT(said("", "/dev/null"), HasSubstr("no summary: it is read from the trace, and \"/dev/null\" is a device"));
}

TEST(RunSummary, SaysOfAnUnfinishedTraceWhatTheEndOfTheRunMakesKnown) {
  TraceSummary summary;
  summary.file_bytes = 2617;
  EXPECT_EQ(why_partial(summary, {policy::Bytes(4096), false}),
            "tracing stopped at byte 2617: its disk is full (4 KiB free)");
  EXPECT_EQ(
      why_partial(summary, {policy::Bytes(std::uint64_t{1} << 30U), false}),
      "tracing stopped at byte 2617: the program was killed, or left without its exit handlers, or its disk was full");
  EXPECT_EQ(why_partial(summary, {policy::Bytes(), true}), "still running, its trace is read up to byte 2617");
  EXPECT_THAT(why_empty({policy::Bytes(), false}), HasSubstr("its disk is full (0 B free); make room"));
  summary.end_reason = "exit";
  summary.completeness = "1 damaged piece left out, the first at byte 400";
  EXPECT_EQ(why_partial(summary, {policy::Bytes(), false}),
            "its trace is damaged: 1 damaged piece left out, the first at byte 400");
  summary.whole = true;
  EXPECT_EQ(why_partial(summary, {policy::Bytes(), false}), "");
}

TEST_F(RunTest, SummaryFindsATraceThatGotANumber) {
  const std::vector<std::byte> bytes = tests::sample_trace();
  write("sample", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), 0644);
  const auto result = run({"--summary", "--trace", "x.swt", "cp", "sample", "x.1.swt"});
  EXPECT_THAT(result.err, HasSubstr("30 launches"));
  EXPECT_THAT(result.err, HasSubstr("trace: " + (folder_ / "x.1.swt").string()));
}

TEST_F(RunTest, SummaryPassesSignalsOnAndEndsBySignal) {
  tests::ProcessOptions options;
  options.signal = SIGTERM;
  options.signal_after_ms = 700;
  auto result =
      run({"--summary", "sh", "-c", "trap 'echo got it; exit 9' TERM; while :; do sleep 0.05; done"}, options);
  EXPECT_EQ(result.out, "got it\n");
  EXPECT_EQ(result.exit_code, 9);
  result = run({"--summary", "sh", "-c", "kill -SEGV $$"});
  EXPECT_EQ(result.signal, SIGSEGV);
  // And without a parent in between:
  EXPECT_EQ(run({"sh", "-c", "kill -USR1 $$"}).signal, SIGUSR1);
}

}  // namespace
}  // namespace spillway::tools
