// The settings table: what is accepted, and the exact sentence for everything that is not.
#include "policy/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "policy/size_text.hpp"

namespace spillway::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> read_environment(Settings& settings, const std::map<std::string, std::string>& environment) {
  std::vector<std::string> sentences;
  const auto look_up = [&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
  for (const SettingProblem& problem : settings_from_environment(settings, look_up))
    sentences.push_back(problem.sentence());
  return sentences;
}

// A bare number is in bytes, which nobody means who writes so small a one; 0 needs no unit.
TEST(Settings, ASizeWithoutItsUnitIsAskedAboutEverywhere) {
  Settings settings;
  for (const std::string key : {"memory.device_budget", "memory.host_budget", "memory.window", "memory.plain_share"}) {
    const auto problem = set_setting(settings, key, " 16", "here");
    ASSERT_TRUE(problem) << key;
    EXPECT_EQ(problem->sentence(), "here: \"16\" is in bytes, and below 2 MiB; did you mean \"16%\" or \"16MiB\"?");
    EXPECT_TRUE(set_setting(settings, key, "2097151", "here")) << key;
    EXPECT_FALSE(set_setting(settings, key, "2097152", "here")) << key;
  }
  EXPECT_EQ(set_setting(settings, "memory.window", "1000", "here")->remedy, "did you mean \"1000MiB\"?");
  EXPECT_FALSE(set_setting(settings, "memory.host_budget", "0", "here"));
  EXPECT_FALSE(set_setting(settings, "memory.window", "16B", "here"));
  EXPECT_EQ(find_setting("memory.window")->get(settings), "16B");
}

TEST(Settings, DefaultsAreWhatTheTableSays) {
  const Settings settings;
  for (const SettingRow& row : setting_table()) EXPECT_EQ(row.get(settings), row.default_text) << row.key;
}

TEST(Settings, EveryDefaultIsAcceptedAndChangesNothing) {
  for (const SettingRow& row : setting_table()) {
    if (row.default_text.empty()) continue;
    Settings settings;
    EXPECT_FALSE(row.set(settings, row.default_text)) << row.key;
    EXPECT_EQ(settings, Settings()) << row.key;
  }
}

TEST(Settings, NamesAreUnique) {
  std::set<std::string> names;
  for (const SettingRow& row : setting_table()) {
    EXPECT_TRUE(names.insert(row.environment_name()).second) << row.key;
    EXPECT_TRUE(names.insert(row.flag_name()).second) << row.key;
    EXPECT_TRUE(row.sentence.ends_with('.')) << row.key;
  }
  EXPECT_EQ(find_setting("memory.device_budget")->environment_name(), "SPILLWAY_DEVICE_BUDGET");
  EXPECT_EQ(find_setting("memory.device_budget")->flag_name(), "--device-budget");
  EXPECT_EQ(find_setting("trace.path")->environment_name(), "SPILLWAY_TRACE_PATH");
  EXPECT_EQ(find_setting("trace.path")->flag_name(), "--trace");
}

TEST(Settings, EnvironmentSetsEveryField) {
  Settings settings;
  EXPECT_THAT(read_environment(settings, {{"SPILLWAY_DEVICE_BUDGET", "16GiB"},
                                          {"SPILLWAY_BACKING", "managed"},
                                          {"SPILLWAY_HOST_BUDGET", "50%"},
                                          {"SPILLWAY_WINDOW", "4 GiB"},
                                          {"SPILLWAY_PLAIN_SHARE", "12.5%"},
                                          {"SPILLWAY_REPORT", "real"},
                                          {"SPILLWAY_OOM_FIRST", "1"},
                                          {"SPILLWAY_MODE", "arrival"},
                                          {"SPILLWAY_ITERATION_LOOKAHEAD", "3"},
                                          {"SPILLWAY_CUPTI", "off"},
                                          {"SPILLWAY_TELEMETRY_SAMPLE", "0.5%"},
                                          {"SPILLWAY_TRACE_PATH", "a b/%h.%p.%t.%r.swt"},
                                          {"SPILLWAY_LOG_LEVEL", "debug"}}),
              IsEmpty());
  Settings expected;
  expected.device_budget = SizeOrShare{16_GiB};
  expected.backing = BackingMode::managed;
  expected.host_budget = SizeOrShare{50.0};
  expected.window = SizeOrShare{4_GiB};
  expected.plain_share = SizeOrShare{12.5};
  expected.report = ReportMode::real;
  expected.oom_first = true;
  expected.mode = ModeName::arrival;
  expected.iteration_lookahead = 3;
  expected.cupti = Switch::off;
  expected.telemetry_sample = 0.5;
  expected.trace_path = "a b/%h.%p.%t.%r.swt";
  expected.log_level = "debug";
  EXPECT_EQ(settings, expected);
  for (const SettingRow& row : setting_table()) {
    Settings again;
    EXPECT_FALSE(row.set(again, row.get(settings))) << row.key;
    EXPECT_EQ(row.get(again), row.get(settings)) << row.key;
  }
}

TEST(Settings, AllProblemsAreCollectedAndTheRestIsStillSet) {
  Settings settings;
  EXPECT_THAT(
      read_environment(settings,
                       {{"SPILLWAY_DEVICE_BUDGET", "16GX"}, {"SPILLWAY_WINDOW", "30%"}, {"SPILLWAY_MODE", "adptive"}}),
      ElementsAre("SPILLWAY_DEVICE_BUDGET: \"16GX\" is not a size; write a size such as 16GiB, or a share such as 80%",
                  "SPILLWAY_MODE: \"adptive\" is not one of: off, demand, alloc_prefetch, arrival, adaptive; "
                  "did you mean \"adaptive\"?"));
  Settings expected;
  expected.window = SizeOrShare{30.0};
  EXPECT_EQ(settings, expected);
}

struct SettingMistake {
  const char* key;
  const char* text;
  const char* sentence;
};

class BadSetting : public ::testing::TestWithParam<SettingMistake> {};

TEST_P(BadSetting, IsNamedAndLeavesTheDefault) {
  Settings settings;
  const auto problem = set_setting(settings, GetParam().key, GetParam().text, "here");
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->sentence(), GetParam().sentence);
  EXPECT_EQ(settings, Settings());
}

