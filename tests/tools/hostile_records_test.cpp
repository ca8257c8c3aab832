// Whatever a file says, the tools add it up and end: impossible orders, sizes and numbers, under the sanitizers too.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>

#include "policy/cost_table.hpp"
#include "policy/replay.hpp"
#include "policy/shape_costs.hpp"
#include "tests/support/random_events.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"
#include "tools/run_page_reader.hpp"
#include "tools/run_tables.hpp"
#include "tools/stats_tables.hpp"
#include "tools/top_view.hpp"
#include "tools/trace_summary.hpp"

namespace spillway::tools {
namespace {

using namespace policy;

// Few ids, so that records meet; sizes at every edge.
class HostileRecords {
 public:
  explicit HostileRecords(std::uint64_t seed) : random_(seed), any_(seed), wild_(seed % 16 == 0) {}

  EventBody event() {
    switch (below(12)) {
      case 0:
        return AllocationRequested{{id()}, {below(3)}, bytes(), AllocationKind::linear, {1}, {}, false};
      case 1:
        return AllocationSettled{{id()}, {address()}, bytes(), Backing::managed, {below(8) == 0 ? 2 : 0}};
      case 2:
        return Freed{{id()}, {below(8) == 0 ? 2 : 0}};
      case 3:
        return MoveFinished{{below(6)}, MoveOutcome::done, {}, Nanoseconds(-5)};
      case 4:
        return LaunchShapeSeen{{id()}, {below(4)}, 1, {{0, {address()}}, {1, {address()}}}};
      case 5:
      case 6:
        return Launched{{id()}, {below(3)}};
      case 7:
        return GraphSeen{{id()}, {{id()}, {id()}}};
      case 8:
        return GraphLaunched{{id()}, {}};
      case 9:
        return Copied{{}, CopyKind::unknown, {address()}, {address()}, bytes()};
      default:
        return any_.event_body();
    }
  }
  Decision decision() {
    if (below(4) == 0) return any_.decision();
    Cause cause;
    cause.span_class = static_cast<std::uint16_t>(below(9));
    cause.launch = {below(20)};
    return {{below(6)},
            cause,
            MoveRange{{id()}, bytes(), bytes(), static_cast<Placement>(below(4)), Urgency::background, {}, {}}};
  }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

 private:
  std::uint32_t id() { return below(6); }
  Bytes bytes() {
    constexpr std::uint64_t kSizes[] = {
        0, 1, (2ULL << 20U) - 1, 2ULL << 20U, 5ULL << 20U, 100ULL << 20U, 1ULL << 40U, 1ULL << 63U, ~0ULL};
    return Bytes(kSizes[random_() % (std::size(kSizes) - (wild_ ? 0 : 3))]);
  }
  std::uint64_t address() {
    constexpr std::uint64_t kPlaces[] = {0, 1, 0x7f0000000000, 0x7f0000000000 + (3ULL << 20U), ~0ULL};
    return kPlaces[random_() % std::size(kPlaces)];
  }

  std::mt19937_64 random_;
  tests::RandomEvents any_;
  bool wild_;  // sizes beyond every machine: slow, since memory up to a bound is followed
};

TEST(HostileRecords, AreFollowedAndAddedUp) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    HostileRecords hostile(seed);
    RunFollower run;
    TraceSummarizer summarizer(run);
    RunTableMaker maker;
    TopView view;
    for (int i = 0; i < 400; ++i) {
      trace::Record record;
      record.time = record.event.time = Nanoseconds(i);
      if (hostile.below(3) == 0) {
        record.kind = trace::RecordKind::decision;
        record.decision = hostile.decision();
      } else {
        record.kind = trace::RecordKind::event;
        record.event.body = hostile.event();
      }
      summarizer.add(record);
      maker.add(record, run);
      view.add(record, run);
    }
    std::vector<Bytes> resident(run.devices().size());
    for (const auto& [id, allocation] : run.live()) {
      if (allocation.settled && allocation.device.value < resident.size())
        resident[allocation.device.value] += allocation.in_hbm;
    }
    for (std::size_t i = 0; i < resident.size() && i < 3; ++i)
      EXPECT_EQ(resident[i], run.devices()[i].resident) << seed;
    EXPECT_FALSE(text_of(view.frame(run, 10), {80, true}).empty());
    EXPECT_FALSE(json_of(view.frame(run, 10)).empty());
    const RunTables tables = maker.finish(run, {});
    for (const Section section :
         {Section::by_class, Section::by_rule, Section::by_kernel, Section::by_iteration, Section::by_allocation}) {
      EXPECT_FALSE(section_text(tables, section, 10).empty());
      static_cast<void>(section_json(tables, section, 10));
    }
  }
}

