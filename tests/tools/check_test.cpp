// `spillway check`: what rules would match in a run told by hand, and what is printed about a file.
#include "tools/check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace spillway::tools {
namespace {

using namespace policy;
using testing::HasSubstr;
using testing::Not;

// A small training step: two weights, one pair of optimizer states, a buffer of a library; three kernels.
class RecordedRun {
 public:
  explicit RecordedRun(std::vector<Rule> rules) : coverage_(std::move(rules)) {
    event(CallerSeen{{1}, "/usr/lib/libtorch_cuda.so"});
    event(CallerSeen{{2}, "/usr/lib/libnccl.so.2"});
    event(FunctionSeen{{1}, "_Z5scaleIfEvPT_i"});
    event(FunctionSeen{{2}, "fused_adam_kernel"});
    allocate(1, 64_MiB, 1, 0x1000'0000);
    allocate(2, 32_MiB, 1, 0x8000'0000);
    allocate(3, 16_MiB, 2, 0xF000'0000);
    event(LaunchShapeSeen{{1}, {1}, 1024, {{0, {0x1000'0000}}}});
    event(LaunchShapeSeen{{2}, {2}, 1024, {{0, {0x1000'0000}}, {2, {0x8000'0000}}, {3, {0x8000'0000 + 4096}}}});
  }
  void allocate(std::uint32_t id, Bytes bytes, std::uint32_t caller, std::uint64_t address) {
    event(AllocationRequested{{id}, {0}, bytes, AllocationKind::linear, {caller}, {}, false});
    event(AllocationSettled{{id}, {address}, bytes, Backing::managed, {}});
  }
  void launch(std::uint32_t shape, std::uint32_t stream = 0) { event(Launched{{shape}, {stream}}); }
  void event(EventBody body) { coverage_.see(Event{{}, std::move(body)}); }
  void decision(Decision decision) { coverage_.see(decision); }
  [[nodiscard]] CoverageReport report() const { return coverage_.report(); }

 private:
  RuleCoverage coverage_;
};

std::vector<Rule> rules(const std::string& text) {
  const PolicyFileReading reading = read_policy_file(text, "p.toml");
  for (const PolicyMistake& mistake : reading.mistakes) ADD_FAILURE() << mistake.sentence();
  return reading.file.rules;
}

std::string rule(const std::string& name, const std::string& match, const std::string& action) {
  return "[[rule]]\nname = \"" + name + "\"\nmatch = { " + match + " }\n" + action + "\n";
}

const std::string kPlaces = "place = \"host\"";

TEST(RuleCoverage, CountsAllocationsBytesAndLaunchesOfEachRule) {
  RecordedRun run(rules(rule("library", "caller = \"libnccl*\"", "backing = \"device\"") +
                        rule("states", "kernel = \"*adam*\", argument = [2, 3]", kPlaces) +
                        rule("scale", "kernel = \"scale\"", kPlaces)));
  for (int i = 0; i < 5; ++i) run.launch(1);
  for (int i = 0; i < 3; ++i) run.launch(2);
  const CoverageReport report = run.report();
  EXPECT_EQ(report.allocations, 3U);
  EXPECT_EQ(report.bytes, 112_MiB);
  EXPECT_EQ(report.launches, 8U);
  EXPECT_EQ(report.rules[0].allocations, 1U);
  EXPECT_EQ(report.rules[0].bytes, 16_MiB);
  EXPECT_EQ(report.rules[0].launches, 0U);
  EXPECT_EQ(report.rules[1].allocations, 1U);
  EXPECT_EQ(report.rules[1].bytes, 32_MiB);
  EXPECT_EQ(report.rules[1].launches, 3U);  // two of its pointers a launch count once
  EXPECT_EQ(report.rules[2].bytes, 64_MiB);
  EXPECT_EQ(report.rules[2].launches, 5U);
  EXPECT_EQ(report.no_rule.allocations, 0U);
  EXPECT_FALSE(report.names_classes);
}

TEST(RuleCoverage, TheFirstMatchTakesItAndTheReportSaysFromWhom) {
  RecordedRun run(rules(rule("all", "size = \"0..\"", "evict = \"first\"") +
                        rule("states", "kernel = \"*adam*\"", kPlaces) +
                        rule("nothing", "kernel = \"gemm\"", kPlaces)));
  run.launch(2);
  const CoverageReport report = run.report();
  EXPECT_EQ(report.rules[0].allocations, 3U);
  EXPECT_EQ(report.rules[0].launches, 1U);
  EXPECT_TRUE(report.rules[1].dead());
  EXPECT_EQ(report.rules[1].lost_to, 1U);
  EXPECT_TRUE(report.rules[2].dead());
  EXPECT_EQ(report.rules[2].lost_to, 0U);
}

TEST(RuleCoverage, FollowsMemoryThatIsFreedAndUsedAgain) {
  RecordedRun run(rules(rule("big", "kernel = \"scale\", size = \"100MiB..\"", kPlaces)));
  run.launch(1);
  run.event(Freed{{1}, {}});
  run.launch(1);  // its pointer names nothing now
  run.allocate(4, 128_MiB, 1, 0x1000'0000);
  run.launch(1);
  EXPECT_EQ(run.report().rules[0].launches, 1U);
  EXPECT_EQ(run.report().rules[0].allocations, 1U);
  EXPECT_EQ(run.report().no_rule.allocations, 3U);
}

TEST(RuleCoverage, AFreeThatFailedAndAnAllocationThatFailedChangeNothing) {
  RecordedRun run(rules(rule("scale", "kernel = \"scale\"", kPlaces)));
  run.event(Freed{{1}, {700}});
  run.event(AllocationRequested{{9}, {0}, 1_GiB, AllocationKind::linear, {1}, {}, false});
  run.event(AllocationSettled{{9}, {0x1000'0000}, 1_GiB, Backing::device, {2}});
  run.launch(1);
  EXPECT_EQ(run.report().rules[0].bytes, 64_MiB);
}

TEST(RuleCoverage, GraphsCountOnceALaunchWithAllTheirKernels) {
  RecordedRun run(
      rules(rule("scale", "kernel = \"scale\"", kPlaces) + rule("adam", "kernel = \"*adam*\", stream = 7", kPlaces)));
  run.event(GraphSeen{{1}, {{1}, {1}, {2}}});
  run.event(GraphLaunched{{1}, {7}});
  run.event(GraphLaunched{{1}, {8}});
  EXPECT_EQ(run.report().launches, 2U);
  EXPECT_EQ(run.report().rules[0].launches, 2U);
  EXPECT_EQ(run.report().rules[1].launches, 1U);
}

TEST(RuleCoverage, ClassesComeFromTheTracesDecisions) {
  RecordedRun run(rules(rule("states", "class = \"optimizer\"", kPlaces)));
  run.launch(2);
  EXPECT_FALSE(run.report().names_classes);
  EXPECT_TRUE(run.report().rules[0].dead());
  Decision decision;
  decision.cause.span_class = static_cast<std::uint16_t>(SpanClass::optimizer);
  decision.body = MoveRange{{2}, Bytes(), 2_MiB, Placement::host, Urgency::background, {}, {}};
  run.decision(decision);
  run.launch(2);
  EXPECT_TRUE(run.report().names_classes);
  EXPECT_EQ(run.report().rules[0].launches, 1U);
  EXPECT_EQ(run.report().rules[0].bytes, 32_MiB);
}

TEST(RuleCoverage, ImpossibleEventsAreIgnored) {
  RecordedRun run(rules(rule("scale", "kernel = \"scale\"", kPlaces)));
  run.launch(77);
  run.event(GraphLaunched{{5}, {0}});
  run.event(Freed{{88}, {}});
  run.event(AllocationSettled{{99}, {1}, 1_MiB, Backing::device, {}});
  EXPECT_EQ(run.report().rules[0].launches, 0U);
  EXPECT_EQ(run.report().launches, 2U);
}

PolicyFileReading read(const std::string& text) { return read_policy_file(text, "p.toml"); }

TEST(Check, NamesEveryMistakeAndCountsThem) {
  EXPECT_EQ(mistakes_text(read("[memory]\nwindow = \"x\"\nbacking = \"y\"\n"), "p.toml"),
            "p.toml:2:10: memory.window: \"x\" is not a size; write a size such as 16GiB, or a share such as 80%\n"
            "p.toml:3:11: memory.backing: \"y\" is not one of: auto, managed, device; write one of them\n"
            "p.toml: 2 mistakes\n");
}

TEST(Check, SaysWhatAFileHoldsWithoutATrace) {
  EXPECT_EQ(check_text(read("[memory]\nwindow = \"1%\"\n" + rule("r", "kernel = \"x\"", kPlaces)), "p.toml", {}),
            "p.toml: no mistakes; 1 setting changed, 1 rule\n");
}

TEST(Check, ShowsWhatEachRuleWouldMatchAndWhichAreDead) {
  const PolicyFileReading reading =
      read(rule("library", "caller = \"libnccl*\"", "backing = \"device\"") +
           rule("states", "kernel = \"*adam*\"", kPlaces) + rule("adam again", "kernel = \"fused*\"", kPlaces) +
           rule("no such kernel", "kernel = \"gemm\"", kPlaces) + rule("by class", "class = \"kv\"", kPlaces));
  RecordedRun run(reading.file.rules);
  run.launch(2);
  EXPECT_EQ(
      check_text(reading, "p.toml", CheckedTrace{"run.swt", "whole", run.report()}),
      "p.toml: no mistakes; 0 settings changed, 5 rules\n"
      "\n"
      "run.swt (whole): 3 allocations of 112 MiB, 1 launch\n"
      "\n"
      "  rule            line  allocations   bytes  launches\n"
      "  library            1            1  16 MiB         0\n"
      "  states             5            2  96 MiB         1\n"
      "  adam again         9            0     0 B         0\n"
      "  no such kernel    13            0     0 B         0\n"
      "  by class          17            0     0 B         0\n"
      "  no rule                         0     0 B\n"
      "\n"
      "rule \"adam again\" (line 9) is dead here: all that it would match goes to rule \"states\", which comes first\n"
      "rule \"no such kernel\" (line 13) is dead here: nothing in this trace meets its conditions; a pattern matches "
      "the "
      "whole name of a kernel: perhaps \"*gemm*\"\n"
      "rule \"by class\" (line 17) asks for a class, and this trace names none: to judge it, record a run in "
      "mode adaptive that spills and repeats (a smaller --device-budget, more steps)\n");
}

TEST(Check, SmallMemoryIsSaidToStayWhereItIs) {
  const PolicyFileReading reading = read(rule("all", "size = \"0..\"", kPlaces));
  RecordedRun run(reading.file.rules);
  const auto text = [&] { return check_text(reading, "p.toml", CheckedTrace{"run.swt", "whole", run.report()}); };
  EXPECT_THAT(text(), Not(HasSubstr("changes nothing")));
  run.allocate(4, 4_KiB, 1, 0x2000'0000'0000);
  run.allocate(5, 2_MiB, 1, 0x3000'0000'0000);
  EXPECT_THAT(text(), HasSubstr("stays plain device memory: 1 allocation of those with a rule, 4 KiB in all"));
  EXPECT_EQ(run.report().small.allocations, 1U);
}

TEST(Check, AnAllocationOfSeveralRulesIsSaidToCountInEach) {
  const PolicyFileReading reading =
      read(rule("adam", "kernel = \"*adam*\"", kPlaces) + rule("scale", "kernel = \"scale\"", kPlaces));
  RecordedRun run(reading.file.rules);
  const auto text = [&] { return check_text(reading, "p.toml", CheckedTrace{"run.swt", "whole", run.report()}); };
  run.launch(2);
  EXPECT_THAT(text(), Not(HasSubstr("counts in every rule")));
  run.launch(1);
  run.launch(1);
  EXPECT_THAT(text(), HasSubstr("counts in every rule that decides it for some kernel; more than one does for 1 "
                                "allocation\n"));
  EXPECT_EQ(run.report().shared, 1U);
}

TEST(Check, CountsOfRulesOnClassesAreSaidToBeTheLeast) {
  const PolicyFileReading reading = read(rule("states", "class = \"optimizer\"", kPlaces));
  CoverageReport coverage;
  coverage.rules.resize(1);
  EXPECT_THAT(check_text(reading, "p.toml", CheckedTrace{"run.swt", "whole", coverage}), Not(HasSubstr("note:")));
  coverage.names_classes = true;
  EXPECT_THAT(check_text(reading, "p.toml", CheckedTrace{"run.swt", "whole", coverage}),
              HasSubstr("note: a trace names the class of memory only where the run moved it"));
}

// Of memory that the run left where it was no trace has the class.
TEST(Check, ARuleOnAClassThatATraceNamesForNothingIsNotDead) {
  const PolicyFileReading reading = read(rule("states", "class = \"optimizer\"", kPlaces) +
                                         rule("too large", "class = \"optimizer\", size = \"1GiB\"", kPlaces));
  RecordedRun run(reading.file.rules);
  Decision decision;
  decision.cause.span_class = static_cast<std::uint16_t>(SpanClass::weights);
  decision.body = MoveRange{{1}, Bytes(), 2_MiB, Placement::host, Urgency::background, {}, {}};
  run.decision(decision);
  run.launch(1);
  const CheckedTrace trace{"run.swt", "whole", run.report()};
  const std::string text = check_text(reading, "p.toml", trace);
  EXPECT_THAT(text, HasSubstr("rule \"states\" (line 1) asks for a class, and this trace names none for what it could "
                              "match: to judge it, run under this file and see `spillway stats --by rule`\n"));
  EXPECT_THAT(text,
              HasSubstr("rule \"too large\" (line 5) is dead here: nothing in this trace meets its conditions\n"));
  const auto json = nlohmann::json::parse(check_json(reading, "p.toml", trace));
  EXPECT_EQ(json["rules"][0]["verdict"], "unjudged");
  EXPECT_EQ(json["rules"][1]["verdict"], "dead");
}

TEST(Check, JsonHoldsTheSame) {
  const PolicyFileReading reading = read(rule("states \xFF", "kernel = \"*adam*\"", kPlaces));
  const PolicyFileReading good =
      read(rule("states", "kernel = \"*adam*\"", kPlaces) + rule("gemm", "kernel = \"gemm\"", kPlaces));
  RecordedRun run(good.file.rules);
  run.launch(2);
  const auto json = nlohmann::json::parse(check_json(good, "p.toml", CheckedTrace{"run.swt", "whole", run.report()}));
  EXPECT_TRUE(json["ok"]);
  EXPECT_EQ(json["settings"]["policy.mode"], "adaptive");
  EXPECT_EQ(json["rules"][0]["bytes"], (96_MiB).count());
  EXPECT_EQ(json["rules"][0]["verdict"], "used");
  EXPECT_EQ(json["rules"][1]["verdict"], "dead");
  EXPECT_EQ(json["trace"]["launches"], 1);
  const auto bad = nlohmann::json::parse(check_json(reading, "p.toml", {}));
  EXPECT_FALSE(bad["ok"]);
  EXPECT_EQ(bad["mistakes"][0]["line"], 2);
  EXPECT_THAT(bad["mistakes"][0]["sentence"].get<std::string>(), HasSubstr("is not TOML"));
}

TEST(Check, ARuleThatAnEarlierOneCoversIsNoted) {
  const auto said = [](const std::string& first, const std::string& second) {
    return check_text(read(rule("wide", first, kPlaces) + rule("narrow", second, kPlaces)), "p.toml", {});
  };
  EXPECT_THAT(said("size = \"2MiB..\"", "size = \"4MiB\""),
              HasSubstr("note: rule \"narrow\" (line 5) never acts: rule \"wide\" (line 1) comes first and matches all "
                        "that it matches; put the narrower rule first\n"));
  EXPECT_THAT(said("size = \"2MiB..\"", "kernel = \"*adam*\", size = \"4MiB\", argument = 1"), HasSubstr("never acts"));
  EXPECT_THAT(said("argument = [1, 2]", "kernel = \"k\", argument = 2"), HasSubstr("never acts"));
  EXPECT_THAT(said("size = \"2MiB..\", order = \"..8\"", "size = \"4MiB\", order = \"3..8\""), HasSubstr("never acts"));
  EXPECT_THAT(said("kernel = \"*adam*\"", "kernel = \"*adam*\", size = \"4MiB\""), HasSubstr("never acts"));
  EXPECT_THAT(said("kernel = \"*\"", "kernel = \"*adam*\""), HasSubstr("never acts"));
  for (const auto& [first, second] : std::vector<std::pair<std::string, std::string>>{
           {"size = \"4MiB..\"", "size = \"2MiB..\""},
           {"size = \"2MiB..\", order = \"..8\"", "size = \"4MiB\", order = \"3..9\""},
           {"kernel = \"*adam*\"", "size = \"4MiB\""},
           {"argument = [1, 2]", "argument = [2, 3]"},
           {"argument = [1, 2]", "size = \"4MiB\""},
           {"device = 0", "size = \"4MiB\""},
           {"size = \"2MiB..4MiB\"", "size = \"2MiB..\""},
           {"order = \"3..8\"", "order = \"1..8\""},
           {"kernel = \"*\"", "size = \"4MiB\""},
           {"class = \"weights\"", "class = \"optimizer\""},
           {"stream = 1", "stream = 2"},
           {"caller = \"a*\"", "caller = \"b*\""},
           {"kernel = \"a*\"", "kernel = \"b*\""}})
    EXPECT_THAT(said(first, second), Not(HasSubstr("never acts"))) << first << " before " << second;
}

TEST(Check, SettingsThatContradictRulesOrEachOtherAreNoted) {
  const std::string host = rule("states", "size = \"4MiB..\"", kPlaces);
  const auto said = [](const std::string& text) { return check_text(read(text), "p.toml", {}); };
  const std::string stream = rule("states", "size = \"4MiB..\"", "place = \"stream\"");
  EXPECT_THAT(said("[policy]\nmode = \"off\"\n" + host), HasSubstr("note: policy.mode = \"off\" acts on no rule"));
  EXPECT_THAT(said("[policy]\nmode = \"off\"\n" + stream), Not(HasSubstr("only mode adaptive"))) << "once is enough";
  EXPECT_THAT(said("[policy]\nmode = \"off\"\n"), Not(HasSubstr("note"))) << "there is no rule";
  EXPECT_THAT(said("[memory]\nbacking = \"device\"\n" + stream),
              HasSubstr("place = \"stream\" has no effect: memory.backing = \"device\""));
  EXPECT_THAT(said("[memory]\nbacking = \"device\"\n" + host),
              HasSubstr("place = \"host\" has no effect: memory.backing = \"device\""));
  EXPECT_THAT(said("[memory]\nbacking = \"device\"\n" +
                   rule("states", "size = \"4MiB..\"", "place = \"host\"\nbacking = \"managed\"")),
              Not(HasSubstr("note")));
  for (const std::string none : {"\"0B\"", "\"0%\"", "0"})
    EXPECT_THAT(said("[memory]\nhost_budget = " + none + "\n" + host),
                HasSubstr("place = \"host\" has no effect: memory.host_budget is 0"));
  EXPECT_THAT(said("[memory]\ndevice_budget = \"4GiB\"\nwindow = \"8GiB\"\n"),
              HasSubstr("note: memory.window = \"8GiB\" is more than memory.device_budget = \"4GiB\""));
  EXPECT_THAT(said("[memory]\ndevice_budget = \"4GiB\"\nwindow = \"4GiB\"\n" + host), Not(HasSubstr("note")));
}

TEST(Check, RulesThatTheModeOrTheSizeKeepsFromActingAreNoted) {
  const auto said = [](const std::string& mode, const std::string& match) {
    return check_text(read("[policy]\nmode = \"" + mode + "\"\n" + rule("r", match, kPlaces)), "p.toml", {});
  };
  for (const std::string match : {"size = \"..1MiB\"", "size = \"4KiB..2047KiB\"", "kernel = \"k\", size = \"1MiB\""})
    EXPECT_THAT(said("adaptive", match), HasSubstr("note: rule \"r\" (line 3) never acts: memory below 2 MiB is always "
                                                   "plain device memory; let its size go beyond, or remove the rule\n"))
        << match;
  for (const std::string match : {"size = \"..2MiB\"", "size = \"1MiB..\"", "order = \"..8\""})
    EXPECT_THAT(said("adaptive", match), Not(HasSubstr("note"))) << match;
  for (const std::string mode : {"arrival", "demand", "alloc_prefetch"}) {
    EXPECT_THAT(said(mode, "kernel = \"*adam*\""),
                HasSubstr("note: rule \"r\" (line 3) never acts: only mode adaptive goes by a kernel\n"));
    EXPECT_THAT(said(mode, "size = \"4MiB..\", argument = 1"), HasSubstr("only mode adaptive goes by an argument\n"));
    EXPECT_THAT(said(mode, "class = \"optimizer\""), HasSubstr("only mode adaptive goes by a class\n"));
    EXPECT_THAT(said(mode, "size = \"4MiB..\""), Not(HasSubstr("note")));
  }
  EXPECT_THAT(said("adaptive", "kernel = \"*adam*\", class = \"optimizer\""), Not(HasSubstr("note")));
  EXPECT_THAT(said("off", "kernel = \"*adam*\""), Not(HasSubstr("only mode adaptive")));
}

TEST(Check, MoreThanTheBudgetHoldsPinnedToTheDeviceIsNoted) {
  const std::string pins = rule("pins", "size = \"32MiB..\"", "place = \"device\"");
  const auto said = [&pins](const std::string& budget) {
    const PolicyFileReading reading = read("[memory]\ndevice_budget = " + budget + "\n" + pins);
    RuleCoverage coverage(reading.file.rules);
    const auto event = [&coverage](EventBody body) { coverage.see(Event{{}, std::move(body)}); };
    event(DeviceSeen{{0}, {}, 128_MiB, 128_MiB, true, "card"});
    for (std::uint32_t id = 1; id <= 3; ++id) {  // two at a time
      event(AllocationRequested{{id}, {0}, 32_MiB, AllocationKind::linear, {}, {}, false});
      event(AllocationSettled{{id}, {id * 0x1000'0000U}, 32_MiB, Backing::managed, {}});
      if (id > 1) event(Freed{{id - 1}, {}});
    }
    return check_text(reading, "p.toml", CheckedTrace{"t.swt", "whole", coverage.report()});
  };
  EXPECT_THAT(said("\"63MiB\""),
              HasSubstr("note: rules with place = \"device\" hold 64 MiB of device 0 at a time in this trace, and its "
                        "budget is 63 MiB: not all of it can stay there\n"));
  EXPECT_THAT(said("\"25%\""), HasSubstr("its budget is 32 MiB"));
  EXPECT_THAT(said("\"64MiB\""), Not(HasSubstr("note: rules with")));
}

TEST(Check, OnlyWhatIsPinnedToADeviceOfTheTraceAndLivesIsCounted) {
  const PolicyFileReading reading =
      read("[memory]\ndevice_budget = \"48MiB\"\n" + rule("away", "order = \"..2\"", kPlaces) +
           rule("adam", "kernel = \"*adam*\"", "place = \"device\"") +
           rule("pins", "size = \"32MiB..\"", "place = \"device\""));
  const auto note_of = [&reading](std::vector<EventBody> events) {
    RuleCoverage coverage(reading.file.rules);
    for (EventBody& body : events) coverage.see(Event{{}, std::move(body)});
    const CheckedTrace trace{"t.swt", "whole", coverage.report()};
    const std::string text = check_text(reading, "p.toml", trace);
    const auto json = nlohmann::json::parse(check_json(reading, "p.toml", trace));
    const std::size_t at = text.find("note: rules with ");
    EXPECT_EQ(json["notes"].size(), at == std::string::npos ? 0U : 1U) << json["notes"];
    return at == std::string::npos ? std::string() : text.substr(at, text.find('\n', at) - at);
  };
  const DeviceSeen first{{0}, {}, 128_MiB, 128_MiB, true, "card"};
  const DeviceSeen second{{1}, {}, 128_MiB, 128_MiB, true, "card"};
  const auto asks = [](std::uint32_t id, std::uint32_t device) {
    return AllocationRequested{{id}, {device}, 32_MiB, AllocationKind::linear, {}, {}, false};
  };
  const auto gets = [](std::uint32_t id) {
    return AllocationSettled{{id}, {id * 0x1000'0000U}, 32_MiB, Backing::managed, {}};
  };
  const AllocationSettled fails{{3}, {}, 32_MiB, Backing::managed, {2}};
  const auto two = [&](std::uint32_t device, std::uint32_t other) {
    return std::vector<EventBody>{first,   second,          asks(1, 0), gets(1),        asks(2, 0),
                                  gets(2), asks(3, device), gets(3),    asks(4, other), gets(4)};
  };
  EXPECT_EQ(note_of(two(0, 1)), "") << "one on each";
  EXPECT_EQ(note_of(two(1, 1)),
            "note: rules with place = \"device\" hold 64 MiB of device 1 at a time in this trace, "
            "and its budget is 48 MiB: not all of it can stay there");
  // The first two are the other rule's.
  const auto after_two = [&](std::vector<EventBody> more) {
    std::vector<EventBody> events = {first, second, asks(1, 0), gets(1), asks(2, 0), gets(2)};
    events.insert(events.end(), more.begin(), more.end());
    return note_of(std::move(events));
  };
  EXPECT_EQ(after_two({asks(3, 0), fails, asks(4, 0), gets(4)}), "");
  EXPECT_EQ(after_two({asks(3, 1), gets(3), Freed{{3}, {}}, asks(4, 1), gets(4)}), "");
  EXPECT_EQ(after_two({asks(3, 0), asks(3, 0), gets(3)}), "") << "a number that a damaged trace gives twice";
  EXPECT_EQ(after_two({asks(3, 0), gets(3), FunctionSeen{{1}, "fused_adam"},
                       LaunchShapeSeen{{1}, {1}, 1024, {{0, {0x3000'0000}}}}, Launched{{1}, {}}}),
            "")
      << "two rules, one place";
  EXPECT_EQ(note_of({asks(1, 0), gets(1), asks(2, 0), gets(2), asks(3, 0), gets(3), asks(4, 0), gets(4)}), "")
      << "a device that the trace does not show has no budget";
}

TEST(Check, ADeadRuleOfOneNameIsToldThatPatternsMatchTheWhole) {
  const auto said = [](const std::string& kernel) {
    const PolicyFileReading reading = read(rule("adam", "kernel = \"" + kernel + "\"", kPlaces));
    return check_text(reading, "p.toml", CheckedTrace{"t.swt", "whole", RuleCoverage(reading.file.rules).report()});
  };
  EXPECT_THAT(said("adam"), HasSubstr("meets its conditions; a pattern matches the whole name of a kernel: perhaps "
                                      "\"*adam*\"\n"));
  for (const std::string pattern : {"adam*", "ada?", "[ab]dam"})
    EXPECT_THAT(said(pattern), HasSubstr("meets its conditions\n")) << pattern;
}

TEST(Check, KeysWithoutEffectAreNoted) {
  const std::string text =
      check_text(read("[policy]\niteration_lookahead = 3\n[[rule]]\nname = \"w\"\nmatch = { size = "
                      "\"1GiB..\" }\nplace = \"stream\"\nread_only = true\nprefetch_distance = 3\n"),
                 "p.toml", {});
  EXPECT_EQ(text,
            "p.toml: no mistakes; 1 setting changed, 1 rule\n"
            "note: rule \"w\" (line 3): read_only has no effect yet\n");
  const std::string rule = "[[rule]]\nname = \"w\"\nmatch = { size = \"1GiB..\" }\n";
  const auto said = [&rule](const std::string& settings, const std::string& action) {
    return check_text(read("[policy]\n" + settings + "\n" + rule + action + "\n"), "p.toml", {});
  };
  EXPECT_THAT(said("iteration_lookahead = 0", "place = \"stream\""),
              HasSubstr("place = \"stream\" is as host: policy.iteration_lookahead = 0 switches streaming off\n"));
  EXPECT_THAT(said("mode = \"arrival\"", "place = \"stream\""), HasSubstr("only mode adaptive streams\n"));
  EXPECT_THAT(said("mode = \"arrival\"", "prefetch_distance = 3"), HasSubstr("prefetch_distance has no effect: "));
  EXPECT_THAT(said("", "place = \"stream\"\nprefetch_distance = 3"), Not(HasSubstr("note")));
}

}  // namespace
}  // namespace spillway::tools