#define SIZE_REMEDY "; write a size such as 16GiB, or a share such as 80%"
INSTANTIATE_TEST_SUITE_P(
    Kinds, BadSetting,
    ::testing::Values(
        SettingMistake{"memory.device_budget", "", "here: the value is empty" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "   ", "here: the value is empty" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "lots", "here: \"lots\" is not a size" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "16 GiB please", "here: \"16 GiB please\" is not a size" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "0x10", "here: \"0x10\" is not a size" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "1e9", "here: \"1e9\" is not a size" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "1.GiB", "here: \"1.GiB\" is not a size" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "-1GiB", "here: \"-1GiB\" is negative" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "-0.5%", "here: \"-0.5%\" is negative" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "nan", "here: \"nan\" is not a number" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "-inf%", "here: \"-inf%\" is not a number" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "120%", "here: \"120%\" is more than 100%" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "100.0001%", "here: \"100.0001%\" is more than 100%" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "99999999999999999999%",
                       "here: \"99999999999999999999%\" is more than 100%" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "18446744073709551616",
                       "here: \"18446744073709551616\" is too large" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "16777216TiB", "here: \"16777216TiB\" is too large" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "1.5", "here: \"1.5\" is not a whole number of bytes" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "16G", "here: \"16G\" is not a size; did you mean \"16GiB\"?"},
        SettingMistake{"memory.device_budget", "1.5 mi", "here: \"1.5 mi\" is not a size; did you mean \"1.5 MiB\"?"},
        SettingMistake{"memory.device_budget", "big", "here: \"big\" is not a size" SIZE_REMEDY},
        SettingMistake{"memory.device_budget", "1",
                       "here: \"1\" is in bytes, and below 2 MiB; did you mean \"1%\" or \"1GiB\"?"},
        SettingMistake{"memory.device_budget", "16",
                       "here: \"16\" is in bytes, and below 2 MiB; did you mean \"16%\" or \"16MiB\"?"},
        SettingMistake{"memory.device_budget", "0%",
                       "here: \"0%\" is below 1%; write a share from 1% to 100%, or a size such as 16GiB"},
        SettingMistake{"memory.backing", "", "here: the value is empty; write one of: auto, managed, device"},
        SettingMistake{"memory.backing", "vmm",
                       "here: \"vmm\" is not one of: auto, managed, device; write one of them"},
        SettingMistake{"memory.backing", "Managed",
                       "here: \"Managed\" is not one of: auto, managed, device; did you mean \"managed\"?"},
        SettingMistake{"memory.oom_first", "2", "here: \"2\" is not one of: true, false; write one of them"},
        SettingMistake{"policy.iteration_lookahead", "", "here: the value is empty; write a whole number from 0 to 16"},
        SettingMistake{"policy.iteration_lookahead", "one",
                       "here: \"one\" is not a number; write a whole number from 0 to 16"},
        SettingMistake{"policy.iteration_lookahead", "2x",
                       "here: \"2x\" is not a number; write a whole number from 0 to 16"},
        SettingMistake{"policy.iteration_lookahead", "1.5",
                       "here: \"1.5\" is not a whole number; write a whole number from 0 to 16"},
        SettingMistake{"policy.iteration_lookahead", "-1",
                       "here: \"-1\" is negative; write a whole number from 0 to 16"},
        SettingMistake{"policy.iteration_lookahead", "17",
                       "here: \"17\" is too large; write a whole number from 0 to 16"},
        SettingMistake{"policy.iteration_lookahead", "4294967297",
                       "here: \"4294967297\" is too large; write a whole number from 0 to 16"},
        SettingMistake{"policy.iteration_lookahead", "99999999999999999999",
                       "here: \"99999999999999999999\" is too large; write a whole number from 0 to 16"},
        SettingMistake{"telemetry.sample", "5 percent",
                       "here: \"5 percent\" is not a share; write a share from 0% to 100%, such as 5%"},
        SettingMistake{"telemetry.sample", "101",
                       "here: \"101\" is more than 100%; write a share from 0% to 100%, such as 5%"},
        SettingMistake{"trace.path", "run.%q.swt",
                       "here: \"run.%q.swt\" has the unknown placeholder \"%q\"; use %p (process), %t (start time), %h "
                       "(host), %r (rank) or %% (a percent sign)"},
        SettingMistake{
            "trace.path", "run%",
            "here: \"run%\" has the unknown placeholder \"%\"; use %p (process), %t (start time), %h (host), %r "
            "(rank) or %% (a percent sign)"},
        SettingMistake{"log.level", "warn\n\"x",
                       "here: \"warn\\x0a\\\"x\" is not one of: off, error, warning, info, debug; write one of them"},
        SettingMistake{"log.level", "warn",
                       "here: \"warn\" is not one of: off, error, warning, info, debug; did you mean \"warning\"?"},
        SettingMistake{"memory.device_bugdet", "1GiB",
                       "here: \"memory.device_bugdet\" is not a setting; did you mean \"memory.device_budget\"?"},
        SettingMistake{"zzz", "1", "here: \"zzz\" is not a setting; see the policy reference for all of them"}));

