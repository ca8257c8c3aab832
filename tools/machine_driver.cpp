// The driver and its devices, through libcuda as a program would load it. Needs no CUDA header: a dozen stable names.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "policy/settings.hpp"
#include "tools/machine.hpp"

namespace spillway::tools {
namespace {

// Numbers of CUdevice_attribute.
constexpr int kManagedMemory = 83;
constexpr int kConcurrentManagedAccess = 89;

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*device_total)(std::size_t*, int) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::string name_of_error(const Driver& driver, int code) {
  const char* name = nullptr;
  if (driver.error_name != nullptr && driver.error_name(code, &name) == 0 && name != nullptr) return name;
  return "error " + std::to_string(code);
}

void examine_device(const Driver& driver, int index, std::vector<Finding>& findings) {
  std::array<char, 256> name{};
  std::size_t total = 0;
  int managed = 0;
  int concurrent = 0;
  driver.device_name(name.data(), static_cast<int>(name.size()) - 1, index);
  driver.device_total(&total, index);
  driver.device_attribute(&managed, kManagedMemory, index);
  driver.device_attribute(&concurrent, kConcurrentManagedAccess, index);
  const std::string check = "device " + std::to_string(index);
  const std::string what = std::string(name.data()) + ", " + policy::format_bytes(policy::Bytes(total));
  if (managed == 0 || concurrent == 0) {
    findings.push_back({check, Verdict::problem,
                        what + ": no " + (managed == 0 ? "managed memory" : "concurrent managed access") +
                            ", so that nothing can spill and programs run as if bare",
                        "use a data-centre GPU of 2016 or later on Linux, outside a vGPU without unified memory"});
  } else {
    findings.push_back({check, Verdict::ok, what + ": managed memory with concurrent access", ""});
  }
  if (std::strstr(name.data(), "MIG") != nullptr) {
    findings.push_back({check, Verdict::warning, "a MIG slice: budgets count against the slice",
                        "check that concurrent managed access above is what you expect of the slice"});
  }
}

void examine_uvm_node(std::vector<Finding>& findings) {
  const int node = ::open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);
  if (node >= 0) {
    ::close(node);
    findings.push_back({"UVM node", Verdict::ok, "/dev/nvidia-uvm can be opened", ""});
    return;
  }
  findings.push_back({"UVM node", Verdict::problem,
                      std::string("/dev/nvidia-uvm cannot be opened: ") + std::strerror(errno),
                      "load the module (modprobe nvidia-uvm), and pass the node into the container"});
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool driver_is_there() { return ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr; }

std::vector<Finding> examine_driver() {
  std::vector<Finding> findings;
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    findings.push_back({"driver", Verdict::problem, "no NVIDIA driver: libcuda.so.1 cannot be loaded",
                        "install the driver, or try programs on the simulated device: spillway run --simulated"});
    return findings;
  }
  Driver driver;
  find(library, "cuGetErrorName", driver.error_name);
  if (!find(library, "cuInit", driver.init) || !find(library, "cuDriverGetVersion", driver.driver_version) ||
      !find(library, "cuDeviceGetCount", driver.device_count) ||
      !find(library, "cuDeviceGetName", driver.device_name) ||
      !find(library, "cuDeviceGetAttribute", driver.device_attribute) ||
      !find(library, "cuDeviceTotalMem_v2", driver.device_total)) {
    findings.push_back({"driver", Verdict::problem, "libcuda.so.1 lacks a function that every driver has",
                        "check LD_LIBRARY_PATH for a foreign libcuda.so.1"});
    return findings;
  }
  int version = 0;
  driver.driver_version(&version);
  if (const int error = driver.init(0); error != 0) {
    findings.push_back({"driver", Verdict::problem,
                        "libcuda.so.1 is there, but cuInit says " + name_of_error(driver, error),
                        "check that nvidia-smi works, and that the device nodes are in the container"});
    return findings;
  }
  findings.push_back({"driver", version >= 12000 ? Verdict::ok : Verdict::warning, "CUDA " + version_text(version),
                      version >= 12000 ? "" : "Spillway is tested from CUDA 12.0 on: update the driver"});
  int count = 0;
  driver.device_count(&count);
  if (count == 0) {
    findings.push_back({"devices", Verdict::problem, "the driver shows no device", "check CUDA_VISIBLE_DEVICES"});
    return findings;
  }
  for (int i = 0; i < count; ++i) examine_device(driver, i, findings);
  // The simulated device has no node; a real one does not work without.
  if (::dlsym(library, "spillway_simulated_statistics") == nullptr) examine_uvm_node(findings);
  return findings;
}

}  // namespace spillway::tools
