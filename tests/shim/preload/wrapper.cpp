// Another interposer of a driver function: forwards to the next one after it.
#include <dlfcn.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void* wrapper_next() {
  void* volatile next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");  // no tail call: RTLD_NEXT is relative to the return address
  return next;
}

EXPORTED int cuMemAlloc_v2(unsigned long long* pointer, unsigned long bytes) {
  return reinterpret_cast<int (*)(unsigned long long*, unsigned long)>(wrapper_next())(pointer, bytes);
}
