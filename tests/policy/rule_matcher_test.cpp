// The matcher against a slow reference that reads each rule as a person would, and globs against a recursive one.
#include "policy/rule_matcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "policy/demangle.hpp"

namespace spillway::policy {
namespace {

// Exponential and obvious. Knows * and ? and plain characters.
bool slow_glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    return slow_glob(pattern.substr(1), text) || (!text.empty() && slow_glob(pattern, text.substr(1)));
  }
  if (text.empty()) return false;
  return (pattern.front() == '?' || pattern.front() == text.front()) && slow_glob(pattern.substr(1), text.substr(1));
}

TEST(Glob, AgreesWithTheSlowReference) {
  std::mt19937 random(7);
  const auto text = [&](std::string_view letters, std::size_t longest) {
    std::string out(random() % (longest + 1), ' ');
    for (char& c : out) c = letters[random() % letters.size()];
    return out;
  };
  int matched = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string pattern = text("ab*?", 6);
    if (pattern.empty()) pattern = "*";
    const std::string subject = text("ab", 8);
    const bool expected = slow_glob(pattern, subject);
    matched += expected ? 1 : 0;
    ASSERT_EQ(Glob(pattern).matches(subject), expected) << pattern << " on " << subject;
  }
  EXPECT_GT(matched, 1'000);
}

TEST(Glob, KnowsSetsAndEscapes) {
  EXPECT_TRUE(Glob("lib[nm]ccl*").matches("libnccl.so.2"));
  EXPECT_FALSE(Glob("lib[nm]ccl*").matches("libxccl.so.2"));
  EXPECT_TRUE(Glob("[!a-c]x").matches("dx"));
  EXPECT_FALSE(Glob("[!a-c]x").matches("bx"));
  EXPECT_TRUE(Glob("[]]").matches("]"));
  EXPECT_TRUE(Glob("[a-]").matches("-"));
  EXPECT_TRUE(Glob("a\\*b").matches("a*b"));
  EXPECT_FALSE(Glob("a\\*b").matches("axb"));
  EXPECT_TRUE(Glob("\xC3?").matches("\xC3\xA9"));
  EXPECT_EQ(glob_problem("*[a"), "has a [ without its ]");
  EXPECT_EQ(glob_problem("[z-a]"), "has the backward range z-a");
  EXPECT_EQ(glob_problem("a\\"), "ends in a backslash");
  EXPECT_EQ(glob_problem(""), "is empty, and matches nothing");
  EXPECT_EQ(glob_problem("*"), std::nullopt);
  EXPECT_FALSE(Glob("[").matches("["));
}

