// What the hook list makes: HookId, the row of each hook, the type of its real function and of its handler.
// Everything here is constant data; see real_driver.hpp for the pointers and entry.cpp for the way in.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "shim/cuda_driver.hpp"

namespace spillway::shim {

// One enumerator a row, named as the exported symbol: HookId::cuMemAlloc_v2.
enum class HookId : unsigned {
#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler) symbol,
#include "shim/hook_list.def"
};

enum class Variant : unsigned char { legacy, ptds, ptsz };
enum class Need : unsigned char { required, optional };

struct HookRow {
  HookId id;
  const char* symbol;  // as exported by libcuda, and by us
  const char* base;    // as asked of cuGetProcAddress
  int version;         // CUDA version of this ABI, 1000 x major + 10 x minor
  Variant variant;
  Need need;
};

inline constexpr auto kHooks = std::to_array<HookRow>({
#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler) \
  {HookId::symbol, #symbol, #base, version, Variant::variant, Need::need},
#include "shim/hook_list.def"
});
inline constexpr std::size_t kHookCount = kHooks.size();

constexpr std::size_t index_of(HookId id) { return static_cast<std::size_t>(id); }
constexpr const HookRow& row_of(HookId id) { return kHooks[index_of(id)]; }
constexpr bool per_thread_streams(HookId id) { return row_of(id).variant != Variant::legacy; }

// The driver's type of each hooked function.
template <HookId id>
struct HookTraits;
#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler)                                        \
  template <>                                                                                                     \
  struct HookTraits<HookId::symbol> {                                                                             \
    using Function = type;                                                                                        \
    static_assert(__is_same(type, decltype(&::symbol)), "the row's version and the header's prototype disagree"); \
  };
#include "shim/hook_list.def"
template <HookId id>
using HookFunction = typename HookTraits<id>::Function;

// The real function, as a handler sees it: call it like the driver function itself. A handler forwards the program's
// call at most once; should it end by an exception before that, the call is forwarded for it, and should it end by one
// afterwards, the program gets the code that the real call gave.
template <class Function>
class RealCall;
template <class... Arguments>
class RealCall<CUresult (*)(Arguments...)> {
 public:
  using Function = CUresult (*)(Arguments...);
  RealCall(HookId id, Function real, const void* caller) : id_(id), caller_(caller), function_(real) {}

  CUresult operator()(Arguments... arguments) {
    result_ = function_(arguments...);
    answered_ = true;
    return result_;
  }
  // The program's call has been answered by other means (a managed allocation in place of a plain one, say).
  CUresult answer(CUresult result) {
    answered_ = true;
    return result_ = result;
  }

  [[nodiscard]] HookId id() const { return id_; }
  [[nodiscard]] bool per_thread() const { return per_thread_streams(id_); }  // a NULL stream is the thread's own
  [[nodiscard]] const void* caller() const { return caller_; }               // return address in the program
  [[nodiscard]] Function function() const { return function_; }
  [[nodiscard]] bool answered() const { return answered_; }
  [[nodiscard]] CUresult result() const { return result_; }

 private:
  HookId id_;
  bool answered_ = false;
  CUresult result_ = CUDA_SUCCESS;
  const void* caller_;
  Function function_;
};

template <class Function>
struct HandlerOf;
template <class... Arguments>
struct HandlerOf<CUresult (*)(Arguments...)> {
  using Type = CUresult(RealCall<CUresult (*)(Arguments...)>&, Arguments...);
};
// The type of a handler of a driver function of type `Function`.
template <class Function>
using HandlerFunction = typename HandlerOf<Function>::Type;

}  // namespace spillway::shim
