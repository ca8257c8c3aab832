// Every row of the hook list is reached by every way a program can take to it, and forwards exactly once.
// The shim is linked in (so that sanitizers see it), the driver is the counting stand-in.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <set>

#include "shim/driver.hpp"
#include "tests/shim/stand_in/stand_in.hpp"

namespace spillway::shim {
namespace {

void* driver_library() {
  static void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return library;
}

template <class Function>
Function stand_in(const char* name) {
  return reinterpret_cast<Function>(dlsym(driver_library(), name));
}

std::uint64_t driver_calls(HookId id) {
  return stand_in<decltype(&stand_in_calls)>("stand_in_calls")(static_cast<unsigned>(id));
}

// Calls a row's function with all arguments zero: no handler may touch a null pointer.
using ZeroCall = CUresult (*)(void* function);
template <class Function>
struct Zero;
template <class... Arguments>
struct Zero<CUresult (*)(Arguments...)> {
  static CUresult call(void* function) {
    return reinterpret_cast<CUresult (*)(Arguments...)>(function)(Arguments{}...);
  }
};
constexpr ZeroCall kZeroCalls[] = {
#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler) &Zero<type>::call,
#include "shim/hook_list.def"
};

// What a program that is linked against the driver calls.
void* const kLinked[] = {
#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler) reinterpret_cast<void*>(&::symbol),
#include "shim/hook_list.def"
};

void expect_reaches(HookId id, void* function, const char* way) {
  const HookRow& row = row_of(id);
  ASSERT_NE(function, nullptr) << row.symbol << " by " << way;
  const std::uint64_t hooked = hook_count(id);
  const std::uint64_t forwarded = driver_calls(id);
  kZeroCalls[index_of(id)](function);
  EXPECT_EQ(hook_count(id), hooked + 1) << row.symbol << " by " << way << ": not seen by its hook";
  EXPECT_EQ(driver_calls(id), forwarded + 1) << row.symbol << " by " << way << ": not forwarded exactly once";
}

cuuint64_t flags_of(Variant variant) {
  return variant == Variant::legacy ? CU_GET_PROC_ADDRESS_LEGACY_STREAM : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

class HookCoverage : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(driver_library(), nullptr) << dlerror();
    ASSERT_TRUE(find_driver(Search::load));
    stand_in<decltype(&stand_in_answer)>("stand_in_answer")(0);
    stand_in<decltype(&stand_in_version)>("stand_in_version")(13000);
    first = reinterpret_cast<PFN_cuGetProcAddress_v11030>(dlsym(driver_library(), "cuGetProcAddress"));
    second = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(driver_library(), "cuGetProcAddress_v2"));
  }
  PFN_cuGetProcAddress_v11030 first = nullptr;
  PFN_cuGetProcAddress_v12000 second = nullptr;
};

TEST_F(HookCoverage, DirectLink) {
  for (const HookRow& row : kHooks) expect_reaches(row.id, kLinked[index_of(row.id)], "direct link");
}

TEST_F(HookCoverage, DlsymOnTheDriversHandle) {
  for (const HookRow& row : kHooks) expect_reaches(row.id, dlsym(driver_library(), row.symbol), "dlsym");
}

TEST_F(HookCoverage, FirstFormOfGetProcAddress) {
  for (const HookRow& row : kHooks) {
    void* address = nullptr;
    ASSERT_EQ(first(row.base, &address, row.version, flags_of(row.variant)), CUDA_SUCCESS) << row.symbol;
    expect_reaches(row.id, address, "cuGetProcAddress");
  }
}

TEST_F(HookCoverage, SecondFormOfGetProcAddress) {
  for (const HookRow& row : kHooks) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    ASSERT_EQ(second(row.base, &address, row.version, flags_of(row.variant), &status), CUDA_SUCCESS) << row.symbol;
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS) << row.symbol;
    expect_reaches(row.id, address, "cuGetProcAddress_v2");
  }
}

TEST_F(HookCoverage, StatusOutputMayBeNull) {
  void* address = nullptr;
  ASSERT_EQ(second("cuMemAlloc", &address, 13000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr), CUDA_SUCCESS);
  expect_reaches(HookId::cuMemAlloc_v2, address, "cuGetProcAddress_v2 without status");
}

TEST_F(HookCoverage, LookUpAnswersForItself) {
  void* address = nullptr;
  ASSERT_EQ(second("cuGetProcAddress", &address, 13000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(address, exported_entry(HookId::cuGetProcAddress_v2));
  ASSERT_EQ(second("cuGetProcAddress", &address, 11030, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(address, exported_entry(HookId::cuGetProcAddress));
}

// The row that CUDA's documentation promises: newest ABI not above the version; written apart from the shim's choice.
const HookRow* promised(const char* base, int version, Variant wanted) {
  const HookRow* best = nullptr;
  for (const HookRow& row : kHooks) {
    const bool fits = std::string_view(row.base) == base && row.version <= version &&
                      (row.variant == Variant::legacy) == (wanted == Variant::legacy);
    if (fits && (best == nullptr || row.version > best->version)) best = &row;
  }
  return best;
}

TEST_F(HookCoverage, EveryVersionGetsWhatItAskedFor) {
  std::set<int> versions{3020, 13000};
  for (const HookRow& row : kHooks) versions.insert(std::max(row.version, 3020));
  for (const int version : versions) {
    for (const HookRow& row : kHooks) {
      const HookRow* wanted = promised(row.base, version, row.variant);
      if (wanted == nullptr) continue;
      void* address = nullptr;
      ASSERT_EQ(second(row.base, &address, version, flags_of(row.variant), nullptr), CUDA_SUCCESS);
      EXPECT_EQ(address, exported_entry(wanted->id)) << row.base << " at " << version;
    }
  }
}

TEST_F(HookCoverage, UnknownNamesPassThrough) {
  void* address = nullptr;
  ASSERT_EQ(second("cuDriverGetVersion", &address, 13000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(address, dlsym(driver_library(), "cuDriverGetVersion"));
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(second("cuNoSuchThing", &address, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(dlsym(driver_library(), "cuNoSuchThing"), nullptr);
}

TEST_F(HookCoverage, TheDriversErrorComesBack) {
  stand_in<decltype(&stand_in_answer)>("stand_in_answer")(CUDA_ERROR_UNKNOWN);
  for (const HookRow& row : kHooks) {
    if (std::string_view(row.base) == "cuGetProcAddress") continue;  // it has answers of its own
    EXPECT_EQ(kZeroCalls[index_of(row.id)](kLinked[index_of(row.id)]), CUDA_ERROR_UNKNOWN) << row.symbol;
  }
}

TEST_F(HookCoverage, RowsAreFoundBySymbolAndNothingElseIs) {
  for (const HookRow& row : kHooks) EXPECT_EQ(row_of_symbol(row.symbol), row.id);
  for (const char* other : {"", "cu", "cuMemAlloc", "cuMemAlloc_v", "cuMemAlloc_v22", "cuGetExportTable", "zzz"}) {
    EXPECT_FALSE(row_of_symbol(other)) << other;
  }
}

}  // namespace
}  // namespace spillway::shim
