#include "tools/simulated_device/runtime/driver.hpp"

#include <dlfcn.h>

namespace spillway::simulated::runtime {
namespace {

struct Found {
  PFN_cuGetProcAddress_v12000 lookup = nullptr;
  Driver legacy;
  Driver per_thread;
  bool complete = false;
};

template <class Function>
bool find(PFN_cuGetProcAddress_v12000 lookup, const char* name, int version, cuuint64_t flags, Function& out) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  // Per-thread variants exist from CUDA 7 on.
  const int asked = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && version < 7000 ? 7000 : version;
  if (lookup(name, &address, asked, flags, &status) != CUDA_SUCCESS || address == nullptr) return false;
  out = reinterpret_cast<Function>(address);
  return true;
}

// A function an older driver lacks stays null; its runtime call then fails with cudaErrorCallRequiresNewerDriver.
void fill(PFN_cuGetProcAddress_v12000 lookup, cuuint64_t flags, Driver& out) {
#define DRIVER(name, version) (void)find(lookup, #name, version, flags, out.name);
#include "tools/simulated_device/runtime/driver_functions.def"
#undef DRIVER
}

Found search() {
  Found found;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return found;
  const auto first = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  if (first == nullptr || !find(first, "cuGetProcAddress", 12000, CU_GET_PROC_ADDRESS_DEFAULT, found.lookup))
    return found;
  fill(found.lookup, CU_GET_PROC_ADDRESS_LEGACY_STREAM, found.legacy);
  fill(found.lookup, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, found.per_thread);
  found.complete = found.legacy.cuInit != nullptr;
  return found;
}

const Found& found() {
  static const Found instance = search();
  return instance;
}

}  // namespace

DefaultStream& default_stream_of_call() {
  thread_local DefaultStream meaning = DefaultStream::legacy;
  return meaning;
}

const Driver* driver() {
  if (!found().complete) return nullptr;
  return default_stream_of_call() == DefaultStream::per_thread ? &found().per_thread : &found().legacy;
}

PFN_cuGetProcAddress_v12000 driver_lookup() { return found().lookup; }

}  // namespace spillway::simulated::runtime
