// How likely numbers are: the models of the values in a packed frame (FORMAT.md, "Packed frames"). `Coder` is a
// RangeEncoder or a RangeDecoder; every function takes the value (anything, when decoding) and returns what was coded.
//
// Pure, of fixed size. Resetting one is assigning a fresh one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "policy/trace/range_coder.hpp"

namespace spillway::policy::trace {

// A value below 2^Bits by its bits from the top, each in the light of those before.
template <unsigned Bits>
class TreeModel {
 public:
  template <class Coder>
  std::uint32_t code(Coder& coder, std::uint32_t value) {
    std::uint32_t node = 1;
    for (unsigned bit = Bits; bit-- > 0;) {
      node = node << 1 | static_cast<std::uint32_t>(coder.bit(nodes_[node], (value >> bit & 1U) != 0));
    }
    return node - (1U << Bits);
  }

 private:
  std::array<Likelihood, std::size_t{1} << Bits> nodes_{};
};

template <class Coder>
std::uint64_t code_plain_bits(Coder& coder, unsigned count, std::uint64_t value) {
  std::uint64_t result = 0;
  while (count > 0) {
    const unsigned step = std::min(count, 16U);
    count -= step;
    result = result << step | coder.bits(step, static_cast<std::uint32_t>(value >> count & ((1U << step) - 1)));
  }
  return result;
}

// A difference of any 64-bit numbers: how long it is, its sign, the two bits below its highest, and the rest as it is.
// Where much is aligned, `aligned` says at once that the lowest nine bits are zero.
class DifferenceModel {
 public:
  template <class Coder>
  std::uint64_t code(Coder& coder, std::uint64_t value) {
    const bool negative = static_cast<std::int64_t>(value) < 0;
    std::uint64_t size = negative ? 0 - value : value;
    auto length = static_cast<unsigned>(std::bit_width(size));
    const std::uint32_t escaped = length_.code(coder, std::min(length, kLong));
    if (escaped == 0) return 0;
    length = escaped < kLong ? escaped : kLong + coder.bits(1, length > kLong ? 1U : 0U);
    const bool minus = coder.bit(sign_[escaped], negative);
    unsigned rest = length - 1;
    std::uint64_t high = 1;
    std::uint32_t node = 1;
    for (int i = 0; i < 2 && rest > 0; ++i) {
      --rest;
      const bool one = coder.bit(high_[escaped * 4 + node], (size >> rest & 1U) != 0);
      node = node << 1 | static_cast<std::uint32_t>(one);
      high = high << 1 | static_cast<std::uint64_t>(one);
    }
    unsigned zeros = 0;
    if (rest >= kAligned + 3 && coder.bit(aligned_, (size & ((1U << kAligned) - 1)) == 0)) zeros = kAligned;
    rest -= zeros;
    size = (high << rest | code_plain_bits(coder, rest, size >> zeros)) << zeros;
    return minus ? 0 - size : size;
  }

 private:
  static constexpr unsigned kLong = 63;  // this length and one more share a place
  static constexpr unsigned kAligned = 9;
  TreeModel<6> length_;
  std::array<Likelihood, 64> sign_{};
  std::array<Likelihood, 256> high_{};
  Likelihood aligned_;
};

// A number that is often the one before, or as far from it as that was from its own.
class FieldModel {
 public:
  template <class Coder>
  std::uint64_t code(Coder& coder, std::uint64_t value) {
    bool& was_same = was_same_;
    if (coder.bit(same_[was_same ? 1 : 0], value == last_)) {
      was_same = true;
      return last_;
    }
    was_same = false;
    std::uint64_t now = last_ + step_;
    if (!coder.bit(stepped_, value == now)) now = last_ + difference_.code(coder, value - last_);
    step_ = now - last_;
    last_ = now;
    return now;
  }
  [[nodiscard]] std::uint64_t last() const { return last_; }

 private:
  std::array<Likelihood, 2> same_{};
  Likelihood stepped_;
  DifferenceModel difference_;
  std::uint64_t last_ = 0;
  std::uint64_t step_ = 1;
  bool was_same_ = true;
};

// Device addresses: those that came lately come again, and what followed one of them follows it again.
class AddressModel {
 public:
  // `guess` is the best one from elsewhere.
  template <class Coder>
  std::uint64_t code(Coder& coder, std::uint64_t value, std::uint64_t guess) {
    const std::uint64_t address = code_one(coder, value, guess);
    follower(before_) = address;
    before_ = address;
    return address;
  }

 private:
  static constexpr std::size_t kRecent = 32;
  static constexpr std::size_t kFollowers = 8192;

  std::uint64_t& follower(std::uint64_t address) {
    return followers_[(address * 0x9E3779B97F4A7C15U) >> (64 - std::bit_width(kFollowers - 1))];
  }
  template <class Coder>
  std::uint64_t code_one(Coder& coder, std::uint64_t value, std::uint64_t guess) {
    const bool hit = coder.bit(guessed_[history_ & 3U], value == guess);
    history_ = history_ << 1 | static_cast<unsigned>(hit);
    if (hit) return guess;
    const std::uint64_t next = follower(before_);
    if (next != guess && coder.bit(followed_, value == next)) return next;
    const auto found = Coder::kDecodes ? recent_.end() : std::find(recent_.begin(), recent_.end(), value);
    std::size_t at = kRecent;
    if (coder.bit(seen_, found != recent_.end())) {
      at = place_.code(coder, static_cast<std::uint32_t>(found - recent_.begin()) & (kRecent - 1));
      value = recent_[at];
    } else {
      value = guess + difference_.code(coder, value - guess);
    }
    // To the front, so that what is old falls out at the end.
    std::copy_backward(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(std::min(at, kRecent - 1)),
                       recent_.begin() + static_cast<std::ptrdiff_t>(std::min(at, kRecent - 1) + 1));
    recent_[0] = value;
    return value;
  }

  std::array<Likelihood, 4> guessed_{};
  Likelihood followed_;
  Likelihood seen_;
  TreeModel<5> place_;
  DifferenceModel difference_;
  std::array<std::uint64_t, kRecent> recent_{};
  std::array<std::uint64_t, kFollowers> followers_{};
  std::uint64_t before_ = 0;
  unsigned history_ = 0;
};

}  // namespace spillway::policy::trace