// Nothing that the engine promises breaks, whatever it is told.
TEST(HostileRecords, AreReplayed) {
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    HostileRecords hostile(seed);
    std::vector<Event> events{{{}, DeviceSeen{{0}, {}, 48_MiB, 48_MiB, true, "card"}},
                              {{}, HostMemorySeen{Bytes(1ULL << 40U)}}};
    for (int i = 0; i < 400; ++i) {
      const Nanoseconds time(hostile.below(16) == 0 ? std::numeric_limits<std::int64_t>::min() : i);
      events.push_back({time, hostile.event()});
    }
    const ShapeCosts shapes = infer_shape_costs(events, {});
    for (const ModeName mode : {ModeName::off, ModeName::demand, ModeName::arrival, ModeName::adaptive}) {
      PolicyFile policy;
      policy.settings.mode = mode;
      ReplayOptions options;
      options.measure_after = {10};
      const ReplayResult result = replay(events, policy, shapes, {}, options);
      EXPECT_GT(result.impossible, 0U) << seed;
      EXPECT_GE(result.all.seconds, result.measured.seconds) << seed;
    }
  }
}

Event memory_event(std::uint32_t id, Bytes bytes) {
  return {{}, AllocationSettled{{id}, {0x7f0000000000}, bytes, Backing::managed, {}}};
}

// Each is a crash or exabytes without the check of its kind.
TEST(HostileRecords, ReplayLeavesOutWhatCannotBe) {
  const Event request{{}, AllocationRequested{{1}, {0}, 4_MiB, AllocationKind::linear, {}, {}, false}};
  const LaunchShapeId in_graph{(std::uint32_t{1} << 31U) | 1U};
  const std::vector<std::vector<Event>> programs = {{request, memory_event(1, Bytes(~0ULL))},
                                                    {request, memory_event(1, Bytes(1ULL << 60U))},
                                                    {memory_event(7, 4_MiB)},
                                                    {request, request},
                                                    {{{}, DeviceReserved{{0}, Bytes(~0ULL), "all"}}},
                                                    {{{}, GraphSeen{{1}, {in_graph}}}, {{}, GraphLaunched{{1}, {}}}},
                                                    {{{}, Launched{in_graph, {}}}}};
  for (const std::vector<Event>& program : programs) {
    std::vector<Event> events{{{}, DeviceSeen{{0}, {}, 48_MiB, 48_MiB, true, "card"}}};
    events.insert(events.end(), program.begin(), program.end());
    EXPECT_EQ(replay(events, {}, infer_shape_costs(events, {}), {}, {}).impossible, 1U) << (&program - programs.data());
  }
}

// An address that was given out again before the free of the old allocation was told.
TEST(HostileRecords, ReplayKnowsWhoHasAnAddressNow) {
  const auto asked = [](std::uint32_t id) {
    return Event{{}, AllocationRequested{{id}, {0}, 4_MiB, AllocationKind::linear, {}, {}, false}};
  };
  const std::vector<Event> events{{{}, DeviceSeen{{0}, {}, 48_MiB, 48_MiB, true, "card"}},
                                  {{}, HostMemorySeen{1_GiB}},
                                  asked(1),
                                  memory_event(1, 4_MiB),
                                  asked(2),
                                  memory_event(2, 4_MiB),
                                  {{}, FreeRequested{{1}, {}}},
                                  {{}, Freed{{1}, {}}},
                                  {{}, LaunchShapeSeen{{1}, {1}, 1U << 20U, {{0, {0x7f0000000000}}}}},
                                  {{}, Launched{{1}, {}}}};
  PolicyFile policy;
  policy.settings.backing = BackingMode::managed;
  const ReplayResult result = replay(events, policy, infer_shape_costs(events, {}), {}, {});
  EXPECT_EQ(result.impossible, 0U);
  ASSERT_EQ(result.placements.size(), 1U);
  EXPECT_EQ(result.placements[0].allocation.value, 2U);
}

