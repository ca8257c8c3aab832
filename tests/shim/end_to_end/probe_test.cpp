// `spillway probe` on the simulated device, whose costs are known (costs.hpp); and that runs and replays go by its
// file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/shim/end_to_end/simulated_run.hpp"

namespace spillway::tests {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class ProbeTest : public ::testing::Test {
 protected:
  ProcessResult probe(const std::vector<std::string>& flags, std::map<std::string, std::string> environment = {}) {
    return run_on_simulated("probe", flags, with_cache(std::move(environment)));
  }
  std::map<std::string, std::string> with_cache(std::map<std::string, std::string> environment = {}) const {
    environment.emplace("XDG_CACHE_HOME", scratch_.path().string());
    return environment;
  }
  fs::path file() const {
    return scratch_.path() / "spillway" / "costs-5370696c6c77617953696d4465763000.toml";  // "SpillwaySimDev0" and 0
  }
  void change_file(const std::string& what, const std::string& by) const {
    std::ifstream in(file());
    std::string text{std::istreambuf_iterator<char>(in), {}};
    ASSERT_NE(text.find(what), std::string::npos) << text;
    std::ofstream(file()) << text.replace(text.find(what), what.size(), by);
  }
  // A program that spills, traced.
  SimulatedResult train(unsigned user = 0) const {
    SimulatedRun run;
    run.user = user;
    run.command = {TRAIN_ADAM, "--layers", "3", "--width", "1024", "--batch", "16", "--steps", "2", "--verify", "0"};
    run.mode = "adaptive";
    run.budget = "24MiB";
    run.memory = "64MiB";
    run.traced = true;
    run.environment = with_cache();
    return run_simulated(run);
  }
  nlohmann::json replayed(const SimulatedResult& run) const {
    const auto replay =
        run_process({SPILLWAY_COMMAND, "replay", "--json", run.traces().at(0).string()}, in_environment(with_cache()));
    EXPECT_EQ(replay.exit_code, 0) << replay.err;
    return nlohmann::json::parse(replay.out, nullptr, false);
  }

