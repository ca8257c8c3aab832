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
// Who asked, by the return address of a call into us and the stack of this thread. The shared CUDA runtime only passes
// the program's calls on: then it is the library that called the runtime, as far as the stack can be unwound; else the
// runtime. No lock either. For allocations: some microseconds where the runtime is between.
Library calling_library(const void* return_address);

}  // namespace spillway::shim
