// The trace on disk: whole after a close, readable after a kill, never in the way of the program.
#include "shim/trace_writer.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "policy/trace/frame_builder.hpp"
#include "policy/trace/header.hpp"
#include "policy/trace/trace_reader.hpp"

namespace spillway::shim {
namespace {

using namespace policy;
using namespace policy::trace;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

FrameBytes frame_of(int records, std::int64_t time = 0) {
  FrameBuilder builder;
  for (int i = 0; i < records; ++i) static_cast<void>(builder.add({Nanoseconds(time + i), Launched{{1}, {1}}}));
  return *builder.finish();
}

std::string end_text(const char* reason) {
  TraceEnd end;
  end.reason = reason;
  return encode_end(end);
}

struct ReadTrace {
  bool readable = false;
  bool whole = false;
  std::string reason;
  std::uint64_t launches = 0;
  std::uint64_t lost = 0;
  TraceHeader header;
};

ReadTrace read_trace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TraceReader reader([&file](std::span<std::byte> place) {
    file.read(reinterpret_cast<char*>(place.data()), static_cast<std::streamsize>(place.size()));
    return static_cast<std::size_t>(file.gcount());
  });
  ReadTrace trace;
  if (reader.open()) return trace;
  trace.readable = true;
  for (Record record; reader.next(record);) {
    if (std::holds_alternative<Launched>(record.event.body)) ++trace.launches;
    if (const auto* dropped = std::get_if<EventsDropped>(&record.event.body)) trace.lost += dropped->count;
  }
  trace.whole = reader.whole();
  if (reader.end()) trace.reason = reader.end()->reason;
  trace.header = reader.header();
  return trace;
}

class TraceWriterTest : public ::testing::Test {
 protected:
  TraceWriterTest() {
    std::string pattern = (fs::temp_directory_path() / "trace-writer-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~TraceWriterTest() override { fs::remove_all(folder_); }

  TraceWriterOptions options(const std::string& name) {
    TraceWriterOptions given;
    given.path_pattern = name.front() == '/' ? name : (folder_ / name).string();
    given.names = {std::to_string(::getpid()), "20260102T030405", "node1", ""};
    TraceHeader header;
    header.program = "test";
    given.header_json = encode_header(header);
    given.report = [this](const std::string& text) {
      ++reports_;
      report_ = text;
    };
    return given;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }

  fs::path folder_;
  std::atomic<int> reports_{0};
  std::string report_;
};

TEST_F(TraceWriterTest, WritesAWholeTrace) {
  TraceWriter writer(options("a.%p.%r.%h.%t.swt"));
  EXPECT_TRUE(writer.submit(frame_of(10)));
  EXPECT_TRUE(writer.submit(frame_of(5, 20)));
  writer.close(end_text("exit"));
  const std::string path = (folder_ / ("a." + std::to_string(::getpid()) + ".0.node1.20260102T030405.swt")).string();
  EXPECT_EQ(writer.path(), path);
  const ReadTrace trace = read_trace(path);
  EXPECT_TRUE(trace.whole);
  EXPECT_EQ(trace.launches, 15U);
  EXPECT_EQ(trace.reason, "exit");
  EXPECT_EQ(trace.header.program, "test");
  EXPECT_EQ(writer.bytes_written(), fs::file_size(path));
  EXPECT_FALSE(writer.submit(frame_of(1))) << "after the end nothing is taken";
  EXPECT_EQ(reports_, 0);
}

TEST_F(TraceWriterTest, NoFrameNoFileNoThread) {
  {
    TraceWriter writer(options("a.swt"));
    writer.flush_now();
    writer.close(end_text("exit"));
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(TraceWriterTest, WithoutCloseTheFramesAreThereAndTheEndIsNot) {
  { TraceWriter(options("a.swt")).submit(frame_of(10)); }
  const ReadTrace trace = read_trace((folder_ / "a.swt").string());
  EXPECT_EQ(trace.launches, 10U);
  EXPECT_FALSE(trace.whole);
}

TEST_F(TraceWriterTest, NeverOverwritesAFile) {
  std::ofstream(folder_ / "a.swt") << "precious";
  std::vector<std::string> said;
  for (int i = 0; i < 2; ++i) {
    TraceWriterOptions given = options("a.swt");
    given.renamed = [&said](const std::string& path) { said.push_back(path); };
    TraceWriter writer(std::move(given));
    writer.submit(frame_of(1));
    writer.close(end_text("exit"));
  }
  std::string content;
  std::ifstream(folder_ / "a.swt") >> content;
  EXPECT_EQ(content, "precious");
  EXPECT_TRUE(read_trace((folder_ / "a.1.swt").string()).whole);
  EXPECT_TRUE(read_trace((folder_ / "a.2.swt").string()).whole);
  EXPECT_EQ(said, (std::vector{(folder_ / "a.1.swt").string(), (folder_ / "a.2.swt").string()}));
}

TEST_F(TraceWriterTest, FullDiskTurnsTracingOffWithOneMessage) {
  TraceWriter writer(options("/dev/full"));
  writer.submit(frame_of(1));
  writer.flush_now();
  EXPECT_FALSE(writer.is_on());
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(writer.submit(frame_of(1)));
  writer.close(end_text("exit"));
  EXPECT_EQ(reports_, 1);
  EXPECT_THAT(report_, HasSubstr("/dev/full"));
  EXPECT_THAT(report_, HasSubstr("No space left on device"));
  EXPECT_EQ(writer.dropped_frames(), 6U);
  EXPECT_EQ(writer.dropped_records(), 6U);
}

// A limit on the file's size stops the writing in mid-run: what was written before stays readable, and SIGXFSZ kills
// nobody.
TEST_F(TraceWriterTest, DiskThatFillsInMidRunLeavesWholeFrames) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{3000, 3000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    TraceWriter writer(options("a.swt"));
    for (int i = 0; i < 100; ++i) {
      writer.submit(frame_of(100, i * 1000));
      writer.flush_now();
    }
    writer.close(end_text("exit"));
    ::_exit(writer.is_on() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const ReadTrace trace = read_trace((folder_ / "a.swt").string());
  EXPECT_GT(trace.launches, 0U);
  EXPECT_EQ(trace.launches % 100, 0U);
  EXPECT_FALSE(trace.whole);
  EXPECT_LE(fs::file_size(folder_ / "a.swt"), 3000U);
}

TEST_F(TraceWriterTest, MissingFolderTurnsTracingOffAndNamesTheRemedy) {
  TraceWriter writer(options("no/such/folder/a.swt"));
  writer.submit(frame_of(1));
  writer.flush_now();
  writer.close(end_text("exit"));
  EXPECT_EQ(reports_, 1);
  EXPECT_THAT(report_, HasSubstr("name another one with --trace (SPILLWAY_TRACE_PATH)"));
}

TEST_F(TraceWriterTest, WithoutADescriptorTheLimitIsTheRemedy) {
  struct rlimit before {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  struct rlimit none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);
  TraceWriter writer(options("a.swt"));
  writer.submit(frame_of(1));
  writer.flush_now();
  writer.close(end_text("exit"));
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(reports_, 1);
  EXPECT_THAT(report_, HasSubstr("(Too many open files): raise the limit on open files (ulimit -n)"));
}

TEST_F(TraceWriterTest, UnwritableFolderTurnsTracingOff) {
  ::chmod(folder_.c_str(), 0500);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Root writes everywhere: become somebody else.
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    TraceWriter writer(options("a.swt"));
    writer.submit(frame_of(1));
    writer.close(end_text("exit"));
    ::_exit(reports_ == 1 && report_.find("Permission denied") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::chmod(folder_.c_str(), 0700);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files(), 0U);
}

TEST_F(TraceWriterTest, FullQueueDropsCountsAndMarksThePlace) {
  TraceWriterOptions small = options("a.swt");
  const FrameBytes frame = frame_of(10);
  small.queue_bytes = frame.size() - 1;
  TraceWriter writer(small);
  EXPECT_FALSE(writer.submit(frame));
  EXPECT_FALSE(writer.submit(frame));
  EXPECT_EQ(writer.dropped_frames(), 2U);
  EXPECT_EQ(writer.dropped_records(), 20U);
  const FrameBytes little = frame_of(1);
  ASSERT_LT(little.size(), frame.size());
  EXPECT_TRUE(writer.submit(little));
  writer.flush_now();
  EXPECT_FALSE(writer.submit(frame)) << "lost at the very end";
  writer.close(end_text("exit"));
  const ReadTrace trace = read_trace(writer.path());
  EXPECT_TRUE(trace.whole);
  EXPECT_EQ(trace.launches, 1U);
  EXPECT_EQ(trace.lost, 30U);
}

// Frames of random times hardly shrink, so that the limit is met.
FrameBytes large_frame(std::int64_t number) {
  FrameBuilder builder;
  std::uint64_t random = static_cast<std::uint64_t>(number) * 2654435761U + 1;
  for (int i = 0; i < 4000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const auto stream = static_cast<std::uint32_t>(random >> 32U);
    static_cast<void>(builder.add({Nanoseconds(number * 1000 + i), Launched{{stream}, {stream ^ 7U}}}));
  }
  return *builder.finish();
}

// Frames are told from those before them: the builder must hear of one that is not in the file.
TEST_F(TraceWriterTest, AFrameThatWasDroppedCostsNoOther) {
  TraceWriterOptions small = options("a.swt");
  small.queue_bytes = 4096;
  TraceWriter writer(small);
  FrameBuilder builder;
  std::uint64_t random = 1;
  const auto submit = [&](std::uint32_t launches) {
    for (std::uint32_t i = 0; i < launches; ++i) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      static_cast<void>(builder.add({Nanoseconds(i), Launched{{static_cast<std::uint32_t>(random >> 32U)}, {i}}}));
    }
    const bool kept = writer.submit(*builder.finish());
    if (!kept) builder.note_dropped();
    writer.flush_now();
    return kept;
  };
  EXPECT_TRUE(submit(20));
  EXPECT_TRUE(submit(20));
  EXPECT_FALSE(submit(3000));
  EXPECT_TRUE(submit(20));
  EXPECT_TRUE(submit(20));
  writer.close(end_text("exit"));
  const ReadTrace trace = read_trace(writer.path());
  EXPECT_TRUE(trace.whole);
  EXPECT_EQ(trace.launches, 80U);
  EXPECT_EQ(trace.lost, 3000U);
}

TEST_F(TraceWriterTest, AFullFileStaysWithinItsSizeCountsTheRestAndHasItsEnd) {
  TraceWriterOptions given = options("a.swt");
  given.most_bytes = std::uint64_t{1} << 20U;
  TraceWriter writer(given);
  constexpr std::int64_t kFrames = 100;
  for (std::int64_t i = 0; i < kFrames; ++i) {
    writer.submit(large_frame(i));
    writer.flush_now();
  }
  EXPECT_EQ(reports_, 1);
  EXPECT_THAT(report_, HasSubstr("a.swt has reached 1048576 bytes (trace.max_size)"));
  EXPECT_THAT(report_, HasSubstr("raise --trace-max-size (SPILLWAY_TRACE_MAX_SIZE)"));
  EXPECT_TRUE(writer.is_on());
  const ReadTrace before = read_trace(writer.path());
  EXPECT_GT(before.lost, 0U) << "also for whoever looks before the end";
  writer.close(end_text("exit"));
  EXPECT_LE(fs::file_size(writer.path()), given.most_bytes);
  EXPECT_GE(fs::file_size(writer.path()), given.most_bytes * 9 / 10);
  const ReadTrace trace = read_trace(writer.path());
  EXPECT_TRUE(trace.whole);
  EXPECT_EQ(trace.reason, "exit");
  EXPECT_GT(trace.launches, 0U);
  EXPECT_EQ(trace.launches + trace.lost, 4000U * kFrames);
  EXPECT_EQ(writer.dropped_records(), trace.lost);
}

TEST_F(TraceWriterTest, KillLosesNothingThatWasSubmittedBefore) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    TraceWriter writer(options("a.swt"));
    for (int i = 0; i < 20; ++i) writer.submit(frame_of(100, i * 1000));
    writer.flush_now();
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  const ReadTrace trace = read_trace((folder_ / "a.swt").string());
  EXPECT_TRUE(trace.readable);
  EXPECT_EQ(trace.launches, 2000U);
  EXPECT_FALSE(trace.whole);
}

TEST_F(TraceWriterTest, ForkedChildLeavesTheParentsTraceAlone) {
  TraceWriter writer(options("a.swt"));
  writer.submit(frame_of(3));
  writer.flush_now();
  for (const bool told : {true, false}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (told) {
        writer.after_fork_in_child();
        if (writer.submit(frame_of(1000)) || writer.is_on()) ::_exit(1);
      }
      writer.flush_now();
      writer.close(end_text("exit"));
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  writer.submit(frame_of(2, 100));
  writer.close(end_text("exit"));
  const ReadTrace trace = read_trace(writer.path());
  EXPECT_TRUE(trace.whole);
  EXPECT_EQ(trace.launches, 5U);
}

// Programs that close every descriptor (daemons) and then open files of their own.
TEST_F(TraceWriterTest, NeverWritesIntoAFileThatTookItsDescriptor) {
  TraceWriter writer(options("a.swt"));
  writer.submit(frame_of(3));
  writer.flush_now();
  const fs::path theirs = folder_ / "theirs";
  const int own = ::open(theirs.c_str(), O_RDWR | O_CREAT, 0600);
  int traced = -1;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (fs::read_symlink(entry.path(), ignored) == writer.path()) traced = std::stoi(entry.path().filename());
  }
  ASSERT_GE(traced, 100) << "a low number is what programs expect for their own files";
  ASSERT_EQ(::dup2(own, traced), traced);
  writer.submit(frame_of(3));
  writer.close(end_text("exit"));
  EXPECT_EQ(fs::file_size(theirs), 0U);
  EXPECT_EQ(::fcntl(traced, F_GETFD) >= 0, true) << "their descriptor was closed";
  EXPECT_EQ(reports_, 1);
  ::close(own);
  ::close(traced);
}

TEST_F(TraceWriterTest, WriterThreadBlocksEverySignalButItsOwnCrash) {
  TraceWriter writer(options("a.swt"));
  writer.submit(frame_of(1));
  writer.flush_now();
  bool found = false;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "spillway-trace") continue;
    found = true;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      const std::uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
      for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD, SIGXFSZ, SIGPIPE}) {
        EXPECT_TRUE(blocked >> (signal - 1) & 1U) << signal;
      }
      for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) EXPECT_FALSE(blocked >> (signal - 1) & 1U) << signal;
    }
  }
  EXPECT_TRUE(found);
  sigset_t mine;
  pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0) << "the caller's mask is as it was";
}

TEST(TracePath, ExpandsItsPlaceholders) {
  const TraceNames names{"42", "20260102T030405", "node/1", "3"};
  EXPECT_EQ(expand_trace_path("t/%p-%t-%h-%r-%%-%x-%", names), "t/42-20260102T030405-node_1-3-%-%x-%");
  EXPECT_EQ(expand_trace_path("%r", {"1", "", "", ""}), "0");
}

}  // namespace
}  // namespace spillway::shim