// The page of a process, as somebody may have made it: nothing is read beyond it, and it is a frame or a sentence.
TEST(HostileRecords, APageOfAnotherProcessIsNotTrusted) {
  std::mt19937_64 random(7);
  const auto folder = std::filesystem::temp_directory_path() / ("page-test-" + std::to_string(::getpid()));
  const auto read = [&](const void* bytes, std::size_t size) {
    std::ofstream(folder, std::ios::binary).write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    RunPageReader reader;
    const auto problem = reader.open(folder.string());
    return std::pair(problem, problem ? std::nullopt : reader.read());
  };
  RunPage page;
  page.size = sizeof page;
  page.sequence = 2;
  for (int i = 0; i < 200; ++i) {
    RunPage odd = page;
    auto* const bytes = reinterpret_cast<unsigned char*>(&odd);
    for (std::size_t at = offsetof(RunPage, pid); at < sizeof odd; ++at)
      bytes[at] = static_cast<unsigned char>(random());
    const auto [problem, got] = read(&odd, sizeof odd);
    ASSERT_TRUE(got) << problem.value_or("");
    const TopFrame frame = frame_of(*got, true, 1000);
    EXPECT_LE(frame.devices.size(), odd.devices.size());
    EXPECT_LE(frame.allocations.size(), odd.allocations.size());
    EXPECT_FALSE(text_of(frame, {}).empty());
    EXPECT_EQ(text_of(frame, {}).find('\x1b'), std::string::npos);
    EXPECT_FALSE(json_of(frame).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).empty());
  }
  EXPECT_FALSE(read(&page, sizeof page).first);
  EXPECT_EQ(read(&page, sizeof page - 8).first, "its page is damaged");
  EXPECT_EQ(read(&page, 3).first, "what it shows of itself is no page of Spillway's");
  RunPage writing = page;
  writing.sequence = 3;
  EXPECT_FALSE(read(&writing, sizeof writing).second) << "its writer is in the middle of it";
  RunPage newer = page;
  newer.version = 2;
  EXPECT_NE(read(&newer, sizeof newer).first->find("version 2, this command reads 1"), std::string::npos);
  std::filesystem::remove(folder);
}

using HostileTraceTest = TraceCommandTest;

TEST_F(HostileTraceTest, EveryCommandEndsWithAnAnswer) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    HostileRecords hostile(seed);
    tests::TraceMaker maker({});
    for (int i = 0; i < 500; ++i) {
      const Decision decision = hostile.decision();
      if (hostile.below(3) == 0)
        maker.decide(decision.cause, decision.body);
      else
        maker.event(hostile.event());
    }
    put("run.swt", maker.finish());
    const std::vector<std::vector<std::string>> commands = {
        {"stats", "run.swt", "--by", "class,rule,kernel,iteration,allocation"},
        {"stats", "run.swt", "--json", "--by", "class,rule,kernel,iteration,allocation"},
        {"stats", "run.swt", "--explain", "3"},
        {"stats", "run.swt", "--explain", "2", "--json"},
        {"top", "run.swt", "--once"},
        {"replay", "run.swt", "--device-budget", "48MiB", "--compare", "demand", "off"},
        {"plan", "run.swt", "--device-budget", "48MiB"},
        {"export", "run.swt", "--format", "csv", "-o", "out.csv"},
        {"export", "run.swt", "--format", "sqlite", "-o", "out.db"},
        {"export", "run.swt", "--format", "perfetto", "-o", "out.pftrace"}};
    for (const auto& command : commands) {
      const auto result = spillway(command);
      EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 1)
          << seed << " " << command[0] << " " << command.back() << ": " << result.err;
      EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
}

