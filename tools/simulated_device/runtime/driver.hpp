// The driver, as the stand-in runtime finds it: exactly the real runtime's way, because that way is what an interposer
// must get right. dlopen libcuda.so.1, dlsym cuGetProcAddress_v2, ask that for "cuGetProcAddress", and ask the answer
// for the rest.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cudaTypedefs.h>

namespace spillway::simulated::runtime {

struct Driver {
#define DRIVER(name, version) PFN_##name##_v##version name = nullptr;
#include "tools/simulated_device/runtime/driver_functions.def"
#undef DRIVER
};

enum class DefaultStream { legacy, per_thread };

// What stream 0 means in the runtime call going on in this thread.
DefaultStream& default_stream_of_call();

// Null when there is no driver, or one without the functions needed.
const Driver* driver();
PFN_cuGetProcAddress_v12000 driver_lookup();

}  // namespace spillway::simulated::runtime
