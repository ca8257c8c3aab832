#include "shim/library.hpp"

#include <dlfcn.h>
#include <link.h>

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

}  // namespace spillway::shim
