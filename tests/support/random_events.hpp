// Random events and decisions of every kind, for round trips. The same seed gives the same sequence everywhere.
#pragma once

#include <cstdint>
#include <random>

#include "policy/decision.hpp"
#include "policy/event.hpp"

namespace spillway::tests {

class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed) : random_(seed) {}

  policy::EventBody event_body(std::size_t alternative);
  policy::EventBody event_body() { return event_body(below(std::variant_size_v<policy::EventBody>)); }
  policy::DecisionBody decision_body(std::size_t alternative);
  policy::Decision decision(std::size_t alternative);
  policy::Decision decision() { return decision(below(std::variant_size_v<policy::DecisionBody>)); }

  std::uint64_t below(std::uint64_t limit) {
    return std::uniform_int_distribution<std::uint64_t>(0, limit - 1)(random_);
  }

 private:
  // Any bit pattern, extremes included more often than chance would.
  template <class Number>
  Number any() {
    switch (below(8)) {
      case 0:
        return Number{0};
      case 1:
        return std::numeric_limits<Number>::max();
      case 2:
        return std::numeric_limits<Number>::min();
      default:
        return static_cast<Number>(random_());
    }
  }
  template <class Identifier>
  Identifier id() {
    return Identifier{any<decltype(Identifier::value)>()};
  }
  policy::Bytes bytes() { return policy::Bytes(any<std::uint64_t>()); }
  policy::Nanoseconds nanoseconds() { return policy::Nanoseconds(any<std::int64_t>()); }
  policy::DriverResult result() { return {any<std::int32_t>()}; }
  template <class Enum>
  Enum one_of(unsigned count) {
    return static_cast<Enum>(below(count));
  }
  std::string text();

  std::mt19937_64 random_;
};

}  // namespace spillway::tests
