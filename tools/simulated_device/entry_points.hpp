// The table made from entry_points.def: one row per exported symbol.
#pragma once

// Makes cuda.h declare every version of every function under its ABI name, without the macros that rename them.
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <cstddef>
#include <span>

namespace spillway::simulated {

enum class EntryPoint : unsigned {
#define ENTRY(name, version, symbol, kind, implementation, parameters, arguments) symbol,
#include "tools/simulated_device/entry_points.def"
#undef ENTRY
  count
};

inline constexpr std::size_t kEntryPoints = static_cast<std::size_t>(EntryPoint::count);

enum class EntryKind { standard, per_thread, narrow };

struct EntryRow {
  const char* name;    // as asked of cuGetProcAddress
  int version;         // first CUDA version with this ABI
  const char* symbol;  // as exported
  EntryKind kind;
  void* function;
};

std::span<const EntryRow> entry_rows();
const char* symbol_of(EntryPoint entry);

// What the calling thread's stream 0 means during this call.
enum class DefaultStream { legacy, per_thread };
DefaultStream default_stream_of_call();

}  // namespace spillway::simulated
