// Strong types of everything policy counts or names. No function of policy takes a bare integer.
//
// Quantities (Bytes, Nanoseconds) add and compare with their own kind only; identifiers compare only.
// All are trivially copyable and the size of their representation.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace spillway::policy {

// A number with a unit. Subtraction below zero is a bug of the caller; `saturating_minus` is for estimates.
template <class Tag, class Rep>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : count_(count) {}
  [[nodiscard]] constexpr Rep count() const { return count_; }
  constexpr Quantity& operator+=(Quantity other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.count_ + b.count_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.count_ - b.count_); }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return Quantity(a.count_ * factor); }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;
  [[nodiscard]] constexpr Quantity saturating_minus(Quantity other) const {
    return count_ > other.count_ ? Quantity(count_ - other.count_) : Quantity();
  }

 private:
  Rep count_{};
};

// A name for one thing of a kind. The default value names nothing.
template <class Tag, class Rep>
struct Id {
  Rep value{};
  friend constexpr auto operator<=>(Id, Id) = default;
  [[nodiscard]] constexpr explicit operator bool() const { return value != Rep{}; }
};

using Bytes = Quantity<struct BytesTag, std::uint64_t>;
// Time since the trace began, or a duration. The source is the shim's CLOCK_MONOTONIC, or the simulated clock.
using Nanoseconds = Quantity<struct NanosecondsTag, std::int64_t>;

// A device virtual address, as the program sees it. 0 is no address.
using Address = Id<struct AddressTag, std::uint64_t>;
constexpr Address operator+(Address a, Bytes b) { return {a.value + b.count()}; }

using DeviceIndex = Id<struct DeviceTag, std::uint32_t>;         // CUDA ordinal; 0 is a valid device
using AllocationId = Id<struct AllocationTag, std::uint32_t>;    // counts from 1, never reused in a run
using FunctionId = Id<struct FunctionTag, std::uint32_t>;        // counts from 1
using CallerId = Id<struct CallerTag, std::uint32_t>;            // library that asked; counts from 1
using StreamId = Id<struct StreamTag, std::uint32_t>;            // 0 legacy default stream; others count from 1
using GraphId = Id<struct GraphTag, std::uint32_t>;              // an executable graph; counts from 1
using LaunchShapeId = Id<struct LaunchShapeTag, std::uint32_t>;  // (function, grid, touched pointers); counts from 1
using LaunchNumber = Id<struct LaunchNumberTag, std::uint64_t>;  // position in the launch sequence; counts from 1
using DecisionId = Id<struct DecisionTag, std::uint64_t>;        // counts from 1

constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes(n << 10); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(n << 20); }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(n << 30); }

// The driver's residency block (UVM va_block): residency is kept and moved in these.
inline constexpr Bytes kChunk = Bytes(std::uint64_t{2} << 20);

}  // namespace spillway::policy

template <class Tag, class Rep>
struct std::hash<spillway::policy::Id<Tag, Rep>> {
  std::size_t operator()(spillway::policy::Id<Tag, Rep> id) const noexcept { return std::hash<Rep>{}(id.value); }
};
