#include "kernels/calibration.hpp"

extern "C" {
extern const std::byte spillway_calibration_image_begin[];
extern const std::byte spillway_calibration_image_end[];
}

namespace spillway::kernels {

std::span<const std::byte> calibration_image() {
  return {spillway_calibration_image_begin, spillway_calibration_image_end};
}

}  // namespace spillway::kernels
