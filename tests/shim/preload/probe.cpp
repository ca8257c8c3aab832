// A program that is linked against the driver and looks its functions up in every way there is, and says which library
// each way led to. Its parts are chosen by name on the command line; see preload_test.cpp for what is expected.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "shim/hook.hpp"
#include "tests/shim/stand_in/stand_in.hpp"

namespace {

using spillway::shim::HookRow;
using spillway::shim::kHooks;

// The file name of the library that holds a function.
std::string library_of(void* function) {
  Dl_info info{};
  if (function == nullptr) return "nothing";
  if (dladdr(function, &info) == 0) return "unknown";
  const char* slash = std::strrchr(info.dli_fname, '/');
  return slash == nullptr ? info.dli_fname : slash + 1;
}

void say(const char* what, void* function) { std::printf("%s: %s\n", what, library_of(function).c_str()); }

// How many rows each way led to the shim, out of how many.
struct Tally {
  const char* way;
  int shim = 0;
  int other = 0;
  void note(const HookRow& row, void* function) {
    if (library_of(function) == "libspillway.so") {
      ++shim;
    } else {
      ++other;
      std::printf("%s by %s: %s\n", row.symbol, way, library_of(function).c_str());
    }
  }
  ~Tally() { std::printf("%s: %d shim, %d other\n", way, shim, other); }
};

void* const kLinked[] = {
#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler) reinterpret_cast<void*>(&::symbol),
#include "shim/hook_list.def"
};

void linked() {
  Tally tally{"linked"};
  for (const HookRow& row : kHooks) tally.note(row, kLinked[static_cast<unsigned>(row.id)]);
}

void by_handle(const char* way, void* handle) {
  Tally tally{way};
  for (const HookRow& row : kHooks) tally.note(row, dlsym(handle, row.symbol));
}

void by_get_proc_address(void* handle) {
  const auto first = reinterpret_cast<PFN_cuGetProcAddress_v11030>(dlsym(handle, "cuGetProcAddress"));
  const auto second = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(handle, "cuGetProcAddress_v2"));
  Tally tally_first{"first form"};
  Tally tally_second{"second form"};
  for (const HookRow& row : kHooks) {
    const cuuint64_t flags = row.variant == spillway::shim::Variant::legacy
                                 ? CU_GET_PROC_ADDRESS_LEGACY_STREAM
                                 : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    void* address = nullptr;
    first(row.base, &address, row.version, flags);
    tally_first.note(row, address);
    address = nullptr;
    second(row.base, &address, row.version, flags, nullptr);
    tally_second.note(row, address);
  }
}

void semantics(void* driver) {
  void* math = dlopen("libm.so.6", RTLD_LAZY);
  say("handle that has no such symbol", dlsym(math, "cuMemAlloc_v2"));
  std::printf("its error: %s\n", dlerror());
  say("unknown name", dlsym(driver, "cuNoSuchThing"));
  std::printf("its error: %s\n", dlerror());
  say("another library's function", dlsym(math, "cosf"));
  say("not hooked", dlsym(driver, "cuDriverGetVersion"));
  say("default scope, not ours", dlsym(RTLD_DEFAULT, "puts"));
  void* found = dlsym(driver, "cuMemAlloc_v2");
  const char* error = dlerror();
  std::printf("error after success: %s\n", found != nullptr && error == nullptr ? "none" : error);
  say("deep-bound handle", dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND), "cuMemAlloc_v2"));
}

// The wrapper (wrapper.cpp), if it is loaded: what follows it.
void next_of_wrapper() {
  using Next = void* (*)();
  if (const auto next = reinterpret_cast<Next>(dlsym(RTLD_DEFAULT, "wrapper_next"))) say("wrapper's next", next());
}

std::uint64_t driver_calls(spillway::shim::HookId id) { return stand_in_calls(static_cast<unsigned>(id)); }

int calls() {
  CUdeviceptr pointer = 0;
  const std::uint64_t before = driver_calls(spillway::shim::HookId::cuMemAlloc_v2);
  const CUresult result = ::cuMemAlloc_v2(&pointer, 16);
  std::printf("cuMemAlloc: %d, forwarded %d time(s)\n", static_cast<int>(result),
              static_cast<int>(driver_calls(spillway::shim::HookId::cuMemAlloc_v2) - before));
  std::fflush(stdout);
  return 0;
}

// Fork before and after the driver was used, with threads; and exec.
int processes() {
  const auto child = [](const char* when) {
    const pid_t pid = fork();
    if (pid == 0) {
      std::printf("child %s: ", when);
      calls();
      std::exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    std::printf("child %s ended with %d\n", when, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    std::fflush(stdout);
  };
  child("before");
  calls();
  child("after");
  std::thread launcher([] {
    for (int i = 0; i < 1000; ++i) ::cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(::cuMemAlloc_v2(nullptr, 1) == CUDA_SUCCESS ? 0 : 1);
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) std::printf("child %d of a threaded parent ended with %d\n", i, status);
  }
  launcher.join();
  std::fflush(stdout);
  return execl("/bin/echo", "echo", "after exec", static_cast<char*>(nullptr));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string part = count > 1 ? arguments[1] : "";
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return std::puts(dlerror()), 1;
  if (part == "ways") {
    linked();
    by_handle("handle", driver);
    by_handle("default scope", RTLD_DEFAULT);
    by_get_proc_address(driver);
  } else if (part == "semantics") {
    semantics(driver);
  } else if (part == "next") {
    next_of_wrapper();
    calls();
  } else if (part == "calls") {
    calls();
  } else if (part == "processes") {
    return processes();
  }
  return 0;
}
