#include "policy/span_map.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace spillway::policy {
namespace {

std::vector<SpanId> touch(SpanMap& map, AllocationId id, Bytes offset, Bytes extent = {}, Epoch epoch = {1}) {
  std::vector<SpanId> out;
  map.touch(id, offset, extent, epoch, out);
  return out;
}

TEST(SpanMap, EachPointerBeginsASpanAndTheSpanBeforeEndsThere) {
  SpanMap map;
  map.add({1}, 20_MiB);
  const SpanId whole = map.at({1}, 5_MiB);
  const SpanId tensor = touch(map, {1}, 8_MiB).at(0);
  EXPECT_EQ(map.span(whole), (Span{{1}, {}, 8_MiB}));
  EXPECT_EQ(map.span(tensor), (Span{{1}, 8_MiB, 12_MiB}));
  EXPECT_EQ(map.at({1}, 8_MiB), tensor);
  EXPECT_EQ(map.at({1}, Bytes((8u << 20) - 1)), whole);
}

TEST(SpanMap, TheSameUseGivesTheSameSpanAndChangesNothing) {
  SpanMap map;
  map.add({1}, 20_MiB);
  const auto first = touch(map, {1}, 8_MiB);
  const std::uint64_t version = map.version();
  EXPECT_EQ(touch(map, {1}, 8_MiB), first);
  EXPECT_EQ(map.version(), version);
}

TEST(SpanMap, AKnownExtentReachesOverLaterCuts) {
  SpanMap map;
  map.add({1}, 20_MiB);
  touch(map, {1}, 4_MiB);
  touch(map, {1}, 6_MiB);
  EXPECT_EQ(touch(map, {1}, {}, 5_MiB).size(), 2u);  // [0,4) and [4,6)
  EXPECT_EQ(touch(map, {1}, {}).size(), 2u) << "the extent is remembered";
  EXPECT_EQ(touch(map, {1}, 4_MiB).size(), 1u);
}

TEST(SpanMap, AUseDoesNotReachOverANeighbourThatBeginsBetweenTwoStepsOfTheGrid) {
  SpanMap map;
  map.add({1}, 20_MiB);
  const Bytes bytes = 4_MiB + 40_KiB;
  touch(map, {1}, bytes);
  EXPECT_EQ(touch(map, {1}, {}, bytes).size(), 1u);
  EXPECT_EQ(touch(map, {1}, {}, bytes + 64_KiB).size(), 2u);
}

TEST(SpanMap, CutsThatAreNotUsedAgeOutAndTheirBytesGoToTheSpanBefore) {
  SpanMap map;
  map.add({1}, 20_MiB);
  touch(map, {1}, 4_MiB, {}, {1});
  touch(map, {1}, 10_MiB, {}, {5});
  EXPECT_EQ(map.age({3}), 1u);
  EXPECT_EQ(map.span(map.at({1}, 4_MiB)).bytes, 10_MiB);
  EXPECT_EQ(map.span(map.at({1}, 10_MiB)).offset, 10_MiB);
  EXPECT_EQ(map.age({100}), 1u);
  EXPECT_EQ(map.size(), 1u) << "an allocation keeps its first span";
}

TEST(SpanMap, AtTheLimitUsesGoToTheEnclosingSpan) {
  SpanMap map(3);
  map.add({1}, 20_MiB);
  touch(map, {1}, 4_MiB);
  touch(map, {1}, 8_MiB);
  EXPECT_EQ(touch(map, {1}, 12_MiB).at(0), map.at({1}, 8_MiB));
  map.add({2}, 2_MiB);
  EXPECT_FALSE(map.at({2}, {}));
  EXPECT_EQ(map.check_invariants(), "");
}

TEST(SpanMap, UnknownAllocationsAndBytesOutsideTouchNothing) {
  SpanMap map;
  map.add({1}, 1_MiB);
  EXPECT_TRUE(touch(map, {2}, {}).empty());
  EXPECT_TRUE(touch(map, {1}, 1_MiB).empty());
  EXPECT_EQ(touch(map, {1}, 512_KiB, 400_GiB).size(), 1u);
  map.remove({1});
  map.remove({1});
  EXPECT_EQ(map.size(), 0u);
}

// The slow reference: one label per 64 KiB.
class Reference {
 public:
  void add(AllocationId id, std::uint64_t grains) { cuts_[id] = {{0, {0, 0}}}, grains_[id] = grains; }
  void remove(AllocationId id) { cuts_.erase(id), grains_.erase(id); }
  void touch(AllocationId id, std::uint64_t grain, std::uint64_t extent, std::uint32_t epoch) {
    auto& cuts = cuts_[id];
    auto& cut = cuts[grain];
    if (extent != 0) cut.second = extent;
    for (auto& [at, known] : cuts) {
      if (at == grain || (at > grain && at < grain + cut.second)) known.first = epoch;
    }
  }
  void age(std::uint32_t oldest) {
    for (auto& [id, cuts] : cuts_) {
      std::erase_if(cuts, [oldest](const auto& cut) { return cut.first != 0 && cut.second.first < oldest; });
    }
  }
  std::uint64_t start(AllocationId id, std::uint64_t grain) const {
    return std::prev(cuts_.at(id).upper_bound(grain))->first;
  }
  std::uint64_t grains(AllocationId id) const { return grains_.at(id); }
  std::vector<AllocationId> ids() const {
    std::vector<AllocationId> all;
    for (const auto& [id, cuts] : cuts_) all.push_back(id);
    return all;
  }

 private:
  std::map<AllocationId, std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>>> cuts_;
  std::map<AllocationId, std::uint64_t> grains_;
};

TEST(SpanMap, AgreesWithTheSlowReferenceOnRandomPrograms) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    auto random = [engine = std::mt19937(seed)]() mutable { return static_cast<std::uint32_t>(engine()); };
    SpanMap map;
    Reference reference;
    std::uint32_t next = 1;
    for (std::uint32_t step = 1; step < 600; ++step) {
      const auto ids = reference.ids();
      const std::uint32_t what = random() % 20;
      if (ids.empty() || what == 0) {
        const std::uint64_t grains = 1 + random() % 400;
        map.add({next}, kSpanGrid * grains);
        reference.add({next++}, grains);
      } else if (what == 1) {
        const AllocationId id = ids[random() % ids.size()];
        map.remove(id);
        reference.remove(id);
      } else if (what == 2) {
        const std::uint32_t oldest = step > 100 ? step - 100 : 0;
        map.age({oldest});
        reference.age(oldest);
      } else {
        const AllocationId id = ids[random() % ids.size()];
        const std::uint64_t grain = random() % reference.grains(id);
        const std::uint64_t extent =
            what < 6 ? std::min<std::uint64_t>(1 + random() % 60, reference.grains(id) - grain) : 0;
        touch(map, id, kSpanGrid * grain, kSpanGrid * extent, {step});
        reference.touch(id, grain, extent, step);
      }
      ASSERT_EQ(map.check_invariants(), "") << "seed " << seed << " step " << step;
      for (const AllocationId id : reference.ids()) {
        const std::uint64_t grain = random() % reference.grains(id);
        ASSERT_EQ(map.span(map.at(id, kSpanGrid * grain)).offset, kSpanGrid * reference.start(id, grain))
            << "seed " << seed << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace spillway::policy
