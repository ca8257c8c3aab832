// What a policy file may say, and the exact sentence for every kind of mistake in one.
#include "policy/policy_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/policy/policy_file_sentences.hpp"

namespace spillway::policy {
namespace {

using ::testing::ElementsAreArray;

TEST(PolicyFile, AnEmptyOneIsTheDefaults) {
  const PolicyFileReading reading = read_policy_file("# nothing\n", "p.toml");
  EXPECT_TRUE(reading.ok());
  EXPECT_EQ(reading.file, PolicyFile());
}

TEST(PolicyFile, ReadsEverySettingAndEveryKeyOfARule) {
  const PolicyFileReading reading =
      read_policy_file(R"(
[memory]
device_budget = "16GiB"
backing = "managed"
host_budget = 34359738368
window = "25%"
plain_share = "10%"
report = "real"
oom_first = true
[policy]
mode = "arrival"
iteration_lookahead = 2
[telemetry]
cupti = "off"
sample = 1.5
[trace]
path = "spillway.%p.swt"
[log]
level = "debug"

[[rule]]
name = "launches"
match = { kernel = "*adam*", argument = [2, 3], class = ["optimizer", "kv"], stream = [0, 4] }
place = "stream"
read_only = false
prefetch_distance = 12
evict = "last"

[[rule]]
name = "allocations"
match = { size = "64MiB..1GiB", order = "3..8", caller = "libnccl*", device = 1 }
backing = "device"

[[rule]]
name = "open ends"
[rule.match]
size = { min = "2MiB" }
order = 4
)"
                       "[[rule]]\nname = \"last\"\nmatch = { size = \"..1GiB\", argument = 0 }\nplace = \"auto\"\n",
                       "p.toml");
  EXPECT_THAT(sentences(reading),
              ::testing::ElementsAre("p.toml:34:1: rule \"open ends\": does nothing; add one of: place, "
                                     "read_only, prefetch_distance, evict, backing"));
  Settings settings;
  settings.device_budget = SizeOrShare{16_GiB};
  settings.backing = BackingMode::managed;
  settings.host_budget = SizeOrShare{32_GiB};
  settings.window = SizeOrShare{25.0};
  settings.plain_share = SizeOrShare{10.0};
  settings.report = ReportMode::real;
  settings.oom_first = true;
  settings.mode = ModeName::arrival;
  settings.iteration_lookahead = 2;
  settings.cupti = Switch::off;
  settings.telemetry_sample = 1.5;
  settings.trace_path = "spillway.%p.swt";
  settings.log_level = "debug";
  EXPECT_EQ(reading.file.settings, settings);

