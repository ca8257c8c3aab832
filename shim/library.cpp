#include "shim/library.hpp"

#include <dlfcn.h>

namespace spillway::shim {

Library library_at(const void* address) {
  Dl_info info{};
  if (address == nullptr || ::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return {info.dli_fbase, info.dli_fname};
}

}  // namespace spillway::shim