  Scratch scratch_;
};

TEST_F(ProbeTest, MeasuresTheVirtualClockAndSaysSo) {
  const auto result = probe({"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_TRUE(json["simulated"]);
  EXPECT_TRUE(json["kept_in"].is_null());
  EXPECT_FALSE(fs::exists(file()));
  const auto& costs = json["costs"];
  const auto near = [](double value, double expected) { return value > expected * 0.8 && value < expected * 1.2; };
  EXPECT_PRED2(near, json["figures"]["copy_in"], 55e9);
  EXPECT_PRED2(near, json["figures"]["copy_out"], 55e9);
  EXPECT_PRED2(near, costs["link_in"], 50e9);
  EXPECT_PRED2(near, costs["link_out"], 50e9);
  EXPECT_PRED2(near, costs["move_in"], 50e9);
  EXPECT_PRED2(near, costs["move_out"], 12e9);
  EXPECT_PRED2(near, costs["move_out_first"], 5e9);
  EXPECT_PRED2(near, costs["fault_in"], 8e9);
  EXPECT_PRED2(near, costs["fault_first_touch"], 17e9);
  EXPECT_PRED2(near, costs["move_call"], 73e-6);
  EXPECT_PRED2(near, json["figures"]["map_chunk"], 35e-6);
  const auto text = probe({});
  EXPECT_THAT(text.out, HasSubstr("Simulated device: these figures are its virtual clock's"));
  EXPECT_THAT(text.out, EndsWith("\nNot kept: these costs are a model's; --save keeps them.\n"));
  EXPECT_THAT(probe({"--no-save"}).out, EndsWith("\nNot kept, as --no-save says.\n"));
}

TEST_F(ProbeTest, TakesAQuarterOfTheCardAndGivesItBack) {
  const fs::path report = scratch_.path() / "report.json";
  const auto result =
      probe({"--json"}, {{"SPILLWAY_SIMULATED_REPORT", report.string()}, {"SPILLWAY_SIMULATED_MEMORY", "192MiB"}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::ifstream in(report);
  const auto json = nlohmann::json::parse(in);
  EXPECT_EQ(json["driver_evictions"], 0);
  EXPECT_TRUE(json["leaks"].empty()) << json["leaks"];
  const std::uint64_t peak = json["devices"][0]["resident_peak_bytes"];
  EXPECT_GT(peak, 32 * kMiB);
  EXPECT_LE(peak, 192 / 4 * kMiB + 4 * kMiB);  // and the context
}

TEST_F(ProbeTest, RefusesInOneLine) {
  const auto one_line = [](const ProcessResult& result, const char* start) {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith(start));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  one_line(probe({}, {{"SPILLWAY_SIMULATED_MEMORY", "32MiB"}}),
           "spillway: device 0: the probe needs 64 MiB of free device memory, of which it uses a quarter, and 30 MiB "
           "are free: "
           "raise SPILLWAY_SIMULATED_MEMORY");
  one_line(probe({"--device", "1"}), "spillway: device 1: there is no device 1: the driver shows 1");
  one_line(probe({}, {{"SPILLWAY_SIMULATED_NO_MANAGED", "1"}}),
           "spillway: device 0: Spillway simulated device 0 has no concurrent managed access");
  one_line(probe({}, {{"SPILLWAY_SIMULATED_FAULTS", "cuMemAllocManaged:4:2"}}),
           "spillway: device 0: cuMemAllocManaged says CUDA_ERROR_OUT_OF_MEMORY");
  one_line(probe({}, {{"SPILLWAY_SIMULATED_FAULTS", "cuMemPrefetchAsync:3:999"}}),
           "spillway: device 0: cuMemPrefetchAsync says CUDA_ERROR_UNKNOWN");
  // A file where the folder should be: the figures are shown all the same.
  const auto unkept = probe({"--save"}, {{"XDG_CACHE_HOME", "/dev/null"}});
  EXPECT_EQ(unkept.exit_code, 1);
  EXPECT_THAT(unkept.out, HasSubstr("link_in"));
  EXPECT_THAT(unkept.err, HasSubstr("/dev/null/spillway/costs-"));
}

TEST_F(ProbeTest, RunsAndReplaysGoByWhatWasKept) {
  EXPECT_EQ(replayed(train())["costs"], "built in");
  const auto kept = probe({"--save"});
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("Kept in " + file().string()));
  const SimulatedResult run = train();
  ASSERT_EQ(run.process.exit_code, 0) << run;
  EXPECT_THAT(run.process.err, Not(HasSubstr("ignored")));
  EXPECT_EQ(replayed(run)["costs"], "as probed on the machine that recorded");
}

TEST_F(ProbeTest, AnOlderTraceIsPricedByTheFileOfItsDevice) {
  const SimulatedResult run = train();
  const double before = replayed(run)["replays"][0]["whole_run"]["seconds"];
  ASSERT_EQ(probe({"--save"}).exit_code, 0);
  change_file("link_in = ", "link_in = 1e9 # ");
  const auto json = replayed(run);
  EXPECT_EQ(json["costs"], file().string());
  EXPECT_GT(json["replays"][0]["whole_run"]["seconds"].get<double>(), before);
}

TEST_F(ProbeTest, AFileThatMayNotBeReadIsNamedWithTheRemedy) {
  constexpr unsigned kNobody = 65534;
  ASSERT_EQ(probe({"--save"}).exit_code, 0);
  fs::permissions(file(), fs::perms::none);
  const SimulatedResult run = train(kNobody);
  EXPECT_EQ(run.process.exit_code, 0) << run;
  EXPECT_THAT(run.process.err, HasSubstr(file().string() +
                                         " is ignored: it cannot be read (Permission denied): let this user read it, "
                                         "or name another folder by XDG_CACHE_HOME; going on with the built-in costs"));
  // Nobody has probed for a user who cannot even look there.
  fs::permissions(file().parent_path(), fs::perms::none);
  EXPECT_THAT(train(kNobody).process.err, Not(HasSubstr("ignored")));
  fs::permissions(file().parent_path(), fs::perms::owner_all);
}

TEST_F(ProbeTest, ABadOrForeignFileIsIgnoredInOneLine) {
  ASSERT_EQ(probe({"--save"}).exit_code, 0);
  const auto expect_ignored = [&](const char* why) {
    const SimulatedResult run = train();
    EXPECT_EQ(run.process.exit_code, 0) << run;
    const std::string& err = run.process.err;
    EXPECT_THAT(err, HasSubstr(file().string() + " is ignored: "));
    EXPECT_THAT(err, HasSubstr(why));
    EXPECT_EQ(err.find("ignored"), err.rfind("ignored")) << err;
    EXPECT_EQ(replayed(run)["costs"], "built in");
  };
  change_file("driver = \"13.0\"", "driver = \"12.1\"");
  expect_ignored("measured with driver \"12.1\"");
  change_file("uuid = \"53", "uuid = \"54");
  expect_ignored("it is of another device");
  std::ofstream(file()) << "\x01\xff{";
  expect_ignored("line 1");
  std::ofstream(file()) << std::string(100'000, '#');
  expect_ignored("longer than any");
  fs::remove(file());
  fs::create_directory(file());
  expect_ignored("no regular file");
}

}  // namespace
}  // namespace spillway::tests
