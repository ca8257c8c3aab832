// An allocator that finds the one below it by dlsym inside its first malloc, as many do.
#include <dlfcn.h>

#include <cstddef>

namespace {

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void* malloc(std::size_t bytes) {
  static void* (*below)(std::size_t) = nullptr;
  if (below == nullptr) below = next<void* (*)(std::size_t)>("malloc");
  return below(bytes);
}

EXPORTED void free(void* memory) {
  static void (*below)(void*) = nullptr;
  if (below == nullptr) below = next<void (*)(void*)>("free");
  below(memory);
}
