#include "policy/launch_shapes.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace spillway::policy {
namespace {

std::vector<PointerArgument> arguments(std::initializer_list<std::uint64_t> addresses) {
  std::vector<PointerArgument> list;
  for (const std::uint64_t address : addresses) {
    list.push_back({static_cast<std::uint16_t>(list.size()), Address{address}});
  }
  return list;
}

TEST(LaunchShapes, SameLaunchSameIdAndNewOnlyOnce) {
  LaunchShapes shapes;
  const auto pointers = arguments({0x1000, 0x2000});
  const auto first = shapes.intern({1}, 64, pointers);
  EXPECT_TRUE(first.is_new);
  EXPECT_EQ(first.shape, LaunchShapeId{1});
  const auto again = shapes.intern({1}, 64, pointers);
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(again.shape, first.shape);
}

TEST(LaunchShapes, EachPartOfTheKeyCounts) {
  LaunchShapes shapes;
  shapes.intern({1}, 64, arguments({0x1000, 0x2000}));
  EXPECT_TRUE(shapes.intern({2}, 64, arguments({0x1000, 0x2000})).is_new);
  EXPECT_TRUE(shapes.intern({1}, 65, arguments({0x1000, 0x2000})).is_new);
  EXPECT_TRUE(shapes.intern({1}, 64, arguments({0x2000, 0x1000})).is_new);
  EXPECT_TRUE(shapes.intern({1}, 64, arguments({0x1000})).is_new);
  EXPECT_TRUE(shapes.intern({1}, 64, {}).is_new);
  const std::vector<PointerArgument> other_index = {{0, {0x1000}}, {2, {0x2000}}};
  EXPECT_TRUE(shapes.intern({1}, 64, other_index).is_new);
  EXPECT_EQ(shapes.named(), 7U);
}

// Against a map that forgets nothing: within its limits the interner gives the same partition.
TEST(LaunchShapes, AgreesWithASimpleMap) {
  LaunchShapes shapes;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::vector<std::uint64_t>>, LaunchShapeId> reference;
  std::mt19937_64 random(4);
  for (int i = 0; i < 50'000; ++i) {
    const auto function = static_cast<std::uint32_t>(random() % 20);
    const std::uint64_t threads = random() % 4;
    std::vector<std::uint64_t> addresses(random() % 4);
    for (auto& address : addresses) address = (random() % 5) << 21U;
    std::vector<PointerArgument> list;
    for (const auto address : addresses) list.push_back({static_cast<std::uint16_t>(list.size()), {address}});
    const auto answer = shapes.intern({function}, threads, list);
    const auto [known, inserted] = reference.try_emplace({function, threads, addresses}, answer.shape);
    ASSERT_EQ(answer.is_new, inserted);
    ASSERT_EQ(answer.shape, known->second);
  }
}

TEST(LaunchShapes, MemoryIsBoundedAndShapesInUseKeepTheirId) {
  LaunchShapes shapes({256, LaunchShapes::kMostArguments});
  const auto hot = arguments({1, 2, 3});
  const LaunchShapeId id = shapes.intern({1}, 1, hot).shape;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const auto cold = arguments({0x100000 + i});
    ASSERT_TRUE(shapes.intern({2}, 1, cold).is_new);
    if (i % 50 == 0) {
      ASSERT_EQ(shapes.intern({1}, 1, hot).shape, id);
    }
    ASSERT_LE(shapes.size(), 512U);
  }
  const auto forgotten = shapes.intern({2}, 1, arguments({0x100000}));
  EXPECT_TRUE(forgotten.is_new);
  EXPECT_EQ(forgotten.shape.value, 20'002U) << "ids are never reused";
}

TEST(LaunchShapes, ManyArgumentsAreBoundedToo) {
  LaunchShapes shapes({1024, 1});
  std::vector<PointerArgument> huge(10'000, {1, {2}});
  for (std::uint64_t i = 0; i < 50; ++i) {
    huge.front().address.value = i;
    EXPECT_TRUE(shapes.intern({1}, 1, huge).is_new);
    EXPECT_FALSE(shapes.intern({1}, 1, huge).is_new);
    EXPECT_LE(shapes.size(), 2U);
  }
}

}  // namespace
}  // namespace spillway::policy
