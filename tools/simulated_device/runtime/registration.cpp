#include "tools/simulated_device/runtime/registration.hpp"

#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/simulated_device/runtime/runtime.hpp"

namespace spillway::simulated::runtime {
namespace {

struct FatBinary {
  const void* image = nullptr;
  CUlibrary library = nullptr;  // loaded when a kernel of it is first needed
};

struct Registered {
  FatBinary* binary = nullptr;
  std::string name;
  CUkernel kernel = nullptr;
};

struct Variable {
  std::size_t bytes = 0;
  CUdeviceptr memory = 0;
};

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<FatBinary>> binaries;
  std::unordered_map<const void*, Registered> functions;
  std::unordered_map<const void*, Variable> variables;
};

// Constructors of the program register before ours may have run, and its exit handlers come after ours: never
// destroyed.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

// Trivially destructible: a launch may come after the thread's other thread-local objects are gone.
struct ConfigurationStack {
  LaunchConfiguration items[16];
  std::size_t size = 0;
};
thread_local ConfigurationStack configurations;

}  // namespace

void** register_fat_binary(const void* image) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.binaries.push_back(std::make_unique<FatBinary>());
  all.binaries.back()->image = image;
  return reinterpret_cast<void**>(all.binaries.back().get());
}

void unregister_fat_binary(void** handle) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  // The driver may be gone by now; what it holds for the library ends with the process.
  std::erase_if(all.functions,
                [&](const auto& entry) { return entry.second.binary == reinterpret_cast<FatBinary*>(handle); });
}

void register_function(void** handle, const void* host_function, const char* name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.functions[host_function] = {reinterpret_cast<FatBinary*>(handle), name, nullptr};
}

void register_variable(void**, const void* host_variable, const char*, std::size_t bytes) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.variables[host_variable] = {bytes, 0};
}

unsigned push_configuration(const LaunchConfiguration& configuration) {
  if (configurations.size == std::size(configurations.items)) return 1;
  configurations.items[configurations.size++] = configuration;
  return 0;
}

std::optional<LaunchConfiguration> pop_configuration() {
  if (configurations.size == 0) return std::nullopt;
  return configurations.items[--configurations.size];
}

cudaError_t find_kernel(const void* host_function, CUkernel& out) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.functions.find(host_function);
  if (found == all.functions.end()) {
    for (const auto& [function, registered] : all.functions) {
      if (registered.kernel != nullptr && reinterpret_cast<const void*>(registered.kernel) == host_function) {
        out = registered.kernel;  // a cudaKernel_t given out by cudaGetKernel
        return cudaSuccess;
      }
    }
    return cudaErrorInvalidDeviceFunction;
  }
  Registered& function = found->second;
  if (function.kernel == nullptr) {
    FatBinary& binary = *function.binary;
    if (binary.library == nullptr) {
      SPILLWAY_RETURN_IF_ERROR(error_of(
          driver()->cuLibraryLoadData(&binary.library, binary.image, nullptr, nullptr, 0, nullptr, nullptr, 0)));
    }
    SPILLWAY_RETURN_IF_ERROR(
        error_of(driver()->cuLibraryGetKernel(&function.kernel, binary.library, function.name.c_str())));
  }
  out = function.kernel;
  return cudaSuccess;
}

cudaError_t find_variable(const void* host_variable, void*& address, std::size_t& bytes) {
  SPILLWAY_RETURN_IF_ERROR(need_context());
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.variables.find(host_variable);
  if (found == all.variables.end()) return cudaErrorInvalidSymbol;
  Variable& variable = found->second;
  if (variable.memory == 0) {
    SPILLWAY_RETURN_IF_ERROR(error_of(driver()->cuMemAlloc(&variable.memory, variable.bytes)));
    SPILLWAY_RETURN_IF_ERROR(error_of(driver()->cuMemsetD8(variable.memory, 0, variable.bytes)));
  }
  address = reinterpret_cast<void*>(variable.memory);
  bytes = variable.bytes;
  return cudaSuccess;
}

}  // namespace spillway::simulated::runtime