  ASSERT_EQ(reading.file.rules.size(), 4U);
  Rule launches{.number = 1, .line = 21, .name = "launches", .match = {}, .action = {}};
  launches.match.kernel = "*adam*";
  launches.match.arguments = {2, 3};
  launches.match.classes = {SpanClass::optimizer, SpanClass::kv};
  launches.match.streams = {StreamId{0}, StreamId{4}};
  launches.action = {RulePlace::stream, false, 12, EvictClass::last, std::nullopt};
  EXPECT_EQ(reading.file.rules[0], launches);
  EXPECT_EQ(reading.file.rules[0].line, 21U);
  Rule allocations{.number = 2, .line = 29, .name = "allocations", .match = {}, .action = {}};
  allocations.match.size_least = 64_MiB;
  allocations.match.size_most = 1_GiB;
  allocations.match.order_first = {3};
  allocations.match.order_last = {8};
  allocations.match.caller = "libnccl*";
  allocations.match.devices = {DeviceIndex{1}};
  allocations.action.backing = Backing::device;
  EXPECT_EQ(reading.file.rules[1], allocations);
  RuleMatch open;
  open.size_least = 2_MiB;
  open.order_first = open.order_last = {4};
  EXPECT_EQ(reading.file.rules[2].match, open);
  RuleMatch last;
  last.size_most = 1_GiB;
  last.arguments = {0};
  EXPECT_EQ(reading.file.rules[3].match, last);
}

TEST(PolicyFile, DeviceMayBeManagedAndPlacedOnTheDevice) {
  EXPECT_TRUE(read_policy_file(
                  "[[rule]]\nname='a'\nmatch={size='..1MiB'}\nplace='device'\nbacking='managed'\nevict='last'\n", "p")
                  .ok());
}

TEST(PolicyFile, AllMistakesAreNamedInTheOrderOfTheText) {
  const std::string text = "windw = 1\n[memory]\nwindow = 25%\nbacking = \"vmm\"\n" RULE(
      "{ kernal = \"x\" }", "place = \"host\"") "[polcy]\n";
  EXPECT_THAT(sentences(read_policy_file(text, "p.toml")),
              ::testing::ElementsAre(
                  ::testing::StartsWith("p.toml:1:1: \"windw\""), ::testing::StartsWith("p.toml:3:12: "),
                  ::testing::StartsWith("p.toml:4:11: memory.backing"),
                  ::testing::StartsWith("p.toml:7:11: rule \"r\""), ::testing::StartsWith("p.toml:9:2: \"polcy\"")));
}

TEST(PolicyFile, RefusesMoreRulesThanItCanHold) {
  std::string text;
  for (std::size_t i = 0; i <= kMostRules; ++i) {
    text += "[[rule]]\nname = \"" + std::to_string(i) + "\"\nmatch = { order = " + std::to_string(i + 1) +
            " }\nplace = \"host\"\n";
  }
  const PolicyFileReading reading = read_policy_file(text, "p.toml");
  EXPECT_EQ(reading.file.rules.size(), kMostRules);
  EXPECT_THAT(sentences(reading),
              ::testing::ElementsAre("p.toml:1025:1: rule: is one more than the 256 that a file may hold; join "
                                     "rules, with lists and patterns"));
}

TEST(PolicyFile, RefusesWhatIsNoPolicyFile) {
  EXPECT_THAT(sentences(read_policy_file(std::string(kLongestPolicyFile + 1, ' '), "p.toml")),
              ::testing::ElementsAre("p.toml:1:1: the file is longer than 1 MiB; is this a policy file?"));
  EXPECT_FALSE(read_policy_file(std::string_view("\x7F"
                                                 "ELF\0\x01\xFF\xFE",
                                                 8),
                                "p.toml")
                   .ok());
  EXPECT_FALSE(read_policy_file("a = " + std::string(5'000, '['), "p.toml").ok());
}

// Each part is a table in a table: a hundred thousand of them are no reason to run out of stack.
TEST(PolicyFile, NamesOfManyPartsAreMistakes) {
  std::string parts = "a";
  for (int i = 0; i < 100'000; ++i) parts += ".a";
  for (const std::string& text : {parts + "=1", "[" + parts + "]", "[[" + parts + "]]", "x = { " + parts + " = 1 }",
                                  "x = { y = { " + parts + "=1"}) {
    const PolicyFileReading reading = read_policy_file("[memory]\nwindow = \"25%\"\n" + text + "\n", "p.toml");
    ASSERT_FALSE(reading.ok());
    EXPECT_EQ(reading.mistakes.front().at.line, 3U);
    EXPECT_EQ(reading.mistakes.front().at.column, text.find(parts) + 1) << text.substr(0, 20);
    const std::string sentence = reading.mistakes.front().sentence();
    EXPECT_NE(sentence.find("a name of more than 8 parts between dots"), std::string::npos) << sentence;
    EXPECT_LT(sentence.size(), 500U);
  }
}

TEST(PolicyFile, DotsInTextsAndRemarksAreNoParts) {
  const PolicyFileReading reading = read_policy_file(
      "# a.b.c.d.e.f.g.h.i.j.k\n[trace]\npath = \"a.b.c.d.e.f.g.h.i.j.k\\\".l\" # a.b.c.d.e.f.g.h.i.j.k\n"
      "[[rule]]\nname = '''a.b.c\nd.e.f.g.h.i.j.k.'''\nmatch = { kernel = 'a.b.c.d.e.f.g.h.i.j.k' }\n"
      "place = \"host\"\n",
      "p.toml");
  EXPECT_THAT(sentences(reading), ElementsAreArray(std::vector<std::string>{}));
}

// A mistake above the one and one below it are still found, in order.
TEST(PolicyFile, AMistakeBesideANameOfManyPartsIsFound) {
  const PolicyFileReading reading =
      read_policy_file("[memory]\nwindow = 5x\na.b.c.d.e.f.g.h.i = 1\n[policy]\nmode = \"fast\"\n", "p.toml");
  ASSERT_EQ(reading.mistakes.size(), 3U);
  EXPECT_EQ(reading.mistakes[0].at.line, 2U);
  EXPECT_EQ(reading.mistakes[1].at.line, 3U);
  EXPECT_EQ(reading.mistakes[2].at.line, 5U);
}

}  // namespace
}  // namespace spillway::policy
