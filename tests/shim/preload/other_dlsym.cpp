// Another interposer of dlsym, as profilers and overlays bring one.
#include <dlfcn.h>

#include <cstdio>

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) noexcept {
  using Dlsym = void* (*)(void*, const char*);
#if defined(__x86_64__)
  static const auto next = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
#else
  static const auto next = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17"));
#endif
  return next(handle, name);
}
