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

void* (*malloc_below)(std::size_t) = nullptr;
void (*free_below)(void*) = nullptr;

EXPORTED void* malloc(std::size_t bytes) {
  if (malloc_below == nullptr) {
    malloc_below = next<void* (*)(std::size_t)>("malloc");
    free_below = next<void (*)(void*)>("free");
  }
  return malloc_below(bytes);
}

EXPORTED void free(void* memory) {
  if (memory != nullptr && free_below != nullptr) free_below(memory);
}
