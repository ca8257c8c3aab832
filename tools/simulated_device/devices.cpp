// Devices and their attributes. Attribute values are those of the card the costs were measured on, except memory.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tools/simulated_device/contexts.hpp"
#include "tools/simulated_device/device_name.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

constexpr int kMajor = 9;
constexpr int kMinor = 0;

CUresult need_device(CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  return valid_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int limit_attribute(CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 232448;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 233472;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 62914560;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return kMajor;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return kMinor;
    default:
      return -1;
  }
}

bool is_supported_feature(CUdevice_attribute attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult device_get(CUdevice* device, int ordinal) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult device_get_count(int* count) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(world().devices.size());
  return CUDA_SUCCESS;
}

CUresult device_get_name(char* name, int length, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(name, static_cast<std::size_t>(length), "%s %d", kDeviceName, device);
  return CUDA_SUCCESS;
}

CUresult device_get_uuid(CUuuid* uuid, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(uuid->bytes, "SpillwaySimDev0", 16);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult device_total_mem(size_t* bytes, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = world().settings.memory_bytes;
  return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
      *value = world().settings.managed ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = world().settings.host_numa ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = 16 + device;
      return CUDA_SUCCESS;
    default:
      break;
  }
  const int limit = limit_attribute(attribute);
  *value = limit >= 0 ? limit : (is_supported_feature(attribute) ? 1 : 0);
  return CUDA_SUCCESS;
}

CUresult device_compute_capability(int* major, int* minor, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = kMajor;
  *minor = kMinor;
  return CUDA_SUCCESS;
}

CUresult device_can_access_peer(int* can, CUdevice device, CUdevice peer) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  SPILLWAY_RETURN_IF_FAILED(need_device(peer));
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult device_get_p2p_attribute(int* value, CUdevice_P2PAttribute, CUdevice device, CUdevice peer) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  SPILLWAY_RETURN_IF_FAILED(need_device(peer));
  if (value == nullptr || device == peer) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult device_get_pci_bus_id(char* text, int length, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  if (text == nullptr || length < 13) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 16U + static_cast<unsigned>(device));
  return CUDA_SUCCESS;
}

CUresult device_get_by_pci_bus_id(CUdevice* device, const char* text) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  unsigned domain = 0;
  unsigned bus = 0;
  if (device == nullptr || text == nullptr || std::sscanf(text, "%x:%x", &domain, &bus) != 2)
    return CUDA_ERROR_INVALID_VALUE;
  *device = static_cast<CUdevice>(bus) - 16;
  return valid_device(*device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult device_primary_ctx_retain(CUcontext* context, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device& card = world().devices[static_cast<std::size_t>(device)];
  if (!card.primary) card.primary = make_context(device, card.primary_flags, true);
  if (!card.primary) return CUDA_ERROR_OUT_OF_MEMORY;
  ++card.primary_users;
  *context = handle_of(card.primary.get());
  return CUDA_SUCCESS;
}

CUresult device_primary_ctx_release(CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  Device& card = world().devices[static_cast<std::size_t>(device)];
  if (card.primary_users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--card.primary_users > 0) return CUDA_SUCCESS;
  return device_primary_ctx_reset(device);
}

CUresult device_primary_ctx_reset(CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  Device& card = world().devices[static_cast<std::size_t>(device)];
  const auto context = card.primary;
  card.primary.reset();
  card.primary_users = 0;
  if (context) destroy_context(context);
  return CUDA_SUCCESS;
}

CUresult device_primary_ctx_set_flags(CUdevice device, unsigned int flags) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  Device& card = world().devices[static_cast<std::size_t>(device)];
  card.primary_flags = flags;
  if (card.primary) card.primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult device_primary_ctx_get_state(CUdevice device, unsigned int* flags, int* active) {
  SPILLWAY_RETURN_IF_FAILED(need_device(device));
  const Device& card = world().devices[static_cast<std::size_t>(device)];
  if (flags != nullptr) *flags = card.primary_flags;
  if (active != nullptr) *active = card.primary ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated::driver
