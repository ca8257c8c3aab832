// A program that is not linked against the driver: weak references and late loading.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

extern "C" {
int cuInit(unsigned) __attribute__((weak));
int cuMemAdvise_v2(unsigned long long, unsigned long, int, unsigned long long) __attribute__((weak));
}

namespace {

void say(const char* what, void* function) {
  Dl_info info{};
  const char* name = function == nullptr || dladdr(function, &info) == 0 ? "nothing" : info.dli_fname;
  const char* slash = std::strrchr(name, '/');
  std::printf("%s: %s\n", what, slash == nullptr ? name : slash + 1);
}

}  // namespace

int main() {
  say("default scope before loading", dlsym(RTLD_DEFAULT, "cuInit"));
  say("program's handle before loading", dlsym(dlopen(nullptr, RTLD_LAZY), "cuMemAlloc_v2"));
  if (cuInit != nullptr) std::printf("cuInit: %d\n", cuInit(0));
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  std::printf("driver: %s\n", driver == nullptr ? "none" : "loaded");
  if (driver == nullptr) return 0;
  say("handle", dlsym(driver, "cuMemAlloc_v2"));
  say("missing in old drivers", dlsym(driver, "cuMemAdvise_v2"));
  if (cuMemAdvise_v2 != nullptr) std::printf("cuMemAdvise_v2: %d\n", cuMemAdvise_v2(0, 0, 0, 0));
  return 0;
}
