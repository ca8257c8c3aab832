#include <gtest/gtest.h>

#include <cstring>

#include "kernels/calibration.hpp"

namespace spillway::kernels {
namespace {

// The driver knows a fat binary by its first word, and how long it is by its header.
TEST(CalibrationImage, IsAWholeFatBinary) {
  const std::span<const std::byte> image = calibration_image();
  struct {
    std::uint32_t magic;
    std::uint16_t version, header_bytes;
    std::uint64_t bytes;
  } header{};
  ASSERT_GT(image.size(), sizeof header);
  std::memcpy(&header, image.data(), sizeof header);
  EXPECT_EQ(header.magic, 0xBA55ED50U);
  EXPECT_EQ(header.header_bytes + header.bytes, image.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image.data()) % 8, 0U);
}

}  // namespace
}  // namespace spillway::kernels
