// Adaptive binary range coding: each yes or no costs what it surprises by. RangeEncoder and RangeDecoder have the same
// calls, so that one model serves both ways: a value goes in, the value that was coded comes out (the decoder ignores
// what goes in).
//
// Pure. The decoder trusts nothing: past the end of its bytes it reads zeros, so that a caller who bounds what it asks
// for always ends.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spillway::policy::trace {

// How likely a yes is, from those seen so far: quick at first, steady later.
class Likelihood {
 public:
  static constexpr unsigned kBits = 15;
  [[nodiscard]] std::uint32_t yes() const { return yes_; }
  void learn(bool yes) {
    constexpr std::array<std::uint8_t, 8> kSlowness = {1, 2, 3, 3, 4, 4, 4, 5};
    const unsigned slowness = kSlowness[seen_];
    const std::uint32_t now = yes_;
    const std::uint32_t part = (yes ? (1U << kBits) - now : now) >> slowness;
    yes_ = static_cast<std::uint16_t>(yes ? yes_ + part : yes_ - part);
    if (seen_ + 1U < kSlowness.size()) ++seen_;
  }

 private:
  std::uint16_t yes_ = 1U << (kBits - 1);  // never 0 nor all: the least step that is taken leaves 31 of them
  std::uint16_t seen_ = 0;
};

namespace range {
inline constexpr std::uint32_t kLeast = 1U << 24;  // the range is brought back above this after each step
}  // namespace range

class RangeEncoder {
 public:
  static constexpr bool kDecodes = false;

  // Appends to `bytes`, which the caller keeps.
  void begin(std::vector<std::byte>& bytes) {
    bytes_ = &bytes;
    low_ = 0;
    range_ = 0xFFFFFFFF;
    held_ = 0;
    held_byte_ = 0;
    first_ = true;
  }
  bool bit(Likelihood& likelihood, bool yes) {
    const std::uint32_t bound = (range_ >> Likelihood::kBits) * likelihood.yes();
    if (yes) {
      range_ = bound;
    } else {
      low_ += bound;
      range_ -= bound;
    }
    likelihood.learn(yes);
    while (range_ < range::kLeast) shift();
    return yes;
  }
  // The lowest `count` bits, at most 16, as they are.
  std::uint32_t bits(unsigned count, std::uint32_t value) {
    range_ >>= count;
    low_ += std::uint64_t{range_} * value;
    while (range_ < range::kLeast) shift();
    return value;
  }
  void finish() {
    for (int i = 0; i < 5; ++i) shift();
  }

 private:
  // The top byte of what is certain goes out. A carry may still run through bytes of 0xFF: those are held back.
  void shift() {
    range_ <<= 8;
    if (low_ < 0xFF000000U || low_ >= (std::uint64_t{1} << 32)) {
      const auto carry = static_cast<std::uint8_t>(low_ >> 32);
      if (!first_) bytes_->push_back(static_cast<std::byte>(held_byte_ + carry));
      first_ = false;
      for (; held_ > 0; --held_) bytes_->push_back(static_cast<std::byte>(0xFF + carry));
      held_byte_ = static_cast<std::uint8_t>(low_ >> 24);
    } else {
      ++held_;
    }
    low_ = (low_ & 0x00FFFFFFU) << 8;
  }

  std::vector<std::byte>* bytes_ = nullptr;
  std::uint64_t low_ = 0;
  std::uint32_t range_ = 0;
  std::uint64_t held_ = 0;
  std::uint8_t held_byte_ = 0;
  bool first_ = true;  // nothing is held yet
};

class RangeDecoder {
 public:
  static constexpr bool kDecodes = true;

  void begin(std::span<const std::byte> bytes) {
    position_ = bytes.data();
    end_ = bytes.data() + bytes.size();
    range_ = 0xFFFFFFFF;
    code_ = 0;
    for (int i = 0; i < 4; ++i) code_ = code_ << 8 | next();
  }
  bool bit(Likelihood& likelihood, bool /*ignored*/) {
    const std::uint32_t bound = (range_ >> Likelihood::kBits) * likelihood.yes();
    const bool yes = code_ < bound;
    if (yes) {
      range_ = bound;
    } else {
      code_ -= bound;
      range_ -= bound;
    }
    likelihood.learn(yes);
    while (range_ < range::kLeast) shift();
    return yes;
  }
  std::uint32_t bits(unsigned count, std::uint32_t /*ignored*/) {
    range_ >>= count;
    std::uint32_t value = code_ / range_;
    const std::uint32_t most = (1U << count) - 1;
    if (value > most) value = most;  // only in damaged bytes
    code_ -= value * range_;
    while (range_ < range::kLeast) shift();
    return value;
  }

 private:
  std::uint32_t next() { return position_ == end_ ? 0U : static_cast<std::uint32_t>(*position_++); }
  void shift() {
    range_ <<= 8;
    code_ = code_ << 8 | next();
  }

  const std::byte* position_ = nullptr;
  const std::byte* end_ = nullptr;
  std::uint32_t range_ = 0;
  std::uint32_t code_ = 0;
};

}  // namespace spillway::policy::trace
