#include "tools/simulated_device/modules.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {

void load_twins(const std::vector<std::string>& paths, std::vector<std::string>& problems) {
  auto& twins = world().modules.twins;
  for (const auto& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      problems.push_back("SPILLWAY_SIMULATED_KERNELS=\"" + path + "\": " + dlerror() +
                         "; give a library of host twins");
      continue;
    }
    const auto list = reinterpret_cast<kernels::HostTwinsFunction>(dlsym(library, "spillway_host_twins"));
    if (list == nullptr) {
      problems.push_back("SPILLWAY_SIMULATED_KERNELS=\"" + path +
                         "\": exports no spillway_host_twins; give a library of host twins");
      continue;
    }
    const kernels::HostTwin* first = nullptr;
    const std::size_t count = list(&first);
    for (std::size_t i = 0; i < count; ++i) twins.emplace(first[i].name, first + i);
  }
}

Function* find_function(const void* handle) {
  const auto found = world().modules.functions.find(handle);
  return found == world().modules.functions.end() ? nullptr : found->second;
}

Module* make_module(ModuleKind kind, std::string name) {
  auto made = std::make_unique<Module>();
  made->kind = kind;
  made->name = std::move(name);
  Module* result = made.get();
  world().modules.live[result] = std::move(made);
  return result;
}

Module* find_module(const void* handle, ModuleKind kind) {
  const auto found = world().modules.live.find(const_cast<void*>(handle));
  return found == world().modules.live.end() || found->second->kind != kind ? nullptr : found->second.get();
}

void unload(Module* module) {
  Modules& modules = world().modules;
  for (const auto& [name, function] : module->functions) modules.functions.erase(function.get());
  const auto found = modules.live.find(module);
  modules.unloaded.push_back(std::move(found->second));
  modules.live.erase(found);
}

// The images are compiled code we do not read, so any name is found; one without a twin fails when it is launched.
Function* function_of(Module& module, const char* name) {
  auto& slot = module.functions[name];
  if (!slot) {
    slot = std::make_unique<Function>();
    slot->name = name;
    slot->owner = &module;
    slot->is_kernel = module.kind == ModuleKind::library;
    const auto twin = world().modules.twins.find(name);
    if (twin != world().modules.twins.end()) slot->twin = twin->second;
    world().modules.functions[slot.get()] = slot.get();
  }
  return slot.get();
}

}  // namespace spillway::simulated
