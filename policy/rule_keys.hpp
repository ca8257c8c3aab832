// Every key that a [[rule]] and its `match` may hold: one table for the reader, the nearest key and the reference page.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace spillway::policy {

enum class RuleKeyPlace : std::uint8_t { rule, match };

struct RuleKeyRow {
  std::string_view key;
  RuleKeyPlace place;
  std::string_view type;
  std::string_view range;
  std::string_view sentence;
};

std::span<const RuleKeyRow> rule_keys();
std::vector<std::string_view> rule_key_names(RuleKeyPlace place);

// The words of `place` and `evict`, by the number of RulePlace and EvictClass, and of `backing` by Backing's.
std::span<const std::string_view> rule_place_words();
std::span<const std::string_view> evict_words();
std::span<const std::string_view> backing_words();

}  // namespace spillway::policy
