// The real driver: where the real functions are, and typed pointers to those the shim calls itself.
//
// libcuda is found late: a look-up only asks whether it is loaded already, and only a hooked function that is really
// called loads it. No lock is held while the loader runs (a library's constructor may be calling us from inside
// dlopen); threads that arrive together each do the search and store the same values. cuInit is never called from here.
#pragma once

#include <atomic>
#include <optional>

#include "shim/hook.hpp"

namespace spillway::shim {

// Functions of the driver that are called, not hooked; members are named as the exported symbol, and null where the
// driver is too old to have them. They do not pass our hooks: calling one needs no HookScope, but the driver's own
// callbacks do (entry.cpp).
struct Driver {
#define SPILLWAY_DRIVER(symbol, base, version, type) type symbol = nullptr;
#include "shim/driver_list.def"
};

// Null members before the driver was found. Safe from any thread; costs one load once the driver is known.
const Driver& driver();

enum class Search { loaded_only, load };
// Looks for libcuda.so.1. True if it is there and the tables are filled.
bool find_driver(Search search);
// True once the tables are filled.
bool driver_found();

// Filled once and published whole; pages of its own, never freed.
struct RealTables {
  Driver driver;
  void* by_symbol[kHookCount] = {};  // dlsym of the row's symbol
  void* by_lookup[kHookCount] = {};  // the driver's cuGetProcAddress at the row's version and variant, which may differ
  void* real[kHookCount] = {};       // what hooks forward to: by symbol, else by look-up
};
extern constinit std::atomic<const RealTables*> real_tables;

// The real function of a row, or null if the driver was not found or lacks it. Never loads anything.
inline void* real_address(HookId id) {
  const RealTables* tables = real_tables.load(std::memory_order_acquire);
  return tables == nullptr ? nullptr : tables->real[index_of(id)];
}
template <HookId id>
HookFunction<id> real_function() {
  return reinterpret_cast<HookFunction<id>>(real_address(id));
}

// The row whose real function is `address`: the answer to a look-up of `name` at `version` with `flags`
// (CU_GET_PROC_ADDRESS_*). Rows of that name win over others, then the flag's variant, then the highest version not
// above the one asked for. Nothing if the address is no row's.
std::optional<HookId> row_at(const void* address, const char* name, int version, cuuint64_t flags);

// The row that exports `symbol`; binary search, no allocation.
std::optional<HookId> row_of_symbol(const char* symbol);

// Our exported entry of a row: what look-ups are answered with.
void* exported_entry(HookId id);
bool is_exported_entry(const void* address);

// How often a row's hook was entered by the program.
std::uint64_t hook_count(HookId id);
std::uint64_t hook_count_total();

// Which ABI of prefetch and advise the driver serves: "CUmemLocation (12.2)", "device ordinal (8.0)" or "none".
const char* prefetch_variant();

}  // namespace spillway::shim
