// What an allocation was said to hold. Decisions name a class for the bytes that they are about, and may change their
// mind; pieces of one allocation may differ. Its class is the one that was named for most bytes, so far: tables, the
// story, exports, `top` and the page of `view` all go by this. The sentence of a decision says what its own bytes were
// "taken for" at the time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <variant>

#include "policy/decision.hpp"
#include "policy/span_class.hpp"

namespace spillway::policy {

class ClassShare {
 public:
  // A decision about the allocation. One without a class, or with one that is not known here, counts for nothing.
  void add(const Decision& decision) {
    const std::size_t named = decision.cause.span_class;
    if (named == 0 || named >= bytes_.size()) return;
    bytes_[named] += std::max<std::uint64_t>(std::visit(BytesOf{}, decision.body), 1);
  }

  [[nodiscard]] std::uint16_t most() const {
    const auto best = std::max_element(bytes_.begin(), bytes_.end());  // the lowest number of equals
    return *best == 0 ? 0 : static_cast<std::uint16_t>(best - bytes_.begin());
  }
  [[nodiscard]] bool names(std::uint16_t span_class) const {
    return span_class < bytes_.size() && bytes_[span_class] > 0;
  }
  // Of the bytes that were named, those of the class; 0 if none were.
  [[nodiscard]] std::uint64_t percent(std::uint16_t span_class) const {
    double all = 0;
    for (const std::uint64_t part : bytes_) all += static_cast<double>(part);
    if (all == 0 || span_class >= bytes_.size()) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(bytes_[span_class]) * 100 / all);
  }

 private:
  struct BytesOf {
    std::uint64_t operator()(const MoveRange& body) const { return body.bytes.count(); }
    std::uint64_t operator()(const AdviseRange& body) const { return body.bytes.count(); }
    std::uint64_t operator()(const Note& body) const { return body.bytes.count(); }
    template <class Other>
    std::uint64_t operator()(const Other& /*body*/) const {
      return 0;
    }
  };

  std::array<std::uint64_t, kSpanClassNames.size()> bytes_{};
};

}  // namespace spillway::policy
