#include "policy/plain_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>

namespace spillway::policy {
namespace {

TEST(PlainMemory, LargeAllocationsTakeWholeBlocksAndSmallOnesShareThem) {
  PlainMemory memory;
  memory.add({64 << 20}, 1_MiB);
  EXPECT_EQ(memory.live(), 2_MiB);
  memory.add({66 << 20}, 2_MiB + Bytes(1));
  EXPECT_EQ(memory.live(), 6_MiB);
  memory.add({80 << 20}, Bytes(512));
  memory.add({(80 << 20) + 512}, 1_MiB - Bytes(512));
  EXPECT_EQ(memory.live(), 8_MiB);
  memory.remove({80 << 20}, Bytes(512));
  EXPECT_EQ(memory.live(), 8_MiB) << "the other one keeps the block";
  memory.remove({(80 << 20) + 512}, 1_MiB - Bytes(512));
  memory.remove({64 << 20}, 1_MiB);
  memory.remove({66 << 20}, 2_MiB + Bytes(1));
  EXPECT_EQ(memory.live(), Bytes());
}

TEST(PlainMemory, APromiseIsTheMostThatMayBeTaken) {
  PlainMemory memory;
  memory.promise(Bytes(1));
  memory.promise(3_MiB);
  EXPECT_EQ(memory.taken(), 6_MiB);
  EXPECT_EQ(memory.live(), Bytes());
  memory.withdraw(Bytes(1));
  memory.add({80 << 20}, Bytes(1));
  EXPECT_EQ(memory.taken(), 6_MiB);
  memory.withdraw(3_MiB);
  EXPECT_EQ(memory.taken(), 2_MiB);
}

TEST(PlainMemory, SmallOnesWithoutAnAddressCountAsTheyAre) {
  PlainMemory memory;
  memory.add({}, 300_KiB);
  memory.add({}, 5_MiB);
  EXPECT_EQ(memory.live(), 300_KiB + 6_MiB);
  memory.remove({}, 300_KiB);
  memory.remove({}, 5_MiB);
  EXPECT_EQ(memory.live(), Bytes());
}

// Against a set of the blocks that a random program touches: a driver that never lets an allocation cross a block it
// does not own.
TEST(PlainMemory, CountsTheBlocksThatARandomProgramHas) {
  std::mt19937 random(7);
  PlainMemory memory;
  std::map<std::uint64_t, std::uint64_t> live;  // bytes by address
  const auto blocks = [&] {
    std::set<std::uint64_t> taken;
    for (const auto& [address, bytes] : live) {
      for (std::uint64_t at = address >> 21U; at <= (address + bytes - 1) >> 21U; ++at) taken.insert(at);
    }
    return kChunk * taken.size();
  };
  std::uint64_t next_block = 1000;
  for (int step = 0; step < 3000; ++step) {
    if (live.empty() || random() % 5 < 3) {
      const bool small = random() % 3 != 0;
      const std::uint64_t bytes = small ? 512 + random() % (1U << 19) : (1U << 20) + random() % (5U << 20);
      // Small ones go to four places of an old block or of a new one.
      const std::uint64_t old = 1000 + random() % (next_block - 999);
      const std::uint64_t address = ((small ? old : next_block) << 21U) + (small ? (random() % 4) << 19U : 0);
      const auto after = live.lower_bound(address);
      const bool taken = (after != live.end() && after->first < address + bytes) ||
                         (after != live.begin() && std::prev(after)->first + std::prev(after)->second > address);
      const bool in_a_large_one = std::any_of(live.begin(), live.end(), [&](const auto& other) {
        return other.second >= 1U << 20U && (address >> 21U) >= (other.first >> 21U) &&
               (address >> 21U) <= ((other.first + other.second - 1) >> 21U);
      });
      if (taken || in_a_large_one) continue;
      live[address] = bytes;
      next_block = std::max(next_block, ((address + bytes) >> 21U) + 1);
      memory.add({address}, Bytes(bytes));
    } else {
      const auto which = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      memory.remove({which->first}, Bytes(which->second));
      live.erase(which);
    }
    ASSERT_EQ(memory.live(), blocks()) << "step " << step;
  }
}

}  // namespace
}  // namespace spillway::policy
