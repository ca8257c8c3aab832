#include "tools/moving_faults.hpp"

#include <gtest/gtest.h>

namespace spillway::tools {
namespace {

using policy::Address;
using policy::Bytes;
using policy::Nanoseconds;

constexpr Address kChunk{0x20'0000};
constexpr Bytes kBytes{0x20'0000};

constexpr Nanoseconds ms(std::int64_t milliseconds) { return Nanoseconds(milliseconds * 1'000'000); }

TEST(MovingFaults, AFaultWithinItsMoveCountsWhicheverIsToldFirst) {
  MovingFaults faults;
  faults.fault({0x30'0000}, ms(104));
  EXPECT_EQ(faults.count(), 0U) << "the move's end is not told yet";
  faults.moved(kChunk, kBytes, ms(10), ms(110));
  EXPECT_EQ(faults.count(), 1U);
  faults.fault(kChunk, ms(112));
  EXPECT_EQ(faults.count(), 2U) << "told late";
}

TEST(MovingFaults, OthersAreFaultsOfMemoryThatStays) {
  MovingFaults faults;
  faults.fault(kChunk, ms(99));  // before the move began
  faults.moved(kChunk, kBytes, ms(10), ms(110));
  faults.fault(kChunk, ms(161));  // too late for it
  faults.fault({0x1F'FFFF}, ms(111));
  faults.fault(kChunk + kBytes, ms(111));
  EXPECT_EQ(faults.count(), 0U);
}

TEST(MovingFaults, WhatIsKeptIsBounded) {
  MovingFaults faults;
  faults.fault(kChunk, ms(105));
  for (std::uint64_t i = 0; i < 5000; ++i) faults.fault({0x4000'0000 + i}, ms(105));
  faults.moved(kChunk, kBytes, ms(10), ms(110));
  EXPECT_EQ(faults.count(), 0U) << "the oldest is forgotten";
  for (std::uint64_t i = 0; i < 5000; ++i) faults.moved({0x4000'0000}, Bytes(1), ms(1), ms(110));
  faults.fault(kChunk, ms(111));
  EXPECT_EQ(faults.count(), 0U);
}

}  // namespace
}  // namespace spillway::tools