TEST(Settings, ALongValueIsCutToOneLine) {
  Settings settings;
  const auto problem = set_setting(settings, "policy.mode", std::string(5000, 'x'), "SPILLWAY_MODE");
  ASSERT_TRUE(problem);
  EXPECT_LT(problem->sentence().size(), 300U);
}

TEST(Settings, UnknownEnvironmentNamesAreNamedWithTheNearest) {
  const std::vector<std::string_view> names = {"PATH",
                                               "SPILLWAY_POLICY",
                                               "SPILLWAY_MODE",
                                               "SPILLWAY_DEVICE_BUDGT",
                                               "SPILLWAY_SIMULATED_KERNELS",
                                               "SPILLWAY_BANANA",
                                               "spillway_mode"};
  std::vector<std::string> sentences;
  for (const SettingProblem& problem : unknown_environment_names(names)) sentences.push_back(problem.sentence());
  EXPECT_THAT(
      sentences,
      ElementsAre("SPILLWAY_DEVICE_BUDGT: is not a setting of Spillway; did you mean SPILLWAY_DEVICE_BUDGET?",
                  "SPILLWAY_BANANA: is not a setting of Spillway; unset it; the policy reference lists the names"));
}

TEST(Nearest, FindsTypingMistakesAndRefusesToGuess) {
  const std::vector<std::string_view> known = {"device_budget", "host_budget", "window", "mode"};
  EXPECT_EQ(nearest("device-budget", known), "device_budget");
  EXPECT_EQ(nearest("devcie_budget", known), "device_budget");
  EXPECT_EQ(nearest("MODE", known), "mode");
  EXPECT_EQ(nearest("mdoe", known), "mode");
  EXPECT_EQ(nearest("windows", known), "window");
  EXPECT_EQ(nearest("banana", known), std::nullopt);
  EXPECT_EQ(nearest("", known), std::nullopt);
  EXPECT_EQ(nearest(std::string(100'000, 'a'), known), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
}

TEST(Bytes, AreParsedInBothKindsOfUnits) {
  EXPECT_EQ(parse_bytes("16GiB"), 16_GiB);
  EXPECT_EQ(parse_bytes(" 1.5 GiB "), 1536_MiB);
  EXPECT_EQ(parse_bytes("512mib"), 512_MiB);
  EXPECT_EQ(parse_bytes("4096"), 4_KiB);
  EXPECT_EQ(parse_bytes("4096B"), 4_KiB);
  EXPECT_EQ(parse_bytes("1GB"), Bytes(1'000'000'000));
  EXPECT_EQ(parse_bytes("2TiB"), 2048_GiB);
  EXPECT_EQ(parse_bytes("18446744073709551615"), Bytes(~std::uint64_t{0}));
  for (const char* bad : {"", "GiB", "1GiBs", "1 Gi B", "+1GiB", "1,5GiB", "0.5", "80%", "16777216TiB"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

TEST(Bytes, AreWrittenExactlyAndShownRounded) {
  EXPECT_EQ(format_bytes(1536_MiB), "1.5 GiB");
  EXPECT_EQ(format_bytes(16_GiB), "16 GiB");
  EXPECT_EQ(format_bytes(1_GiB - Bytes(1)), "1 GiB");
  EXPECT_EQ(format_bytes(Bytes(1000)), "1 KiB");
  EXPECT_EQ(format_bytes(Bytes(12)), "12 B");
  EXPECT_EQ(format_bytes(Bytes()), "0 B");
  EXPECT_EQ(write_bytes(1536_MiB), "1536MiB");
  EXPECT_EQ(write_bytes(Bytes(16)), "16B");
  for (const std::uint64_t count :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1025}, std::uint64_t{3} << 41U, ~std::uint64_t{0}}) {
    EXPECT_EQ(parse_bytes(write_bytes(Bytes(count))), Bytes(count));
  }
}

TEST(SizeOrShare, IsTakenOfAWhole) {
  EXPECT_EQ(SizeOrShare{3_GiB}.of(1_GiB), 3_GiB);
  EXPECT_EQ(SizeOrShare{25.0}.of(1_GiB), 256_MiB);
  EXPECT_EQ(SizeOrShare{100.0}.of(Bytes(~std::uint64_t{0})), Bytes(~std::uint64_t{0}));
  EXPECT_EQ(SizeOrShare{0.0}.of(1_GiB), Bytes());
}

}  // namespace
}  // namespace spillway::policy
