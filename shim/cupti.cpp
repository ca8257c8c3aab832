#include "shim/cupti.hpp"

#include <dlfcn.h>
#include <link.h>

#include <memory>

#include "shim/log.hpp"
#include "shim/look_up.hpp"

namespace spillway::shim {
namespace {

constexpr const char* kRuntimeNames[] = {"libcudart.so.13", "libcudart.so.12"};
// From the runtime's folder: the toolkit's and the wheels' ways of laying them out.
constexpr const char* kBesideRuntime[] = {"/", "/../extras/CUPTI/lib64/", "/../../extras/CUPTI/lib64/",
                                          "/../../cuda_cupti/lib/"};

std::string path_of(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? std::string(map->l_name) : std::string();
}

void* open_loaded() {
  for (const char* name : kCuptiNames) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD)) return library;
  }
  return nullptr;
}

void* open_beside_runtime() {
  for (const char* runtime_name : kRuntimeNames) {
    void* runtime = dlopen(runtime_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (runtime == nullptr) continue;
    const std::string path = path_of(runtime);
    dlclose(runtime);
    const std::string folder = path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    if (folder.empty()) continue;
    for (const char* way : kBesideRuntime) {
      for (const char* name : kCuptiNames) {
        if (void* library = dlopen((folder + way + name).c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
      }
    }
  }
  return nullptr;
}

void* open_any() {
  for (const char* name : kCuptiNames) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

std::unique_ptr<Cupti> open_library() {
  void* library = open_loaded();
  if (library == nullptr) library = open_beside_runtime();
  if (library == nullptr) library = open_any();
  if (library == nullptr) return nullptr;
  auto cupti = std::make_unique<Cupti>();
  cupti->path = path_of(library);
  const DlsymFunction look_up = real_dlsym();
#define SPILLWAY_CUPTI(name)                                                          \
  cupti->name = reinterpret_cast<decltype(cupti->name)>(look_up(library, #name));     \
  if (cupti->name == nullptr) {                                                       \
    SPILLWAY_LOG(debug, "{} has no {}: it is not used", cupti->path, #name);          \
    return nullptr; /* not closed: what has run its constructors stays where it is */ \
  }
#include "shim/cupti_list.def"
  std::uint32_t version = 0;
  if (cupti->cuptiGetVersion(&version) == CUPTI_SUCCESS) cupti->version = std::to_string(version);
  return cupti;
}

}  // namespace

const Cupti* open_cupti() {
  static bool looked = false;
  static const Cupti* found = nullptr;
  if (!looked) {
    looked = true;
    found = open_library().release();  // for good: CUPTI may call us until the process ends
  }
  return found;
}

std::string cupti_error(const Cupti& cupti, CUptiResult result) {
  const char* text = nullptr;
  if (cupti.cuptiGetResultString(result, &text) == CUPTI_SUCCESS && text != nullptr) return text;
  return "CUPTI error " + std::to_string(static_cast<int>(result));
}

}  // namespace spillway::shim