// Nobody writes to the pipe: to open it would be to wait for ever.
TEST_F(HostileTraceTest, AFileThatIsNoRegularOneIsRefused) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  put("run.swt", tests::training_trace());
  const std::vector<std::vector<std::string>> commands = {
      {"check", "pipe"}, {"run", "--policy", "pipe", "--", "true"}, {"replay", "run.swt", "--policy", "pipe"}};
  for (const auto& command : commands) {
    const auto result = spillway(command);
    EXPECT_EQ(result.exit_code, 2) << command[0];
    EXPECT_NE(result.err.find("is no regular file"), std::string::npos) << result.err;
  }
}

TEST_F(HostileTraceTest, NamesOfFilesCannotCommandATerminal) {
  const std::string name = "a\x1b[31m.swt";
  const std::vector<std::vector<std::string>> commands = {
      {"stats", name}, {"run", "--", name}, {"run", "--", "./" + name}, {"replay", name}, {"check", name}};
  for (const auto& command : commands) {
    const auto result = spillway(command);
    EXPECT_NE(result.exit_code, 0) << command[0];
    EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("a\\x1b[31m.swt"), std::string::npos) << result.err;
  }
}

// A limit on the size of files answers as a full disk does, once the signal that comes with it is ignored.
TEST_F(HostileTraceTest, AFullDiskLeavesNoPartOfAFile) {
  put("run.swt", tests::training_trace());
  for (const std::string command : {"plan run.swt --device-budget 48MiB", "view run.swt --open no"}) {
    const std::string script = "trap '' XFSZ; ulimit -f 0; exec " SPILLWAY_COMMAND " " + command + " -o out";
    tests::ProcessOptions options;
    options.folder = folder_.string();
    const auto result = tests::run_process({"sh", "-c", script}, options);
    EXPECT_EQ(result.exit_code, 1) << command;
    const bool no_viewer = result.err.find("without the viewer") != std::string::npos;
    EXPECT_NE(result.err.find(no_viewer ? "install" : "make room"), std::string::npos) << result.err;
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << command;
  }
}

// To put a file in the place of a pipe or a device is to take it away from everybody who uses it.
TEST_F(HostileTraceTest, OnlyARegularFileIsReplaced) {
  put("run.swt", tests::training_trace());
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::vector<std::vector<std::string>> commands = {{"export", "run.swt", "--format", "csv"},
                                                          {"export", "run.swt", "--format", "perfetto"},
                                                          {"export", "run.swt", "--format", "sqlite"},
                                                          {"plan", "run.swt", "--device-budget", "48MiB"},
                                                          {"view", "run.swt", "--open", "no"}};
  for (std::vector<std::string> command : commands) {
    SCOPED_TRACE(::testing::PrintToString(command));
    command.insert(command.end(), {"-o", "pipe"});
    const auto result = spillway(command);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(std::filesystem::is_fifo(pipe));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
    if (result.err.find("without the viewer") != std::string::npos) continue;
    EXPECT_NE(result.err.find("pipe: cannot be written: is no regular file"), std::string::npos) << result.err;
  }
}

TEST_F(HostileTraceTest, ALinkIsFollowedAndStays) {
  put("run.swt", tests::training_trace());
  std::filesystem::create_directory(folder_ / "elsewhere");
  std::filesystem::create_symlink("elsewhere/file", folder_ / "link");
  std::filesystem::create_symlink("nowhere", folder_ / "loose");
  for (const char* format : {"csv", "perfetto", "sqlite"}) {
    SCOPED_TRACE(format);
    std::ofstream(folder_ / "elsewhere" / "file");
    const auto result = spillway({"export", "run.swt", "--format", format, "-o", "link"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
    EXPECT_GT(std::filesystem::file_size(folder_ / "elsewhere" / "file"), 1000U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "elsewhere"), {}), 1);
    const auto refused = spillway({"export", "run.swt", "--format", format, "-o", "loose"});
    EXPECT_EQ(refused.err, "spillway: loose: cannot be written: is a link that leads nowhere; name another place\n");
  }
}

