// The life of code: handles of an unloaded module may come back as another kernel, so what is known of them goes first.
#include "shim/handlers.hpp"
#include "shim/launch_path.hpp"
#include "shim/session.hpp"

namespace spillway::shim::handlers {
namespace {

// What was launched is told first, while what is known of it is known.
void code_goes(const void* owner) {
  if (Session* session = Session::get()) session->code_going();
  launch_path().functions.forget(owner);
}

}  // namespace

CUresult unload_module(RealCall<PFN_cuModuleUnload_v2000>& real, CUmodule module) {
  code_goes(module);
  return real(module);
}

CUresult unload_library(RealCall<PFN_cuLibraryUnload_v12000>& real, CUlibrary library) {
  code_goes(library);
  return real(library);
}

}  // namespace spillway::shim::handlers
