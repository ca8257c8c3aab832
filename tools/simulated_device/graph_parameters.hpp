// Node parameters of the driver's graph calls, turned into what nodes hold, and checked. World's lock held.
#pragma once

#include "tools/simulated_device/graphs.hpp"

namespace spillway::simulated {

CUresult launch_from(const CUDA_KERNEL_NODE_PARAMS_v1* parameters, Launch& out);
CUresult launch_from(const CUDA_KERNEL_NODE_PARAMS* parameters, Launch& out);
CUresult launch_from(const CUDA_KERNEL_NODE_PARAMS_v3* parameters, Launch& out);

// A null context means the current one.
CUresult copy_from(const CUDA_MEMCPY3D* parameters, CUcontext context, CopyNode& out);
CUresult fill_from(const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext context, FillNode& out);

}  // namespace spillway::simulated
