#include "policy/device_budget.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

constexpr Bytes kReserveCap = 1_GiB;
constexpr std::uint64_t kReserveShare = 32;

}  // namespace

Bytes free_less_reserve(const DeviceSeen& device) {
  const Bytes reserve = std::min(kReserveCap, Bytes(device.total.count() / kReserveShare));
  return device.free.saturating_minus(reserve);
}

Bytes device_budget(const Settings& settings, const DeviceSeen& device) {
  if (!settings.device_budget) return free_less_reserve(device);
  return std::min(settings.device_budget->of(device.total), device.free);
}

}  // namespace spillway::policy
