// Which loaded object a return address lies in: how an allocation is tied to the library that asked for it.
#pragma once

#include <string>

namespace spillway::shim {

struct Library {
  const void* base = nullptr;  // load address, its identity; null if the address is in none
  std::string path;
};

// Takes no lock, the loader's neither: a library's constructor may be waiting for a thread that allocates.
Library library_at(const void* address);

}  // namespace spillway::shim