TEST(Glob, TakesNoLongerThanPatternTimesText) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  // A matcher that tries every way would not end before the universe does.
  EXPECT_FALSE(Glob(pattern + "b").matches(std::string(20'000, 'a')));
}

TEST(Demangle, ShowsWhatTheSourceSays) {
  EXPECT_EQ(demangled("_Z5scaleIfEvPT_i"), "void scale<float>(float*, int)");
  EXPECT_EQ(demangled("cutlass_80_tensorop"), "cutlass_80_tensorop");
  EXPECT_EQ(demangled("_Znonsense"), "_Znonsense");
  EXPECT_EQ(demangled(""), "");
  EXPECT_EQ(bare_function_name("void scale<float>(float*, int)"), "scale");
  EXPECT_EQ(
      bare_function_name("void at::native::(anonymous namespace)::multi_tensor<at::Adam<float, 4> >(X<(int)3>, int)"),
      "at::native::(anonymous namespace)::multi_tensor");
  EXPECT_EQ(bare_function_name("cutlass_80_tensorop"), "cutlass_80_tensorop");
  EXPECT_EQ(bare_function_name("X::operator()(int)"), "X::operator()");
  EXPECT_EQ(bare_function_name(""), "");
  EXPECT_EQ(bare_function_name(">>>("), ">>>(");
}

struct World {
  std::vector<Rule> rules;
  std::vector<std::string> functions;  // by FunctionId, from 1
};

template <class T>
bool listed(const std::vector<T>& values, const T& value) {
  return values.empty() || std::count(values.begin(), values.end(), value) > 0;
}

bool slow_name(const std::string& pattern, const std::string& name) {
  if (pattern.empty()) return true;
  return slow_glob(pattern, name) || slow_glob(pattern, demangled(name)) ||
         slow_glob(pattern, bare_function_name(demangled(name)));
}

bool slow_allocation(const RuleMatch& match, const AllocationRequested& request, const std::string& caller,
                     AllocationOrder order) {
  const std::string file = caller.substr(caller.rfind('/') + 1);
  return request.bytes >= match.size_least && request.bytes <= match.size_most && order >= match.order_first &&
         order <= match.order_last && listed(match.devices, request.device) &&
         (match.caller.empty() || slow_glob(match.caller, caller) || slow_glob(match.caller, file));
}

TEST(RuleMatcher, AgreesWithTheSlowReference) {
  std::mt19937 random(11);
  const std::vector<std::string> kernels = {"", "", "*adam*", "scale", "*gemm*", "_Z5scale*", "void*"};
  const std::vector<std::string> callers = {"", "", "libnccl*", "/opt/*", "*torch*"};
  const std::vector<std::string> names = {"_Z5scaleIfEvPT_i", "fused_adam_kernel", "sm90_gemm_bf16", "reduce"};
  const std::vector<std::string> libraries = {"", "/usr/lib/libnccl.so.2", "/opt/torch/libtorch_cuda.so",
                                              "libtorch.so"};
  const auto pick = [&](const auto& from) { return from[random() % from.size()]; };
  std::size_t decided = 0;
  for (int world = 0; world < 300; ++world) {
    std::vector<Rule> rules(random() % 150);
    for (std::size_t i = 0; i < rules.size(); ++i) {
      RuleMatch& match = rules[i].match;
      rules[i].number = static_cast<std::uint16_t>(i + 1);
      match.kernel = pick(kernels);
      match.caller = pick(callers);
      for (auto n = random() % 3; n > 0; --n) match.arguments.push_back(static_cast<std::uint16_t>(random() % 5));
      if (random() % 2 == 0) match.classes.push_back(static_cast<SpanClass>(random() % 7));
      if (random() % 3 == 0) match.streams.push_back(StreamId{static_cast<std::uint32_t>(random() % 3)});
      if (random() % 3 == 0) match.devices.push_back(DeviceIndex{static_cast<std::uint32_t>(random() % 3)});
      match.size_least = Bytes(random() % 4);
      if (random() % 2 == 0) match.size_most = match.size_least + Bytes(random() % 3);
      match.order_first = {static_cast<std::uint32_t>(1 + random() % 3)};
      if (random() % 2 == 0) match.order_last = {static_cast<std::uint32_t>(match.order_first.value + random() % 3)};
    }
    RuleMatcher matcher(rules);
    for (std::size_t i = 0; i + 1 < names.size(); ++i)
      matcher.function_seen({static_cast<std::uint32_t>(i + 1)}, names[i]);
    for (int question = 0; question < 100; ++question) {
      AllocationRequested request;
      request.bytes = Bytes(random() % 6);
      request.device = {static_cast<std::uint32_t>(random() % 4)};
      request.kind = random() % 2 == 0 ? AllocationKind::linear : AllocationKind::stream_ordered;
      request.stream = {static_cast<std::uint32_t>(random() % 4)};
      const std::string caller = pick(libraries);
      const AllocationOrder order{static_cast<std::uint32_t>(1 + random() % 6)};
      const auto function = static_cast<std::uint32_t>(1 + random() % names.size());
      const auto argument = static_cast<std::uint16_t>(random() % 7);
      const auto span_class = static_cast<SpanClass>(random() % 7);
      const StreamId stream{static_cast<std::uint32_t>(random() % 4)};

      const Rule* allocation_expected = nullptr;
      const Rule* argument_expected = nullptr;
      for (const Rule& rule : matcher.rules()) {
        const RuleMatch& match = rule.match;
        if (!slow_allocation(match, request, caller, order)) continue;
        const bool needs_no_launch = match.kernel.empty() && match.arguments.empty() && match.classes.empty();
        const bool stream_ordered = request.kind == AllocationKind::stream_ordered;
        const bool stream_holds = match.streams.empty() || (stream_ordered && listed(match.streams, request.stream));
        if (allocation_expected == nullptr && needs_no_launch && stream_holds) allocation_expected = &rule;
        // The last of the names was never announced.
        const bool kernel_holds =
            match.kernel.empty() || (function < names.size() && slow_name(match.kernel, names[function - 1]));
        if (argument_expected == nullptr && kernel_holds && listed(match.arguments, argument) &&
            listed(match.classes, span_class) && listed(match.streams, stream)) {
          argument_expected = &rule;
        }
      }
      ASSERT_EQ(matcher.match_allocation(request, caller, order), allocation_expected);
      const TouchFacts facts{matcher.allocation_rules(request, caller, order), span_class, stream};
      ASSERT_EQ(matcher.match_argument({function}, argument, facts), argument_expected);
      decided += argument_expected != nullptr ? 1 : 0;
    }
  }
  EXPECT_GT(decided, 5'000U);
}

TEST(RuleMatcher, NoRulesMatchNothing) {
  RuleMatcher matcher({});
  matcher.function_seen({1}, "adam");
  EXPECT_TRUE(matcher.empty());
  EXPECT_EQ(matcher.match_allocation({}, "x", {1}), nullptr);
  EXPECT_EQ(matcher.match_argument({1}, 0, {}), nullptr);
}

TEST(RuleMatcher, KeepsToItsLimitOfRules) {
  std::vector<Rule> rules(kMostRules + 10);
  for (Rule& rule : rules) rule.match.devices = {DeviceIndex{9}};
  rules[kMostRules - 1].match.devices.clear();
  rules[kMostRules - 1].name = "the last";
  RuleMatcher matcher(rules);
  ASSERT_NE(matcher.match_allocation({}, "", {1}), nullptr);
  EXPECT_EQ(matcher.match_allocation({}, "", {1})->name, "the last");
}

TEST(RuleMatcher, AClassOutsideTheKnownCountsAsUnknown) {
  Rule rule;
  rule.match.classes = {SpanClass::unknown};
  RuleMatcher matcher({rule});
  TouchFacts facts{matcher.allocation_rules({}, "", {1}), static_cast<SpanClass>(999), {}};
  EXPECT_NE(matcher.match_argument({1}, 65'535, facts), nullptr);
}

}  // namespace
}  // namespace spillway::policy
