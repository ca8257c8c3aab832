#include "shim/library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <cerrno>

namespace spillway::shim {

Library library_at(const void* address) {
  dl_find_object found{};
  if (address == nullptr) return {};
  if (_dl_find_object(const_cast<void*>(address), &found) != 0 || found.dlfo_link_map == nullptr) return {};
  // The program itself has no name in the loader's list.
  const char* name = found.dlfo_link_map->l_name;
  const bool named = name != nullptr && *name != '\0';
  return {found.dlfo_map_start, named ? name : program_invocation_name};
}

namespace {

constexpr int kMostFrames = 32;

bool is_cuda_runtime(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return path.compare(slash == std::string::npos ? 0 : slash + 1, 9, "libcudart") == 0;
}

struct Walk {
  const void* runtime = nullptr;
  const void* found = nullptr;
  bool inside = false;  // our own frames are behind us
  int frames = 0;
};

_Unwind_Reason_Code step(_Unwind_Context* context, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  if (++walk.frames > kMostFrames) return _URC_END_OF_STACK;
  dl_find_object object{};
  const auto address = reinterpret_cast<void*>(_Unwind_GetIP(context));
  if (address == nullptr || _dl_find_object(address, &object) != 0) return _URC_END_OF_STACK;
  if (object.dlfo_map_start == walk.runtime) {
    walk.inside = true;
  } else if (walk.inside) {
    walk.found = address;
    return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

}  // namespace

Library calling_library(const void* return_address) {
  Library direct = library_at(return_address);
  if (direct.base == nullptr || !is_cuda_runtime(direct.path)) return direct;
  Walk walk;
  walk.runtime = direct.base;
  _Unwind_Backtrace(step, &walk);
  Library behind = library_at(walk.found);
  return behind.base == nullptr ? direct : behind;
}

}  // namespace spillway::shim
