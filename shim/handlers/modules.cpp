// The life of code: handles of an unloaded module may come back as another kernel, so what is known of them goes first.
#include "shim/handlers.hpp"
#include "shim/launch_path.hpp"

namespace spillway::shim::handlers {

CUresult unload_module(RealCall<PFN_cuModuleUnload_v2000>& real, CUmodule module) {
  launch_path().functions.forget(module);
  return real(module);
}

CUresult unload_library(RealCall<PFN_cuLibraryUnload_v12000>& real, CUlibrary library) {
  launch_path().functions.forget(library);
  return real(library);
}

}  // namespace spillway::shim::handlers
