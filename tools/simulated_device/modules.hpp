// Modules, libraries, functions and kernels, and the host twins that compute them.
//
// A CUfunction belongs to a module, a CUkernel to a library; both may be launched, but cuFunc* queries fail on a
// CUkernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/host_twin.hpp"
#include "tools/simulated_device/entry_points.hpp"

namespace spillway::simulated {

struct Module;

struct Function {
  std::string name;
  const kernels::HostTwin* twin = nullptr;  // null: it cannot be launched
  Module* owner = nullptr;
  bool is_kernel = false;         // the handle is a CUkernel
  CUfunction function = nullptr;  // a kernel's CUfunction, once asked for
  int max_dynamic_shared = 48 * 1024;
  bool said = false;  // that it has no twin
};

enum class ModuleKind { module, library };

struct Module {
  ModuleKind kind = ModuleKind::module;
  CUmodule module_of_library = nullptr;
  std::string name;
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};

struct Modules {
  std::unordered_map<void*, std::unique_ptr<Module>> live;  // by CUmodule or CUlibrary
  std::vector<std::unique_ptr<Module>> unloaded;            // kept: graphs may still hold their functions
  std::unordered_map<const void*, Function*> functions;     // by CUfunction or CUkernel
  std::unordered_map<std::string, const kernels::HostTwin*> twins;
};

// Loads the twin libraries of the settings; a line per library that cannot be loaded.
void load_twins(const std::vector<std::string>& paths, std::vector<std::string>& problems);
Function* find_function(const void* handle);
Module* make_module(ModuleKind kind, std::string name);
Module* find_module(const void* handle, ModuleKind kind);
// The function or kernel of that name, made on first use.
Function* function_of(Module& module, const char* name);
void unload(Module* module);

}  // namespace spillway::simulated
