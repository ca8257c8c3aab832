// The CUDA driver as `probe` calls it, found at run time: the command is built and runs where there is no toolkit.
//
// Names and numbers are those of the driver's stable ABI. A call that fails throws DriverFailure with the function's
// name and the driver's name for the code. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace spillway::tools {

struct DriverFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using DeviceAddress = std::uint64_t;
inline constexpr int kCpuDevice = -1;  // CU_DEVICE_CPU

enum class MemoryAdvice : int {  // CUmem_advise
  set_read_mostly = 1,
  unset_read_mostly = 2,
  set_preferred = 3,
  set_accessed_by = 5,
};

class CudaDriver {
 public:
  // `library`: a path, or "libcuda.so.1" for the system's. Returns what is wrong and what to do, or nothing.
  std::optional<std::string> open(const std::string& library);
  [[nodiscard]] bool simulated() const { return virtual_time_ != nullptr; }
  // Seconds since some moment: the machine's, or the simulated device's own, which knows no waiting for a processor.
  [[nodiscard]] double clock() const;
  void check(int code, const char* function) const;

  // CUresult and its handles without cuda.h.
  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_uuid)(std::uint8_t*, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*context_retain)(void**, int) = nullptr;
  int (*context_release)(int) = nullptr;
  int (*context_set)(void*) = nullptr;
  int (*memory_info)(std::size_t*, std::size_t*) = nullptr;
  int (*allocate)(DeviceAddress*, std::size_t) = nullptr;
  int (*allocate_managed)(DeviceAddress*, std::size_t, unsigned) = nullptr;
  int (*free)(DeviceAddress) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  int (*free_host)(void*) = nullptr;
  int (*copy_in)(DeviceAddress, const void*, std::size_t, void*) = nullptr;
  int (*copy_out)(void*, DeviceAddress, std::size_t, void*) = nullptr;
  int (*prefetch)(DeviceAddress, std::size_t, int, void*) = nullptr;
  int (*advise)(DeviceAddress, std::size_t, int, int) = nullptr;
  int (*stream_create)(void**, unsigned) = nullptr;
  int (*stream_synchronize)(void*) = nullptr;
  int (*stream_wait)(void*, void*, unsigned) = nullptr;
  int (*stream_destroy)(void*) = nullptr;
  int (*event_create)(void**, unsigned) = nullptr;
  int (*event_record)(void*, void*) = nullptr;
  int (*event_synchronize)(void*) = nullptr;
  int (*event_elapsed)(float*, void*, void*) = nullptr;
  int (*event_destroy)(void*) = nullptr;
  int (*module_load)(void**, const void*) = nullptr;
  int (*module_function)(void**, void*, const char*) = nullptr;
  int (*module_unload)(void*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**) = nullptr;

 private:
  int (*error_name_)(int, const char**) = nullptr;
  std::int64_t (*virtual_time_)() = nullptr;  // nanoseconds; only the simulated device has it
};

}  // namespace spillway::tools
