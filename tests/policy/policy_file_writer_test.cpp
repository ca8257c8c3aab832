// What the writer writes, the reader gives back: the same settings and rules, for anything that could have been read.
#include "policy/policy_file_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

namespace spillway::policy {
namespace {

using ::testing::HasSubstr;

class RandomFile {
 public:
  explicit RandomFile(std::mt19937::result_type seed) : random_(seed) {}

  PolicyFile make() {
    PolicyFile file;
    settings(file.settings);
    const std::size_t rules = below(8);
    for (std::size_t i = 0; i < rules; ++i) file.rules.push_back(rule(static_cast<std::uint16_t>(i + 1)));
    return file;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool chance() { return below(2) == 0; }
  SizeOrShare size_or_share() {
    if (chance()) return SizeOrShare{Bytes(kChunk.count() + (std::uint64_t{random_()} << below(20)))};
    return SizeOrShare{1.0 + static_cast<double>(below(98'000)) / 1'000.0};
  }
  std::string word() {
    constexpr std::array kPieces = {"a", "*",        "?",  "[x-z]", "\\\\", " ", "\"",
                                    "#", "\xC3\xBC", "\t", "\n",    "\x01", "'", "="};
    std::string out = "w";
    for (std::size_t n = below(6); n > 0; --n) out += kPieces[below(kPieces.size())];
    return out;
  }
  void settings(Settings& s) {
    if (chance()) s.device_budget = size_or_share();
    if (chance()) s.window = size_or_share();
    if (chance()) s.host_budget = size_or_share();
    if (chance()) s.plain_share = SizeOrShare{Bytes()};
    s.backing = static_cast<BackingMode>(below(3));
    s.report = static_cast<ReportMode>(below(2));
    s.oom_first = chance();
    s.mode = static_cast<ModeName>(below(5));
    s.iteration_lookahead = static_cast<std::uint32_t>(below(17));
    s.cupti = static_cast<Switch>(below(2));
    s.events = static_cast<Switch>(below(2));
    s.telemetry_sample = static_cast<double>(below(101)) / 3.0 * 2.9;
    if (chance()) s.trace_path = word() + "%p";
    if (chance()) s.log_level = "debug";
  }
  Rule rule(std::uint16_t number) {
    Rule rule;
    rule.number = number;
    rule.name = word() + std::to_string(number);
    RuleMatch& match = rule.match;
    // A number of its own keeps the rule from being the double of another.
    match.order_first = {number};
    if (chance()) match.order_last = {static_cast<std::uint32_t>(number + below(3))};
    if (chance()) match.size_least = Bytes(random_());
    if (chance()) match.size_most = match.size_least + Bytes(below(2) * random_());
    if (chance()) match.caller = word();
    if (chance()) match.devices = {DeviceIndex{3}};
    if (chance()) match.streams = {StreamId{0}, StreamId{7}};
    if (chance()) {
      rule.action.backing = static_cast<Backing>(below(2));
      if (*rule.action.backing == Backing::device) return rule;
    } else {
      if (chance()) match.kernel = word();
      if (chance()) match.arguments = {9, 0, kLastArgument};
      if (chance()) match.classes = {static_cast<SpanClass>(below(7))};
    }
    rule.action.place = static_cast<RulePlace>(below(4));
    if (rule.action.place == RulePlace::host) return rule;
    if (chance()) rule.action.read_only = chance();
    if (rule.action.place == RulePlace::device) return rule;
    if (chance()) rule.action.prefetch_distance = static_cast<std::uint32_t>(1 + below(1024));
    if (chance()) rule.action.evict = static_cast<EvictClass>(below(3));
    return rule;
  }

  std::mt19937 random_;
};

TEST(PolicyFileWriter, WhatItWritesIsReadBackEqual) {
  for (std::mt19937::result_type seed = 1; seed <= 2'000; ++seed) {
    const PolicyFile file = RandomFile(seed).make();
    const std::vector<std::string> why = {"moved out\nbecause\x01 of \"this\"", ""};
    const std::string text = write_policy_file(file, {"A plan.\nMade for a test.", why});
    const PolicyFileReading reading = read_policy_file(text, "p.toml");
    ASSERT_TRUE(reading.ok()) << reading.mistakes.front().sentence() << "\n" << text;
    ASSERT_EQ(reading.file, file) << "seed " << seed << "\n" << text;
  }
}

TEST(PolicyFileWriter, ARuleForEverythingStaysOne) {
  PolicyFile file;
  file.rules.push_back({.number = 1, .line = 0, .name = "all", .match = {}, .action = {}});
  file.rules[0].action.place = RulePlace::device;
  const std::string text = write_policy_file(file, {});
  EXPECT_THAT(text, HasSubstr("match = { size = \"0..\" }\n"));
  EXPECT_EQ(read_policy_file(text, "p.toml").file, file);
  EXPECT_TRUE(read_policy_file(text, "p.toml").ok());
}

TEST(PolicyFileWriter, DefaultsStandThereAsComments) {
  PolicyFile file;
  file.settings.window = SizeOrShare{25.0};
  const std::string text = write_policy_file(file, {"Title", {}});
  EXPECT_THAT(text, ::testing::StartsWith("# Title\n\n[memory]\n"));
  EXPECT_THAT(text, HasSubstr("\n# backing = \"auto\"\n"));
  EXPECT_THAT(text, HasSubstr("\nwindow = \"25%\"\n"));
  EXPECT_THAT(text, HasSubstr("\n# device_budget = \"80%\"\n"));
}

TEST(PolicyFileWriter, UncommentedExamplesAreReadable) {
  std::string text = write_policy_file({}, {});
  std::string uncommented;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    const bool setting = line.starts_with("# ") && line.find(" = ") != std::string::npos;
    uncommented += (setting ? line.substr(2) : line) + "\n";
    at = end + 1;
  }
  const PolicyFileReading reading = read_policy_file(uncommented, "p.toml");
  EXPECT_TRUE(reading.ok()) << reading.mistakes.front().sentence();
}

}  // namespace
}  // namespace spillway::policy
