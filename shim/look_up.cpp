#include "shim/look_up.hpp"

#include <dlfcn.h>

#include <atomic>

#include "shim/cupti_hooks.hpp"
#include "shim/driver.hpp"
#include "shim/thread_state.hpp"

namespace spillway::shim {

namespace {

// The version every glibc of the architecture has. A newer one (2.34) exists beside it on newer systems only, and a
// failed dlvsym allocates its message: an allocator that looks itself up through us would come back here.
#if defined(__x86_64__)
constexpr const char* kOldestVersion = "GLIBC_2.2.5";
#else
constexpr const char* kOldestVersion = "GLIBC_2.17";
#endif

constinit std::atomic<DlsymFunction> system_dlsym{nullptr};

}  // namespace

DlsymFunction real_dlsym() {
  DlsymFunction found = system_dlsym.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  void* address = dlvsym(RTLD_NEXT, "dlsym", kOldestVersion);
  if (address == nullptr) address = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  found = reinterpret_cast<DlsymFunction>(address);
  system_dlsym.store(found, std::memory_order_release);
  return found;
}

// What dlsym shall do: jump on to `next` with the program's arguments, or return `answer` if `next` is null.
struct LookUpVerdict {
  void* answer;
  void* next;
};

extern "C" __attribute__((visibility("hidden"))) LookUpVerdict spillway_look_up(void* handle,
                                                                                const char* name) noexcept {
  const DlsymFunction system = real_dlsym();
  const LookUpVerdict go_on{nullptr, reinterpret_cast<void*>(system)};
  // RTLD_NEXT depends on who asks, which only the real dlsym can tell; its answer is the program's own.
  if (name == nullptr || name[0] != 'c' || name[1] != 'u' || handle == RTLD_NEXT || system == nullptr) return go_on;
  if (name[2] == 'p' && name[3] == 't' && name[4] == 'i' && this_thread.depth == 0) {
    // Found only because we are here, by RTLD_DEFAULT: without us it would be the next one's, or nobody's.
    void* own = cupti_hook_for(name, system(handle, name));
    return own != nullptr ? LookUpVerdict{own, nullptr} : go_on;
  }
  const std::optional<HookId> row = row_of_symbol(name);
  if (!row || this_thread.resolving) return go_on;
  void* found = system(handle, name);
  if (found == nullptr) return go_on;  // once more for the error message
  const bool loaded = find_driver(Search::loaded_only);
  if (found == exported_entry(*row)) {
    if (loaded) return go_on;
    // Found only because we are here: without us, and with no libcuda loaded, the program would not find it.
    return {system(RTLD_NEXT, name), nullptr};
  }
  const RealTables* tables = real_tables.load(std::memory_order_acquire);
  if (loaded && tables->by_symbol[index_of(*row)] == found) return {exported_entry(*row), nullptr};
  return go_on;  // some other library's function of that name
}

}  // namespace spillway::shim
