// What the simulated driver loads: every twin of kernels/, in one list that lives as long as the library.
#include "kernels/twins/twin.hpp"

namespace spillway::kernels {

extern "C" __attribute__((visibility("default"))) std::size_t spillway_host_twins(const HostTwin** first) {
  static const std::vector<HostTwin> kTwins = [] {
    std::vector<HostTwin> all = mlp_twins();
    for (const auto& more : {decode_twins(), calibration_twins()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  if (first != nullptr) *first = kTwins.data();
  return kTwins.size();
}

}  // namespace spillway::kernels
