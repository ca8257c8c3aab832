#include "policy/function_book.hpp"

#include <gtest/gtest.h>

#include <array>

namespace spillway::policy {
namespace {

// m x k by k x n, bytes of two-byte elements.
std::array<Bytes, 3> product(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  return {Bytes(2 * m * k), Bytes(2 * k * n), Bytes(2 * m * n)};
}

double crossings(std::size_t position, const std::array<Bytes, 3>& extents) {
  return default_crossings(FunctionKind::matrix, operand_columns(position, extents, 0));
}

// As measured with 8192 x 8192 weights.
TEST(DefaultCrossings, OfWeightsAreThoseMeasured) {
  EXPECT_EQ(crossings(0, product(8192, 16, 8192)), 1);
  EXPECT_EQ(crossings(0, product(8192, 128, 8192)), 1);
  EXPECT_NEAR(crossings(0, product(8192, 1024, 8192)), 4, 1e-9);
  EXPECT_NEAR(crossings(0, product(8192, 4096, 8192)), 16, 1e-9);
}

TEST(DefaultCrossings, OfTheOtherOperandFollowTheWeightsAndAResultCrossesOnce) {
  const auto extents = product(2048, 16, 4096);
  EXPECT_NEAR(crossings(1, extents), 8, 1e-9);
  EXPECT_EQ(crossings(2, extents), 1);
}

TEST(DefaultCrossings, ThreadsTellWhereNoThreePointersDo) {
  const std::array<Bytes, 1> square{Bytes(2 * 8192 * 8192)};
  const double columns = operand_columns(0, square, 384 * 64 * 16);
  EXPECT_NEAR(default_crossings(FunctionKind::matrix, columns), 16, 1e-9);
  EXPECT_EQ(default_crossings(FunctionKind::other, columns), 1);
  EXPECT_EQ(default_crossings(FunctionKind::sparse, columns), 0.1);
}

}  // namespace
}  // namespace spillway::policy
