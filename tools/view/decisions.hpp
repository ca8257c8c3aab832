// Every decision in a sentence (policy/explain), with what it is about: what the page tells when something is clicked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/decision.hpp"
#include "policy/explain.hpp"
#include "tools/view/allocations.hpp"

namespace spillway::tools::view {

class Decisions {
 public:
  void begin(policy::RuleWords rules) { rules_ = std::move(rules); }
  void add(Blocks& blocks, policy::Nanoseconds time, const policy::Decision& decision, const Allocations& allocations);
  Json finish(Blocks& blocks);
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  static constexpr std::size_t kMost = 400'000;
  static constexpr std::size_t kSentences = 2048;  // in a block

  Column id_, time_, row_, kind_, reason_, launch_;
  policy::RuleWords rules_;
  std::vector<std::string> sentences_;
  Json blocks_json_ = Json::array();
  std::uint64_t left_out_ = 0;
};

}  // namespace spillway::tools::view
