// Mistakes of a policy file, one a row: each is named with its place, the value and a remedy.
#include "policy/policy_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/policy/policy_file_sentences.hpp"

namespace spillway::policy {
namespace {

struct FileMistake {
  const char* name;
  const char* text;
  std::vector<std::string> expected;
};
void PrintTo(const FileMistake& mistake, std::ostream* out) { *out << mistake.name; }

std::string mistake_name(const ::testing::TestParamInfo<FileMistake>& mistake) { return mistake.param.name; }

class PolicyFileMistake : public ::testing::TestWithParam<FileMistake> {};

TEST_P(PolicyFileMistake, IsNamed) {
  EXPECT_THAT(sentences(read_policy_file(GetParam().text, "p.toml")), ::testing::ElementsAreArray(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    Text, PolicyFileMistake,
    ::testing::Values(
        FileMistake{
            "SizeWithoutQuotes",
            "[memory]\ndevice_budget = 16GiB\n",
            {"p.toml:2:19: \"device_budget = 16GiB\" is not TOML: expected digit, saw 'G' (decimal integer); write "
             "text, "
             "sizes and shares in quotes"}},
        FileMistake{"WordWithoutQuotes",
                    "[policy]\nmode = adaptive\n",
                    {"p.toml:2:8: \"mode = adaptive\" is not TOML: could not determine value type (value); write text, "
                     "sizes and "
                     "shares in quotes"}},
        FileMistake{
            "HeaderWithoutBracket",
            "[memory\nwindow = \"1%\"\n[policy]\nmode = \"x\"\n",
            {"p.toml:1:8: \"[memory\" is not TOML: expected ']', saw '\\n' (table header); end the header "
             "with its bracket, as in [memory] or [[rule]]",
             "p.toml:4:8: policy.mode: \"x\" is not one of: off, demand, alloc_prefetch, arrival, adaptive; write "
             "one of them"}},
        FileMistake{"HeaderAtTheEndWithoutBracket",
                    "[memory",
                    {"p.toml:1:8: \"[memory\" is not TOML: encountered end-of-file (table header); end the header "
                     "with its bracket, as in [memory] or [[rule]]"}},
        FileMistake{"NotUtf8",
                    "[memory]\nwindow = \"\xFF\"\n",
                    {"p.toml:2:10: \"window = \\\"\xFF\\\"\" is not TOML: Encountered invalid utf-8 sequence; write "
                     "the file in UTF-8"}},
        FileMistake{"Trace",
                    "SPILLWAY\xFF\xFE\n[\xFF",
                    {"p.toml:1:1: is a trace, not a policy file; name a policy file (TOML) here"}},
        FileMistake{
            "LetterOutsideOfQuotes",
            "[memory]\nwindow = \xC3\xA9\n\xCC\x87 = 1\n",
            {"p.toml:2:10: \"window = \xC3\xA9\" is not TOML: could not determine value type (value); write text, "
             "sizes and shares in quotes",
             "p.toml:3:1: \"\xCC\x87 = 1\" is not TOML: expected keys, tables, whitespace or comments, saw "
             "'\xCC\x87' (root table)"}},
        FileMistake{
            "HeaderWithoutName",
            "[memory]\nwindow = \"x\"\n  [=]\n[log]\nlevel = \"loud\"\n",
            {"p.toml:2:10: memory.window: \"x\" is not a size; write a size such as 16GiB, or a share such as 80%",
             "p.toml:3:4: \"[=]\" is not TOML: expected the name of a table behind the bracket (table header)",
             "p.toml:5:9: log.level: \"loud\" is not one of: off, error, warning, info, debug; write one of "
             "them"}},
        FileMistake{
            "KeyTwice",
            "[memory]\nwindow = \"1%\"\nwindow = \"2%\"\n",
            {"p.toml:3:10: \"window = \\\"2%\\\"\" is not TOML: cannot redefine existing string 'window' (key-value "
             "pair); "
             "keep one of the two"}},
        FileMistake{
            "TableTwice",
            "[memory]\n[policy]\n[memory]\n",
            {"p.toml:3:1: \"[memory]\" is not TOML: cannot redefine existing table 'memory' (table header); put "
             "both under "
             "one header"}},
        FileMistake{
            "InlineTableOverLines",
            "[[rule]]\nname = \"r\"\nmatch = { kernel = \"x\",\n  argument = 3\n}\nplace = \"hots\"\n",
            {"p.toml:3:24: \"match = { kernel = \\\"x\\\",\" is not TOML: expected key or closing '}', saw '\\n' "
             "(inline "
             "table); write all of { ... } on one line",
             "p.toml:6:9: rule \"r\": place: \"hots\" is not one of: auto, device, host, stream; did you mean "
             "\"host\"?"}},
        FileMistake{
            "TwoSyntaxErrors",
            "[memory]\nwindow = \nbacking = \"x\nreport = \"unreal\"\n",
            {"p.toml:2:10: \"window =\" is not TOML: expected value, saw '\\n' (key-value pair)",
             "p.toml:3:13: \"backing = \\\"x\" is not TOML: unescaped control characters other than TAB (U+0009) are "
             "explicitly prohibited (string); end the text with a quote on the same line",
             "p.toml:4:10: memory.report: \"unreal\" is not one of: virtual, real; did you mean \"real\"?"}}),
    mistake_name);

INSTANTIATE_TEST_SUITE_P(
    Settings, PolicyFileMistake,
    ::testing::Values(
        FileMistake{"UnknownTable",
                    "[memmory]\nx = 1\n",
                    {"p.toml:1:2: \"memmory\" is not a table of a policy file; did you mean \"memory\"?"}},
        FileMistake{
            "UnknownTableFarFromAny",
            "[gpu]\n",
            {"p.toml:1:2: \"gpu\" is not a table of a policy file; write one of: memory, policy, telemetry, trace, "
             "log, rule"}},
        FileMistake{
            "UnknownKey",
            "[memory]\nhost_bugdet = \"1%\"\n",
            {"p.toml:2:1: [memory]: \"host_bugdet\" is not a key of this table; did you mean \"host_budget\"?"}},
        FileMistake{"UnknownKeyFarFromAny",
                    "[log]\ncolour = true\n",
                    {"p.toml:2:1: [log]: \"colour\" is not a key of this table; write one of: level"}},
        FileMistake{"KeyOfAnotherTable",
                    "[policy]\nwindow = \"1%\"\n",
                    {"p.toml:2:1: [policy]: \"window\" is not a key of this table; it belongs under [memory]"}},
        FileMistake{"KeyOutsideEveryTable",
                    "mode = \"off\"\n",
                    {"p.toml:1:1: \"mode\" is outside every table; it belongs under [policy]"}},
        FileMistake{
            "TableThatIsAValue",
            "memory = 3\n",
            {"p.toml:1:10: memory: \"3\" is a whole number, not a table; write [memory] and its keys below it"}},
        FileMistake{
            "BadSize",
            "[memory]\ndevice_budget = \"16GX\"\n",
            {"p.toml:2:17: memory.device_budget: \"16GX\" is not a size; write a size such as 16GiB, or a share "
             "such as 80%"}},
        FileMistake{
            "NegativeSize",
            "[memory]\nhost_budget = -1\n",
            {"p.toml:2:15: memory.host_budget: \"-1\" is negative; write a size such as 16GiB, or a share such as "
             "80%"}},
        FileMistake{
            "ShareAboveWhole",
            "[memory]\nwindow = \"140%\"\n",
            {"p.toml:2:10: memory.window: \"140%\" is more than 100%; write a size such as 16GiB, or a share such "
             "as 80%"}},
        FileMistake{"SizeAsFraction",
                    "[memory]\nwindow = 0.5\n",
                    {"p.toml:2:10: memory.window: \"0.5\" is a number with a fraction, not text; write a size or share "
                     "in quotes, "
                     "such as "
                     "\"16GiB\" or \"80%\""}},
        FileMistake{"SizeWithoutUnit",
                    "[memory]\ndevice_budget = 16\n",
                    {"p.toml:2:17: memory.device_budget: \"16\" is in bytes, and below 2 MiB; did you mean \"16%\" or "
                     "\"16MiB\"?"}},
        // Each rule is judged by its own lines.
        FileMistake{
            "NoNameBesideASyntaxError",
            "[memory]\nwindow = big\n[[rule]]\nmatch = { order = 1 }\nplace = \"host\"\n[[rule]]\nname = \"b\"\n"
            "match = { order = 2 }\nplace = \"host\"\nplace = \"host\"\n",
            {"p.toml:2:10: \"window = big\" is not TOML: could not determine value type (value); write text, "
             "sizes and shares in quotes",
             "p.toml:3:1: rule 1: has no name; write name = \"...\", so that reports can name it",
             "p.toml:10:9: \"place = \\\"host\\\"\" is not TOML: cannot redefine existing string 'place' "
             "(key-value pair); keep one of the two"}},
        FileMistake{
            "NameAndActionLostToSyntaxErrors",
            "[[rule]]\nname = big\nmatch = { order = 1 }\nplace = big\n",
            {"p.toml:2:8: \"name = big\" is not TOML: could not determine value type (value); write text, sizes and "
             "shares in quotes",
             "p.toml:4:9: \"place = big\" is not TOML: could not determine value type (value); write text, sizes and "
             "shares in quotes"}},
        FileMistake{"RuleWithoutNameThatIsNeverReached",
                    RULE("{ order = 1 }", "place = \"host\"") "[[rule]]\nmatch = { order = 1 }\nplace = \"host\"\n",
                    {"p.toml:5:1: rule 2: has no name; write name = \"...\", so that reports can name it",
                     "p.toml:5:1: rule 2: is never reached: the rule in line 1 matches the same, and the first match "
                     "wins; remove one of the two, or join them"}},
        FileMistake{"OtherSizesWithoutUnit",
                    "[memory]\nhost_budget = 16\nplain_share = \"25\"\nwindow = 0\n",
                    {"p.toml:2:15: memory.host_budget: \"16\" is in bytes, and below 2 MiB; did you mean \"16%\" or "
                     "\"16MiB\"?",
                     "p.toml:3:15: memory.plain_share: \"25\" is in bytes, and below 2 MiB; did you mean \"25%\" or "
                     "\"25MiB\"?"}},
        FileMistake{"RuleSizeWithoutUnit",
                    RULE("{ size = 4 }", "place = \"host\""),
                    {"p.toml:3:18: rule \"r\": size: \"4\" is in bytes, and below 2 MiB; did you mean \"4MiB\"?"}},
        FileMistake{
            "RuleSizeRangeWithoutUnit",
            RULE("{ size = \"4..8MiB\" }", "place = \"host\""),
            {"p.toml:3:18: rule \"r\": size: \"4..8MiB\" has \"4\", which is in bytes, and below 2 MiB; did you "
             "mean \"4MiB\"?"}},
        FileMistake{"BooleanInQuotes",
                    "[memory]\noom_first = \"true\"\n",
                    {"p.toml:2:13: memory.oom_first: \"true\" is text, not a truth value; write true or false, without "
                     "quotes"}},
        FileMistake{"WordAsNumber",
                    "[memory]\nbacking = 1\n",
                    {"p.toml:2:11: memory.backing: \"1\" is a whole number, not text; write one of these, in quotes: "
                     "auto, managed, "
                     "device"}},
        FileMistake{"WordAsDate",
                    "[memory]\nbacking = 2020-01-02\n",
                    {"p.toml:2:11: memory.backing: \"2020-01-02\" is a date, not text; write one of these, in quotes: "
                     "auto, managed, "
                     "device"}},
        FileMistake{
            "NumberOutOfRange",
            "[policy]\niteration_lookahead = 99\n",
            {"p.toml:2:23: policy.iteration_lookahead: \"99\" is too large; write a whole number from 0 to 16"}},
        FileMistake{"NumberInQuotes",
                    "[policy]\niteration_lookahead = \"1\"\n",
                    {"p.toml:2:23: policy.iteration_lookahead: \"1\" is text, not a whole number; write a whole number "
                     "without quotes, 0 to 16"}},
        FileMistake{
            "NotANumber",
            "[telemetry]\nsample = nan\n",
            {"p.toml:2:10: telemetry.sample: \"nan\" is not a number; write a share from 0% to 100%, such as 5%"}},
        FileMistake{
            "PathWithUnknownPlaceholder",
            "[trace]\npath = \"x.%d.swt\"\n",
            {"p.toml:2:8: trace.path: \"x.%d.swt\" has the unknown placeholder \"%d\"; use %p (process), %t (start "
             "time), "
             "%h (host), %r (rank) or %% (a percent sign)"}},
        FileMistake{"ListForASetting",
                    "[trace]\npath = [\"x\"]\n",
                    {"p.toml:2:8: trace.path: is a list, not text; write text in quotes"}}),
    mistake_name);

INSTANTIATE_TEST_SUITE_P(
    Rules, PolicyFileMistake,
    ::testing::Values(
        FileMistake{
            "OneBracket",
            "[rule]\nname = \"r\"\n",
            {"p.toml:1:2: rule: is a table, not a list of tables; write [[rule]], with two brackets on each side"}},
        FileMistake{
            "ListOfNumbers",
            "rule = [1]\n",
            {"p.toml:1:9: rule: \"1\" is a whole number, not a table; write [[rule]] and the rule's keys below it"}},
        FileMistake{"NoName",
                    "[[rule]]\nmatch = { kernel = \"x\" }\nplace = \"host\"\n",
                    {"p.toml:1:1: rule 1: has no name; write name = \"...\", so that reports can name it"}},
        FileMistake{"EmptyName",
                    "[[rule]]\nname = \"\"\nmatch = { kernel = \"x\" }\nplace = \"host\"\n",
                    {"p.toml:2:8: rule 1: name: the name is empty; say what the rule is about"}},
        FileMistake{"NameIsNumber",
                    "[[rule]]\nname = 4\nmatch = { kernel = \"x\" }\nplace = \"host\"\n",
                    {"p.toml:2:8: rule 1: name: \"4\" is a whole number, not text; write text in quotes"}},
        FileMistake{"SameName",
                    RULE("{ kernel = \"x\" }", "place = \"host\"") RULE("{ kernel = \"y\" }", "place = \"host\""),
                    {"p.toml:5:1: rule \"r\": has the name of the rule in line 1; give each rule a name of its own"}},
        FileMistake{
            "SameMatch",
            "[[rule]]\nname = \"q\"\nmatch = { argument = 1, kernel = \"x\" }\nplace = \"device\"\n" RULE(
                "{ kernel = \"x\", argument = [1] }", "place = \"host\""),
            {"p.toml:5:1: rule \"r\": is never reached: the rule in line 1 matches the same, and the first match "
             "wins; remove "
             "one of the two, or join them"}},
        FileMistake{
            "NoMatch",
            "[[rule]]\nname = \"r\"\nplace = \"host\"\n",
            {"p.toml:1:1: rule \"r\": has no match; say what it is for, such as match = { kernel = \"*adam*\" }"}},
        FileMistake{"EmptyMatch",
                    RULE("{}", "place = \"host\""),
                    {"p.toml:3:9: rule \"r\": match: the table is empty; say what the rule is for, such as match = { "
                     "kernel = \"*adam*\" }"}},
        FileMistake{
            "MatchIsText",
            RULE("\"adam\"", "place = \"host\""),
            {"p.toml:3:9: rule \"r\": match: \"adam\" is text, not a table; write match = { kernel = \"*adam*\" }"}},
        FileMistake{
            "NoAction",
            RULE("{ kernel = \"x\" }", ""),
            {"p.toml:1:1: rule \"r\": does nothing; add one of: place, read_only, prefetch_distance, evict, backing"}},
        FileMistake{"UnknownRuleKey",
                    RULE("{ kernel = \"x\" }", "plaec = \"host\""),
                    {"p.toml:4:1: rule \"r\": \"plaec\" is not a key of a rule; did you mean \"place\"?"}},
        FileMistake{"MatchKeyOutsideMatch",
                    RULE("{ kernel = \"x\" }", "place = \"host\"\nargument = 3"),
                    {"p.toml:5:1: rule \"r\": \"argument\" is not a key of a rule; it belongs into match = { ... }"}},
        FileMistake{
            "ActionInsideMatch",
            RULE("{ kernel = \"x\", place = \"host\" }", "evict = \"first\""),
            {"p.toml:3:25: rule \"r\": match: \"place\" is not a key of match; it belongs beside match, not into it"}},
        FileMistake{"UnknownMatchKey",
                    RULE("{ kernal = \"x\" }", "place = \"host\""),
                    {"p.toml:3:11: rule \"r\": match: \"kernal\" is not a key of match; did you mean \"kernel\"?"}},
        FileMistake{"BadPlace",
                    RULE("{ kernel = \"x\" }", "place = \"hosts\""),
                    {"p.toml:4:9: rule \"r\": place: \"hosts\" is not one of: auto, device, host, stream; did you mean "
                     "\"host\"?"}},
        FileMistake{
            "PlaceIsBoolean",
            RULE("{ kernel = \"x\" }", "place = true"),
            {"p.toml:4:9: rule \"r\": place: \"true\" is a truth value, not text; write one of these, in quotes: auto, "
             "device, host, stream"}},
        FileMistake{"BadEvict",
                    RULE("{ kernel = \"x\" }", "evict = \"never\""),
                    {"p.toml:4:9: rule \"r\": evict: \"never\" is not one of: normal, first, last; write one of them"}},
        FileMistake{
            "BadBacking",
            RULE("{ size = \"1GiB\" }", "backing = \"\""),
            {"p.toml:4:11: rule \"r\": backing: the value is empty, not one of: device, managed; write one of them"}},
        FileMistake{"ReadOnlyInQuotes",
                    RULE("{ kernel = \"x\" }", "read_only = \"yes\""),
                    {"p.toml:4:13: rule \"r\": read_only: \"yes\" is text, not a truth value; write true or false, "
                     "without quotes"}},
        FileMistake{
            "PrefetchZero",
            RULE("{ kernel = \"x\" }", "prefetch_distance = 0"),
            {"p.toml:4:21: rule \"r\": prefetch_distance: \"0\" is too small; write a whole number of launches, 1 "
             "to 1024"}},
        FileMistake{"PrefetchFar",
                    RULE("{ kernel = \"x\" }", "prefetch_distance = 99999"),
                    {"p.toml:4:21: rule \"r\": prefetch_distance: \"99999\" is too large; write a whole number of "
                     "launches, 1 to 1024"}},
        FileMistake{
            "PrefetchFraction",
            RULE("{ kernel = \"x\" }", "prefetch_distance = 1.5"),
            {"p.toml:4:21: rule \"r\": prefetch_distance: \"1.5\" is a number with a fraction, not a whole number; "
             "write a whole number of launches, 1 to 1024"}}),
    mistake_name);

#define RANGE_REMEDY "; write a range such as \"64MiB..1GiB\", \"64MiB..\" or \"..1GiB\""
#define ORDER_REMEDY "; write a number from 1, or a range such as \"3..8\", \"3..\" or \"..8\""
INSTANTIATE_TEST_SUITE_P(
    Matches, PolicyFileMistake,
    ::testing::Values(
        FileMistake{"BadPattern",
                    RULE("{ kernel = \"*[adam\" }", "place = \"host\""),
                    {"p.toml:3:20: rule \"r\": kernel: \"*[adam\" has a [ without its ]; write a pattern such as "
                     "\"*adam*\"; \\\\ takes the next character as it is"}},
        FileMistake{"BackwardSet",
                    RULE("{ caller = \"[z-a]\" }", "place = \"host\""),
                    {"p.toml:3:20: rule \"r\": caller: \"[z-a]\" has the backward range z-a; write a pattern such as "
                     "\"*adam*\"; \\\\ takes the next character as it is"}},
        FileMistake{
            "EmptyPattern",
            RULE("{ kernel = \"\" }", "place = \"host\""),
            {"p.toml:3:20: rule \"r\": kernel: is empty, and matches nothing; write a pattern such as \"*adam*\"; "
             "\\\\ takes the next character as it is"}},
        FileMistake{
            "PatternIsList",
            RULE("{ kernel = [\"x\"] }", "place = \"host\""),
            {"p.toml:3:20: rule \"r\": kernel: is a list, not text; write a pattern in quotes, such as \"*adam*\""}},
        FileMistake{"NegativeArgument",
                    RULE("{ argument = -1 }", "place = \"host\""),
                    {"p.toml:3:22: rule \"r\": argument: \"-1\" is negative; write a whole number from 0 to 4095, or a "
                     "list of them"}},
        FileMistake{
            "ArgumentTooLarge",
            RULE("{ argument = [1, 70000] }", "place = \"host\""),
            {"p.toml:3:26: rule \"r\": argument: \"70000\" is too large; write a whole number from 0 to 4095, or a "
             "list of them"}},
        FileMistake{"ArgumentTwice",
                    RULE("{ argument = [1, 1] }", "place = \"host\""),
                    {"p.toml:3:26: rule \"r\": argument: \"1\" is listed twice; list it once"}},
        FileMistake{"ArgumentIsText",
                    RULE("{ argument = [\"2\"] }", "place = \"host\""),
                    {"p.toml:3:23: rule \"r\": argument: \"2\" is text, not a whole number; write a whole number from "
                     "0 to 4095, or a list of "
                     "them"}},
        FileMistake{"EmptyList",
                    RULE("{ argument = [] }", "place = \"host\""),
                    {"p.toml:3:22: rule \"r\": argument: the list is empty, and matches nothing; list at least one, or "
                     "leave the key out"}},
        FileMistake{"BadSize",
                    RULE("{ size = \"big\" }", "place = \"host\""),
                    {"p.toml:3:18: rule \"r\": size: \"big\" is not a size" RANGE_REMEDY}},
        FileMistake{"BadSizeEnd",
                    RULE("{ size = \"1GiB..2GX\" }", "place = \"host\""),
                    {"p.toml:3:18: rule \"r\": size: \"1GiB..2GX\" has \"2GX\", which is not a size" RANGE_REMEDY}},
        FileMistake{"TwoBadSizeEnds",
                    RULE("{ size = \"-1..80%\" }", "place = \"host\""),
                    {"p.toml:3:18: rule \"r\": size: \"-1..80%\" has \"-1\", which is negative" RANGE_REMEDY,
                     "p.toml:3:18: rule \"r\": size: \"-1..80%\" has \"80%\", which is not a size" RANGE_REMEDY}},
        FileMistake{"SizeBackward",
                    RULE("{ size = \"2GiB..1GiB\" }", "place = \"host\""),
                    {"p.toml:3:18: rule \"r\": size: \"2GiB..1GiB\" is a range that ends before it begins; write the "
                     "smaller size first"}},
        FileMistake{"SizeWithoutEnds",
                    RULE("{ size = \"..\" }", "place = \"host\""),
                    {"p.toml:3:18: rule \"r\": size: \"..\" has no end" RANGE_REMEDY}},
        FileMistake{
            "SizeTableKey",
            RULE("{ size = { min = \"1GiB\", mx = \"2GiB\" } }", "place = \"host\""),
            {"p.toml:3:39: rule \"r\": size: \"2GiB\" stands at \"mx\", which is neither min nor max" RANGE_REMEDY}},
        FileMistake{"SizeTableEmpty",
                    RULE("{ size = {} }", "place = \"host\""),
                    {"p.toml:3:18: rule \"r\": size: the table is empty" RANGE_REMEDY}},
        FileMistake{"SizeIsBoolean",
                    RULE("{ size = true }", "place = \"host\""),
                    {"p.toml:3:18: rule \"r\": size: \"true\" is a truth value, not text" RANGE_REMEDY}},
        FileMistake{"SizeEndIsBoolean",
                    RULE("{ size = { min = true } }", "place = \"host\""),
                    {"p.toml:3:26: rule \"r\": size: \"true\" is a truth value, not text; write a size in quotes, such "
                     "as \"64MiB\""}},
        FileMistake{"OrderIsBoolean",
                    RULE("{ order = true }", "place = \"host\""),
                    {"p.toml:3:19: rule \"r\": order: \"true\" is a truth value, not a whole number" ORDER_REMEDY}},
        FileMistake{"OrderZero",
                    RULE("{ order = 0 }", "place = \"host\""),
                    {"p.toml:3:19: rule \"r\": order: \"0\" is too small" ORDER_REMEDY}},
        FileMistake{"OrderBadEnd",
                    RULE("{ order = \"1..x\" }", "place = \"host\""),
                    {"p.toml:3:19: rule \"r\": order: \"1..x\" has \"x\", which is not a number" ORDER_REMEDY}},
        FileMistake{
            "OrderBackward",
            RULE("{ order = \"8..3\" }", "place = \"host\""),
            {"p.toml:3:19: rule \"r\": order: \"8..3\" is a range that ends before it begins; write the smaller "
             "number first"}},
        FileMistake{"OrderFraction",
                    RULE("{ order = \"1.5\" }", "place = \"host\""),
                    {"p.toml:3:19: rule \"r\": order: \"1.5\" is not a whole number" ORDER_REMEDY}},
        FileMistake{"OrderTooLarge",
                    RULE("{ order = 5000000000 }", "place = \"host\""),
                    {"p.toml:3:19: rule \"r\": order: \"5000000000\" is too large" ORDER_REMEDY}},
        FileMistake{"UnknownClass",
                    RULE("{ class = \"optimiser\" }", "place = \"host\""),
                    {"p.toml:3:19: rule \"r\": class: \"optimiser\" is not a class; did you mean \"optimizer\"?"}},
        FileMistake{"ClassIsNumber",
                    RULE("{ class = 4 }", "place = \"host\""),
                    {"p.toml:3:19: rule \"r\": class: \"4\" is a whole number, not text; write one of: unknown, "
                     "weights, gradients, "
                     "activations, optimizer, kv, workspace"}},
        FileMistake{"StreamIsText",
                    RULE("{ stream = \"main\" }", "place = \"host\""),
                    {"p.toml:3:20: rule \"r\": stream: \"main\" is text, not a whole number; write a whole number from "
                     "0 to 4294967295, or a "
                     "list of them"}},
        FileMistake{
            "DeviceTooLarge",
            RULE("{ device = 4096 }", "place = \"host\""),
            {"p.toml:3:20: rule \"r\": device: \"4096\" is too large; write a whole number from 0 to 1023, or a "
             "list of them"}}),
    mistake_name);

#define KEEP_ONE "; keep one of the two"
INSTANTIATE_TEST_SUITE_P(
    Contradictions, PolicyFileMistake,
    ::testing::Values(
        FileMistake{"HostAndPlain",
                    RULE("{ size = \"1GiB..\" }", "place = \"host\"\nbacking = \"device\""),
                    {"p.toml:1:1: rule \"r\": place = \"host\" contradicts backing = \"device\": plain device "
                     "memory never moves" KEEP_ONE}},
        FileMistake{"StreamAndPlain",
                    RULE("{ size = \"1GiB..\" }", "place = \"stream\"\nbacking = \"device\""),
                    {"p.toml:1:1: rule \"r\": place = \"stream\" contradicts backing = \"device\": plain "
                     "device memory never moves" KEEP_ONE}},
        FileMistake{"PrefetchAndPlain",
                    RULE("{ size = \"1GiB..\" }", "prefetch_distance = 4\nbacking = \"device\""),
                    {"p.toml:1:1: rule \"r\": prefetch_distance contradicts backing = \"device\": plain device "
                     "memory never moves" KEEP_ONE}},
        FileMistake{"EvictAndPlain",
                    RULE("{ size = \"1GiB..\" }", "evict = \"last\"\nbacking = \"device\""),
                    {"p.toml:1:1: rule \"r\": evict contradicts backing = \"device\": plain device memory "
                     "never moves" KEEP_ONE}},
        FileMistake{"ReadOnlyAndPlain",
                    RULE("{ size = \"1GiB..\" }", "read_only = true\nbacking = \"device\""),
                    {"p.toml:1:1: rule \"r\": read_only = true contradicts backing = \"device\": plain device "
                     "memory never moves" KEEP_ONE}},
        FileMistake{"ReadOnlyAndHost",
                    RULE("{ size = \"1GiB..\" }", "read_only = true\nplace = \"host\""),
                    {"p.toml:1:1: rule \"r\": read_only = true contradicts place = \"host\": it is never "
                     "brought into device memory" KEEP_ONE}},
        FileMistake{"PrefetchAndHost",
                    RULE("{ size = \"1GiB..\" }", "prefetch_distance = 4\nplace = \"host\""),
                    {"p.toml:1:1: rule \"r\": prefetch_distance contradicts place = \"host\": it is never "
                     "brought into device memory" KEEP_ONE}},
        FileMistake{"EvictAndHost",
                    RULE("{ size = \"1GiB..\" }", "evict = \"first\"\nplace = \"host\""),
                    {"p.toml:1:1: rule \"r\": evict contradicts place = \"host\": it is never brought into "
                     "device memory" KEEP_ONE}},
        FileMistake{"PrefetchAndDevice",
                    RULE("{ size = \"1GiB..\" }", "prefetch_distance = 4\nplace = \"device\""),
                    {"p.toml:1:1: rule \"r\": prefetch_distance contradicts place = \"device\": it is never "
                     "sent to host memory" KEEP_ONE}},
        FileMistake{"EvictFirstAndDevice",
                    RULE("{ size = \"1GiB..\" }", "evict = \"first\"\nplace = \"device\""),
                    {"p.toml:1:1: rule \"r\": evict = \"first\" contradicts place = \"device\": it is never "
                     "sent to host memory" KEEP_ONE}},
        FileMistake{"BackingByKernel",
                    RULE("{ kernel = \"x\" }", "backing = \"device\""),
                    {"p.toml:1:1: rule \"r\": backing is decided when memory is asked for, before any kernel, "
                     "argument or class is known; "
                     "match on size, order, caller or device, or leave backing out"}}),
    mistake_name);

}  // namespace
}  // namespace spillway::policy
