#include "policy/zeroed_array.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace spillway::policy {
namespace {

TEST(ZeroedArray, BeginsAsZerosAndTakesThePagesThatAreWritten) {
  constexpr std::size_t kSize = std::size_t{1} << 21U;  // 16 MiB
  ZeroedArray<std::uint64_t> array(kSize);
  ASSERT_EQ(array.size(), kSize);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(&array[0]) + page - 1) / page * page;
  const std::size_t pages = kSize * sizeof(std::uint64_t) / page - 1;
  const auto resident = [&] {
    std::vector<unsigned char> in(pages);
    EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), pages * page, in.data()), 0);
    return static_cast<std::size_t>(
        std::count_if(in.begin(), in.end(), [](unsigned char flags) { return (flags & 1U) != 0; }));
  };
  EXPECT_LT(resident(), pages / 4);
  array[kSize / 2] = 7;
  EXPECT_GE(resident(), 1U);
  EXPECT_LT(resident(), pages / 2) << "with its huge page";
  EXPECT_EQ(array[kSize / 2], 7U);
  array[kSize / 2] = 0;
  for (std::size_t index = 0; index < kSize; ++index) ASSERT_EQ(array[index], 0U) << index;
}

TEST(ZeroedArray, MayBeEmptyAndMoves) {
  EXPECT_EQ(ZeroedArray<int>().size(), 0U);
  EXPECT_EQ(ZeroedArray<int>(0).size(), 0U);
  ZeroedArray<int> array(3);
  array[1] = 5;
  ZeroedArray<int> other = std::move(array);
  EXPECT_EQ(array.size(), 0U);
  EXPECT_EQ(other.size(), 3U);
  EXPECT_EQ(other[1], 5);
  array = std::move(other);
  EXPECT_EQ(array[1], 5);
}

}  // namespace
}  // namespace spillway::policy
