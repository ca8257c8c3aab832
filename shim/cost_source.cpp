#include "shim/cost_source.hpp"

#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "policy/cost_file.hpp"
#include "shim/driver.hpp"
#include "shim/environment.hpp"
#include "shim/log.hpp"
#include "shim/program.hpp"
#include "shim/text_file.hpp"

namespace spillway::shim {
namespace {

std::optional<policy::CostTable> costs_of(std::uint32_t index, const std::string& folder) {
  const Driver& real = driver();
  CUdevice handle = 0;
  CUuuid uuid{};
  if (real.cuDeviceGetUuid_v2 == nullptr || real.cuDeviceGet(&handle, static_cast<int>(index)) != CUDA_SUCCESS ||
      real.cuDeviceGetUuid_v2(&uuid, handle) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  policy::ProbedDevice device;
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), uuid.bytes, bytes.size());
  device.uuid = policy::uuid_text(bytes);
  device.driver = driver_version();
  const std::string path = folder + "/" + policy::cost_file_name(device.uuid);
  const char* reason = "";
  const std::optional<std::string> text = read_text_file(path.c_str(), policy::kLongestCostFile, reason);
  // Never probed; or not by this user, who cannot look there.
  if (!text && ::access(path.c_str(), F_OK) != 0) return std::nullopt;
  std::string why;
  if (!text) {
    why = policy::unread_cost_file(reason);
  } else if (text->size() > policy::kLongestCostFile) {
    why = "it is longer than any that `spillway probe` writes; remove it";
  } else if (auto costs = policy::read_cost_file(*text, device, why)) {
    SPILLWAY_LOG_ONCE(debug, "costs are those of {}", path);
    return costs;
  }
  SPILLWAY_LOG(warning, "{} is ignored: {}; going on with the built-in costs", path, why);
  return std::nullopt;
}

}  // namespace

std::optional<policy::CostTable> probed_costs(std::uint32_t device_count) {
  const std::string folder = policy::cost_folder(read_environment("XDG_CACHE_HOME"), read_environment("HOME"));
  if (folder.empty()) return std::nullopt;
  for (std::uint32_t index = 0; index < device_count; ++index) {
    if (auto costs = costs_of(index, folder)) return costs;
  }
  return std::nullopt;
}

}  // namespace spillway::shim
