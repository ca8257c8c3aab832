#include "policy/rule_keys.hpp"

#include <array>

namespace spillway::policy {
namespace {

using enum RuleKeyPlace;

constexpr std::string_view kClasses = "unknown, weights, gradients, activations, optimizer, kv, workspace";

constexpr auto kKeys = std::to_array<RuleKeyRow>({
    {"name", rule, "text", "not empty, one of its kind in the file",
     "What messages, traces and reports call the rule."},
    {"match", rule, "table", "at least one of the keys below", "What the rule is for; all conditions in it must hold."},
    {"place", rule, "text", "auto, device, host, stream",
     "Where the memory lives: device keeps it in HBM, host has it read and written over the link, stream keeps it "
     "on the host, but for turns in HBM ahead of its uses, once those were found to be worth it; auto leaves it to the "
     "mode, which lets it take turns as well, and to no later rule. What a rule places on device or host takes none."},
    {"read_only", rule, "true or false", "true, false",
     "true promises that no kernel writes it, so that it may be in both memories at once; false forbids that. No "
     "effect yet."},
    {"prefetch_distance", rule, "whole number", "1 to 1024",
     "How many launches ahead of its use it comes in at least, where it takes turns, as far as an iteration has room "
     "for "
     "that; it is rounded up to the stretches that an iteration is cut into (4 to 64), one at least."},
    {"evict", rule, "text", "first, normal, last", "Whether it goes before or after other memory when room is needed."},
    {"backing", rule, "text", "device, managed",
     "What it is allocated as: device is plain memory that never spills; decided when memory is asked for, so only "
     "rules "
     "without kernel, argument and class can say it."},
    {"kernel", match, "text", "a pattern with *, ?, [a-z] and [!a-z]",
     "Kernels that touch it, by mangled name, by demangled name, or by demangled name without template arguments and "
     "parameters."},
    {"argument", match, "whole number or list of them", "0 to 4095", "Parameter number of the kernel, from 0."},
    {"size", match, "text, or table of min and max", "such as 64MiB, 64MiB.., ..1GiB, 64MiB..1GiB",
     "Size of the allocation as the program asked for it; both ends belong to the range."},
    {"order", match, "whole number or text", "such as 1, 3.., ..8, 3..8",
     "The how-manieth request for memory of the run, from 1."},
    {"caller", match, "text", "a pattern with *, ?, [a-z] and [!a-z]",
     "The library that asked for the memory, by path or by file name."},
    {"class", match, "text or list of texts", kClasses, "What Spillway has learned that the memory holds."},
    {"stream", match, "whole number or list of them", "0 to 4294967295",
     "Stream of the launch, or of a stream-ordered allocation; 0 is the legacy default stream, others count from 1."},
    {"device", match, "whole number or list of them", "0 to 1023", "Number of the device, as CUDA counts them."},
});

constexpr std::array<std::string_view, 4> kPlaceWords = {"auto", "device", "host", "stream"};
constexpr std::array<std::string_view, 3> kEvictWords = {"normal", "first", "last"};
constexpr std::array<std::string_view, 2> kBackingWords = {"device", "managed"};

}  // namespace

std::span<const RuleKeyRow> rule_keys() { return kKeys; }

std::vector<std::string_view> rule_key_names(RuleKeyPlace place) {
  std::vector<std::string_view> names;
  for (const RuleKeyRow& row : kKeys) {
    if (row.place == place) names.push_back(row.key);
  }
  return names;
}

std::span<const std::string_view> rule_place_words() { return kPlaceWords; }
std::span<const std::string_view> evict_words() { return kEvictWords; }
std::span<const std::string_view> backing_words() { return kBackingWords; }

}  // namespace spillway::policy