// The remedy is one for this problem: room helps nobody who may not write there.
TEST_F(HostileTraceTest, WhatCannotBeWrittenSaysWhatHelps) {
  put("run.swt", tests::training_trace());
  std::filesystem::create_directory(folder_ / "folder");
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  tests::ProcessOptions stranger;
  stranger.user = 65534;  // of no effect where we are not root; then the folder is closed to us by its mode
  std::filesystem::create_directory(folder_ / "closed");
  std::filesystem::permissions(folder_ / "closed", std::filesystem::perms(0555));
  const std::string limited = "trap '' XFSZ; ulimit -f 0; exec " SPILLWAY_COMMAND " export run.swt -o out --format ";
  for (const char* format : {"csv", "perfetto", "sqlite"}) {
    SCOPED_TRACE(format);
    const auto said = [&](const std::string& output, const tests::ProcessOptions& options = {}) {
      return spillway({"export", "run.swt", "--format", format, "-o", output}, options).err;
    };
    EXPECT_EQ(said("closed/out", stranger),
              "spillway: closed/out: cannot be written: Permission denied; name a place where you may write\n");
    EXPECT_EQ(said(std::string(300, 'x')),
              "spillway: " + std::string(300, 'x') + ": cannot be written: File name too long; name another place\n");
    EXPECT_EQ(said("no/out"),
              "spillway: no/out: cannot be written: No such file or directory; create the folder no, or "
              "name another place\n");
    tests::ProcessOptions here;
    here.folder = folder_.string();
    const bool sqlite = std::string(format) == "sqlite";  // it keeps the reason to itself, unless the disk is full
    EXPECT_EQ(
        tests::run_process({"sh", "-c", limited + format}, here).err,
        std::string("spillway: out: cannot be written: ") +
            (sqlite ? "disk I/O error; name another place\n" : "File too large; make room, or name another place\n"));
  }
  const auto plan = spillway({"plan", "run.swt", "--device-budget", "48MiB", "-o", "folder"});
  EXPECT_NE(plan.err.find("spillway: folder: cannot be written: is a folder; name a file in it\n"), std::string::npos)
      << plan.err;
  std::filesystem::permissions(folder_ / "run.swt", std::filesystem::perms::none);
  EXPECT_EQ(spillway({"stats", "run.swt"}, stranger).err,
            "spillway: run.swt: cannot be opened: Permission denied; ask its owner to let you read it\n");
}

TEST_F(HostileTraceTest, AFolderThatIsMissingIsToBeCreated) {
  put("run.swt", tests::training_trace());
  for (std::vector<std::string> command : std::vector<std::vector<std::string>>{
           {"plan", "run.swt", "--device-budget", "48MiB"}, {"export", "run.swt", "--format", "csv"}}) {
    command.insert(command.end(), {"-o", "/no/such/out"});
    const auto result = spillway(command);
    EXPECT_EQ(result.exit_code, 1) << command[0];
    EXPECT_NE(result.err.find("; create the folder /no/such, or name another place\n"), std::string::npos)
        << result.err;
  }
}

TEST_F(HostileTraceTest, ACutTraceSaysThatTheDiskMayHaveBeenFull) {
  std::vector<std::byte> cut = tests::training_trace();
  cut.resize(cut.size() - 100);
  put("run.swt", cut);
  EXPECT_NE(spillway({"stats", "run.swt"}).out.find("its disk was full"), std::string::npos);
}

// What a fuzzer found: their checksums are right, and they asked for exabytes.
TEST_F(HostileTraceTest, TheCorpusIsReplayed) {
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(TRACE_CORPUS)) {
    if (!file.path().filename().string().starts_with("impossible_records")) continue;
    ++files;
    for (const std::string command : {"replay", "plan"}) {
      const auto result = spillway({command, file.path().string(), "--device-budget", "48MiB"});
      EXPECT_EQ(result.exit_code, 0) << file.path() << ": " << result.err;
      EXPECT_EQ(command == "replay", result.out.find("impossible record") != std::string::npos) << result.out;
    }
  }
  EXPECT_EQ(files, 4U);
}

}  // namespace
}  // namespace spillway::tools
