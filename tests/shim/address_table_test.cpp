#include "shim/address_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace spillway::shim {
namespace {

using policy::Address;
using policy::AllocationId;
using policy::Bytes;
using policy::operator""_MiB;
using Outcome = AddressTable::Outcome;

constexpr std::uint64_t kBase = 0x7f12'0000'0000;

TEST(AddressTable, FindsTheWholeOfAnAllocationAndNothingBeside) {
  const auto table = std::make_unique<AddressTable>();
  ASSERT_EQ(table->insert({kBase + 512}, Bytes(5'000'000), {7}), Outcome::done);
  EXPECT_FALSE(table->contains(kBase + 511));
  EXPECT_TRUE(table->contains(kBase + 512));
  EXPECT_TRUE(table->contains(kBase + 512 + 4'999'999));
  EXPECT_FALSE(table->contains(kBase + 512 + 5'000'000));
  const auto found = table->find(kBase + 3'000'000);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, AllocationId{7});
  EXPECT_EQ(found->begin, kBase + 512);
  EXPECT_EQ(found->end, kBase + 512 + 5'000'000);
}

TEST(AddressTable, NeighboursShareAPage) {
  const auto table = std::make_unique<AddressTable>();
  const std::uint64_t middle = kBase + 3 * AddressTable::kSmallest + 4096;
  ASSERT_EQ(table->insert({kBase}, Bytes(middle - kBase), {1}), Outcome::done);
  ASSERT_EQ(table->insert({middle}, 4_MiB, {2}), Outcome::done);
  EXPECT_EQ(table->find(middle - 1)->id, AllocationId{1});
  EXPECT_EQ(table->find(middle)->id, AllocationId{2});
  ASSERT_EQ(table->remove({kBase}), Outcome::done);
  EXPECT_FALSE(table->contains(middle - 1));
  EXPECT_TRUE(table->contains(middle));
  ASSERT_EQ(table->insert({kBase}, Bytes(middle - kBase), {3}), Outcome::done);
  ASSERT_EQ(table->remove({middle}), Outcome::done);
  EXPECT_EQ(table->find(middle - 1)->id, AllocationId{3});
  EXPECT_FALSE(table->contains(middle));
}

TEST(AddressTable, RefusesWhatItCannotHold) {
  const auto table = std::make_unique<AddressTable>();
  EXPECT_EQ(table->insert({kBase}, Bytes(AddressTable::kSmallest - 1), {1}), Outcome::too_small);
  EXPECT_EQ(table->insert({0}, 4_MiB, {1}), Outcome::out_of_range);
  EXPECT_EQ(table->insert({(std::uint64_t{1} << 48) - 4096}, 4_MiB, {1}), Outcome::out_of_range);
  EXPECT_EQ(table->insert({std::uint64_t{1} << 60}, 4_MiB, {1}), Outcome::out_of_range);
  ASSERT_EQ(table->insert({kBase}, 8_MiB, {1}), Outcome::done);
  for (const std::uint64_t begin : {kBase - 4096, kBase, kBase + 4096, kBase + (4 << 20)}) {
    EXPECT_EQ(table->insert({begin}, 4_MiB, {2}), Outcome::overlaps) << begin - kBase;
  }
  EXPECT_EQ(table->insert({kBase - (2 << 20)}, 16_MiB, {2}), Outcome::overlaps);
  EXPECT_EQ(table->remove({kBase + 4096}), Outcome::unknown);
  EXPECT_EQ(table->remove({0}), Outcome::unknown);
  EXPECT_EQ(table->size(), 1U);
  for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 48}) {
    EXPECT_FALSE(table->contains(word)) << word;
  }
}

// The slow reference: a map of begin to {end, id}.
class Reference {
 public:
  bool insert(std::uint64_t begin, std::uint64_t bytes, std::uint32_t id) {
    auto next = live_.lower_bound(begin);
    if (next != live_.end() && next->first < begin + bytes) return false;
    if (next != live_.begin() && std::prev(next)->second.first > begin) return false;
    live_[begin] = {begin + bytes, id};
    return true;
  }
  std::uint32_t find(std::uint64_t word) const {
    auto next = live_.upper_bound(word);
    if (next == live_.begin()) return 0;
    const auto& [end, id] = std::prev(next)->second;
    return word < end ? id : 0;
  }
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>>& live() { return live_; }

 private:
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>> live_;
};

TEST(AddressTable, AgreesWithASlowReference) {
  const auto table = std::make_unique<AddressTable>();
  Reference reference;
  std::mt19937_64 random(20261129);
  // Crowded (96 pages), so that neighbours and overlaps abound, across the border of a leaf (32 GiB).
  const std::uint64_t low = (std::uint64_t{0x7f} << 40) + (std::uint64_t{32} << 30) - 48 * AddressTable::kSmallest;
  const std::uint64_t span = 96 * AddressTable::kSmallest;
  for (std::uint32_t step = 1; step <= 20'000; ++step) {
    if (random() % 3 != 0) {
      const std::uint64_t begin = low + random() % span / 512 * 512;
      const std::uint64_t bytes = AddressTable::kSmallest + random() % (3 * AddressTable::kSmallest);
      const bool expected = reference.insert(begin, bytes, step);
      ASSERT_EQ(table->insert({begin}, Bytes(bytes), {step}), expected ? Outcome::done : Outcome::overlaps);
    } else if (!reference.live().empty()) {
      auto victim =
          std::next(reference.live().begin(), static_cast<std::ptrdiff_t>(random() % reference.live().size()));
      ASSERT_EQ(table->remove({victim->first}), Outcome::done);
      reference.live().erase(victim);
    }
    ASSERT_EQ(table->size(), reference.live().size());
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t word = low + random() % (span + 8 * AddressTable::kSmallest);
      const auto found = table->find(word);
      ASSERT_EQ(found ? found->id.value : 0, reference.find(word)) << "step " << step;
      ASSERT_EQ(table->contains(word), found.has_value());
    }
    for (const auto& [begin, end_and_id] : reference.live()) {
      ASSERT_TRUE(table->contains(begin) && table->contains(end_and_id.first - 1));
    }
  }
}

// A reader beside a busy writer: what stays is always found, what was never there is never found, and what comes and
// goes is found as it was or not at all.
TEST(AddressTable, ReadersBesideAWriter) {
  const auto table = std::make_unique<AddressTable>();
  constexpr std::uint64_t kStable = kBase;
  constexpr std::uint64_t kNever = kBase + (std::uint64_t{1} << 40);
  const std::uint64_t churn = kStable + 3 * AddressTable::kSmallest / 2;  // shares a page with the stable one
  ASSERT_EQ(table->insert({kStable}, Bytes(churn - kStable), {1}), Outcome::done);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto stable = table->find(churn - 1);
        if (!stable || stable->id.value != 1 || !table->contains(kStable)) ++wrong;
        if (table->contains(kNever)) ++wrong;
        const auto moving = table->find(churn + 100);
        if (moving &&
            (moving->begin != churn || (moving->end - moving->begin) / AddressTable::kSmallest != moving->id.value)) {
          ++wrong;
        }
      }
    });
  }
  for (int round = 0; round < 20'000; ++round) {
    const std::uint32_t pages = 2 + static_cast<std::uint32_t>(round) % 5;  // the id says how long it is
    ASSERT_EQ(table->insert({churn}, Bytes(pages * AddressTable::kSmallest), {pages}), Outcome::done);
    ASSERT_EQ(table->remove({churn}), Outcome::done);
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace spillway::shim
