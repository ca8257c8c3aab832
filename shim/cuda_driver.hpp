// The driver's header with every ABI version declared under its own name. cuda.h otherwise renames cuMemAlloc to
// cuMemAlloc_v2 by macro, which would rename the rows of the hook list as well. Include this, never cuda.h.
#pragma once

#define __CUDA_API_VERSION_INTERNAL 1  // NOLINT(bugprone-reserved-identifier): cuda.h's own switch
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstdint>
