#include "shim/driver.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "shim/log.hpp"
#include "shim/look_up.hpp"
#include "shim/thread_state.hpp"
#include "shim/uncancelled.hpp"

extern "C" __attribute__((visibility("hidden"))) const char spillway_trampolines[];

namespace spillway::shim {

constinit std::atomic<const RealTables*> real_tables{nullptr};

namespace {

constexpr std::size_t kTrampolineBytes = 16;
constexpr const char* kLibrary = "libcuda.so.1";
constinit const Driver kNoDriver{};

// Indexes of kHooks in the order of their symbols.
constexpr auto kBySymbol = [] {
  std::array<std::uint16_t, kHookCount> order{};
  for (std::size_t i = 0; i < kHookCount; ++i) order[i] = static_cast<std::uint16_t>(i);
  std::sort(order.begin(), order.end(), [](std::uint16_t a, std::uint16_t b) {
    return std::string_view(kHooks[a].symbol) < std::string_view(kHooks[b].symbol);
  });
  return order;
}();

// The driver's own look-up in whichever form it has.
struct DriverLookUp {
  PFN_cuGetProcAddress_v12000 second = nullptr;
  PFN_cuGetProcAddress_v11030 first = nullptr;

  void* operator()(const char* name, int version, cuuint64_t flags) const {
    void* address = nullptr;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (second != nullptr) {
      CUdriverProcAddressQueryResult status{};
      result = second(name, &address, version, flags, &status);
    } else if (first != nullptr) {
      result = first(name, &address, version, flags);
    }
    return result == CUDA_SUCCESS ? address : nullptr;
  }
};

cuuint64_t flags_of(Variant variant) {
  return variant == Variant::legacy ? CU_GET_PROC_ADDRESS_LEGACY_STREAM : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

// An older driver answers a look-up with an older ABI of the same name; that answer belongs to the other row.
bool belongs_to_another_row(const RealTables& tables, const HookRow& row, const void* address) {
  for (const HookRow& other : kHooks) {
    if (other.id == row.id || tables.by_symbol[index_of(other.id)] != address) continue;
    if (tables.by_symbol[index_of(row.id)] != address) return true;
  }
  return false;
}

void fill_hooks(RealTables& tables, void* library, DriverLookUp& look_up) {
  const DlsymFunction dlsym_of_system = real_dlsym();
  for (const HookRow& row : kHooks) tables.by_symbol[index_of(row.id)] = dlsym_of_system(library, row.symbol);
  look_up.second =
      reinterpret_cast<PFN_cuGetProcAddress_v12000>(tables.by_symbol[index_of(HookId::cuGetProcAddress_v2)]);
  look_up.first = reinterpret_cast<PFN_cuGetProcAddress_v11030>(tables.by_symbol[index_of(HookId::cuGetProcAddress)]);
  for (const HookRow& row : kHooks) {
    void* address = look_up(row.base, row.version, flags_of(row.variant));
    if (address != nullptr && belongs_to_another_row(tables, row, address)) address = nullptr;
    const std::size_t i = index_of(row.id);
    tables.by_lookup[i] = address;
    tables.real[i] = tables.by_symbol[i] != nullptr ? tables.by_symbol[i] : address;
  }
}

void fill_driver(Driver& driver, void* library, const DriverLookUp& look_up) {
  const DlsymFunction dlsym_of_system = real_dlsym();
  void* address = nullptr;
#define SPILLWAY_DRIVER(symbol, base, version, type)                            \
  address = dlsym_of_system(library, #symbol);                                  \
  if (void* asked = look_up(#base, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM); \
      asked != nullptr && address != nullptr) {                                 \
    address = asked;                                                            \
  }                                                                             \
  driver.symbol = reinterpret_cast<type>(address);
#include "shim/driver_list.def"
}

void report(const RealTables& tables) {
  for (const HookRow& row : kHooks) {
    if (row.need == Need::required && tables.real[index_of(row.id)] == nullptr) {
      SPILLWAY_LOG(warning, "this driver has no {}: calls to it fail as they would without Spillway", row.symbol);
    }
  }
}

// A thread that is cancelled is unwound by another copy of the unwinder, which asks ours about our frames; ours knows
// the registers from its first use on, and would end the process before.
void use_unwinder() {
  _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr);
}

bool fill_and_publish(void* library) {
  void* pages = mmap(nullptr, sizeof(RealTables), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  auto* tables = new (pages) RealTables;
  DriverLookUp look_up;
  fill_hooks(*tables, library, look_up);
  fill_driver(tables->driver, library, look_up);
  use_unwinder();  // before the first call is forwarded
  const RealTables* expected = nullptr;
  if (real_tables.compare_exchange_strong(expected, tables, std::memory_order_acq_rel)) {
    report(*tables);
  } else {
    munmap(pages, sizeof(RealTables));  // another thread was faster, with the same values
  }
  return true;
}

}  // namespace

const Driver& driver() {
  const RealTables* tables = real_tables.load(std::memory_order_acquire);
  return tables == nullptr ? kNoDriver : tables->driver;
}

bool driver_found() { return real_tables.load(std::memory_order_acquire) != nullptr; }

bool find_driver(Search search) {
  if (driver_found()) return true;
  ThreadState& thread = this_thread;
  if (thread.resolving) return false;  // a constructor of libcuda calls us while we load it
  thread.resolving = true;
  const Uncancelled held;
  const HookScope inside(thread);
  // The reference is kept for good: we hold pointers into the library.
  void* library = real_dlsym() == nullptr ? nullptr : dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr && search == Search::load && real_dlsym() != nullptr)
    library = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL);
  const bool found = library != nullptr && fill_and_publish(library);
  dlerror();  // what we did not find is not the program's last error
  thread.resolving = false;
  return found;
}

std::optional<HookId> row_of_symbol(const char* symbol) {
  const auto at = std::lower_bound(kBySymbol.begin(), kBySymbol.end(), symbol, [](std::uint16_t row, const char* name) {
    return std::strcmp(kHooks[row].symbol, name) < 0;
  });
  if (at == kBySymbol.end() || std::strcmp(kHooks[*at].symbol, symbol) != 0) return std::nullopt;
  return kHooks[*at].id;
}

std::optional<HookId> row_at(const void* address, const char* name, int version, cuuint64_t flags) {
  const RealTables* tables = real_tables.load(std::memory_order_acquire);
  if (tables == nullptr || address == nullptr) return std::nullopt;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  std::optional<HookId> best;
  int best_score = -1;
  for (const HookRow& row : kHooks) {
    const std::size_t i = index_of(row.id);
    if (tables->by_symbol[i] != address && tables->by_lookup[i] != address) continue;
    // Distinct weights: name over variant over "not newer than asked" over the version itself (below 2^16).
    int score = std::min(row.version, 0xFFFF);
    if (row.version <= version) score += 1 << 16;
    if ((row.variant != Variant::legacy) == per_thread) score += 1 << 17;
    if (std::strcmp(row.base, name) == 0 || std::strcmp(row.symbol, name) == 0) score += 1 << 18;
    if (score > best_score) {
      best_score = score;
      best = row.id;
    }
  }
  return best;
}

void* exported_entry(HookId id) { return const_cast<char*>(&spillway_trampolines[index_of(id) * kTrampolineBytes]); }

bool is_exported_entry(const void* address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(&spillway_trampolines[0]);
  return reinterpret_cast<std::uintptr_t>(address) - begin < kHookCount * kTrampolineBytes;
}

const char* prefetch_variant() {
  if (driver().cuMemPrefetchAsync_v2 != nullptr) return "CUmemLocation (12.2)";
  return driver().cuMemPrefetchAsync != nullptr ? "device ordinal (8.0)" : "none";
}

}  // namespace spillway::shim
