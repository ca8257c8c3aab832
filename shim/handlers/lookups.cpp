// cuGetProcAddress: the driver answers first, untouched; then its answer is exchanged for our entry of the same row.
#include <algorithm>
#include <cstring>
#include <optional>

#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/log.hpp"

namespace spillway::shim::handlers {

namespace {

// The version of the oldest row of this name; nothing for a name without a row.
std::optional<int> oldest_version(const char* name) {
  std::optional<int> oldest;
  for (const HookRow& row : kHooks) {
    if (std::strcmp(row.base, name) == 0) oldest = std::min(oldest.value_or(row.version), int{row.version});
  }
  return oldest;
}

// The runtime asks the look-up for itself; whatever pointer the driver gives for that, the answer is ours.
std::optional<HookId> itself(const char* name, int version) {
  if (std::strcmp(name, "cuGetProcAddress_v2") == 0) return HookId::cuGetProcAddress_v2;
  if (std::strcmp(name, "cuGetProcAddress") != 0) return std::nullopt;
  return version >= row_of(HookId::cuGetProcAddress_v2).version ? HookId::cuGetProcAddress_v2
                                                                : HookId::cuGetProcAddress;
}

void exchange(const char* name, void** address, int version, cuuint64_t flags) {
  if (name == nullptr || address == nullptr || *address == nullptr) return;
  if (is_exported_entry(*address)) return;  // the driver looks itself up by dlsym, which has answered with ours
  std::optional<HookId> row = row_at(*address, name, version, flags);
  if (!row) row = itself(name, version);
  if (row) {
    *address = exported_entry(*row);
  } else if (const std::optional<int> oldest = oldest_version(name)) {
    SPILLWAY_LOG(warning, "the driver's {} for CUDA {}.{} is {} than this Spillway knows: calls to it are not seen",
                 name, version / 1000, version % 1000 / 10, version < *oldest ? "older" : "newer");
  }
}

}  // namespace

CUresult get_proc_address(RealCall<PFN_cuGetProcAddress_v11030>& real, const char* symbol, void** address, int version,
                          cuuint64_t flags) {
  const CUresult result = real(symbol, address, version, flags);
  if (result == CUDA_SUCCESS) exchange(symbol, address, version, flags);
  return result;
}

CUresult get_proc_address(RealCall<PFN_cuGetProcAddress_v12000>& real, const char* symbol, void** address, int version,
                          cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  const CUresult result = real(symbol, address, version, flags, status);
  if (result == CUDA_SUCCESS) exchange(symbol, address, version, flags);
  return result;
}

}  // namespace spillway::shim::handlers
