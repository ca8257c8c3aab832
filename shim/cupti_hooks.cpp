#include "shim/cupti_hooks.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstring>

#include "shim/look_up.hpp"
#include "shim/process.hpp"
#include "shim/thread_state.hpp"

#define SPILLWAY_EXPORTED_CUPTI extern "C" __attribute__((visibility("default"))) CUptiResult CUPTIAPI

namespace spillway::shim {
namespace {

enum class CuptiHook : std::size_t {
#define CUPTI_HOOK(symbol) symbol,
#include "shim/cupti_hook_list.def"
  count
};
constexpr std::array kCuptiHookNames = {
#define CUPTI_HOOK(symbol) #symbol,
#include "shim/cupti_hook_list.def"
};
constexpr std::size_t kCuptiHooks = kCuptiHookNames.size();

// No lock, so that a child of a fork cannot find one taken.
constinit std::atomic<std::uint64_t> kinds_on{0};  // a bit each; those from 63 up share one
constinit std::atomic<bool> subscribed{false};
constinit std::atomic<bool> had_activities{false};
constinit std::atomic<int> registering{0};
constinit std::atomic<CUpti_BuffersCallbackRequestFunc> request_of_program{nullptr};
constinit std::atomic<CUpti_BuffersCallbackCompleteFunc> complete_of_program{nullptr};
constinit std::atomic<void (*)()> cupti_listener{nullptr};
constinit std::array<std::atomic<void*>, kCuptiHooks> found_by_dlsym{};  // the last real answer

void* own_entry(CuptiHook hook) {
  static const std::array<void*, kCuptiHooks> kEntries = {
#define CUPTI_HOOK(symbol) reinterpret_cast<void*>(&::symbol),
#include "shim/cupti_hook_list.def"
  };
  return kEntries[static_cast<std::size_t>(hook)];
}

// The function that the caller would have reached without us: its own library's, by that library's dependencies.
void* real_cupti(CuptiHook hook, const void* caller) {
  const DlsymFunction look_up = real_dlsym();
  const char* name = kCuptiHookNames[static_cast<std::size_t>(hook)];
  const auto in = [&](const char* library) -> void* {
    void* handle = library == nullptr ? nullptr : dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return nullptr;
    void* address = look_up(handle, name);
    dlclose(handle);
    return address == own_entry(hook) ? nullptr : address;
  };
  if (look_up == nullptr) return nullptr;
  Dl_info info{};
  void* real = dladdr(caller, &info) != 0 ? in(info.dli_fname) : nullptr;
  if (real == nullptr) real = found_by_dlsym[static_cast<std::size_t>(hook)].load(std::memory_order_acquire);
  if (real == nullptr) real = look_up(RTLD_NEXT, name);
  for (const char* library : kCuptiNames) {
    if (real == nullptr) real = in(library);
  }
  dlerror();  // what we did not find is not the program's last error
  return real;
}

void tell_listener() {
  if (forked_child()) return;
  if (auto* step_aside = cupti_listener.load(std::memory_order_acquire)) {
    const HookScope straight_through;
    step_aside();
  }
}

std::uint64_t bit_of(CUpti_ActivityKind kind) {
  return std::uint64_t{1} << (static_cast<unsigned>(kind) < 63 ? static_cast<unsigned>(kind) : 63U);
}

template <CuptiHook hook, class Function, class... Arguments>
CUptiResult forward(const void* caller, Function /*type*/, Arguments... arguments) {
  auto* real = reinterpret_cast<Function>(real_cupti(hook, caller));
  return real == nullptr ? CUPTI_ERROR_NOT_INITIALIZED : real(arguments...);
}

// Forwards a call that switches something on. What it will be is noted before, so that nobody takes the place
// meanwhile.
template <class Call>
CUptiResult switch_on(CUpti_ActivityKind kind, const Call& call) {
  const std::uint64_t before = kinds_on.fetch_or(bit_of(kind));
  tell_listener();
  const CUptiResult result = call();
  if (result == CUPTI_SUCCESS) {
    had_activities.store(true);
  } else if ((before & bit_of(kind)) == 0) {
    kinds_on.fetch_and(~bit_of(kind));
  }
  return result;
}

template <class Call>
CUptiResult switch_off(CUpti_ActivityKind kind, const Call& call) {
  const CUptiResult result = call();
  if (result == CUPTI_SUCCESS) kinds_on.fetch_and(~bit_of(kind));
  return result;
}

template <class Call>
CUptiResult subscribe(const Call& call) {
  const bool before = subscribed.exchange(true);
  if (!before) had_activities.store(false);
  tell_listener();
  const CUptiResult result = call();
  if (result != CUPTI_SUCCESS && !before) subscribed.store(false);
  return result;
}

}  // namespace

bool program_uses_cupti() {
  return registering.load() != 0 || kinds_on.load() != 0 || (subscribed.load() && !had_activities.load());
}
bool program_has_subscriber() { return subscribed.load(); }
CuptiCallbacks program_callbacks() { return {request_of_program.load(), complete_of_program.load()}; }
void listen_to_cupti(void (*step_aside)()) { cupti_listener.store(step_aside, std::memory_order_release); }

void* cupti_hook_for(const char* name, void* found) {
  for (std::size_t i = 0; i < kCuptiHooks; ++i) {
    if (std::strcmp(kCuptiHookNames[i], name) != 0) continue;
    void* own = own_entry(static_cast<CuptiHook>(i));
    if (found == own || found == nullptr) return nullptr;
    found_by_dlsym[i].store(found, std::memory_order_release);
    return own;
  }
  return nullptr;
}

}  // namespace spillway::shim

using spillway::shim::CuptiHook;
using spillway::shim::forward;

SPILLWAY_EXPORTED_CUPTI cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* data) {
  const void* caller = __builtin_return_address(0);
  return spillway::shim::subscribe(
      [&] { return forward<CuptiHook::cuptiSubscribe>(caller, &cuptiSubscribe, subscriber, callback, data); });
}

SPILLWAY_EXPORTED_CUPTI cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback, void* data,
                                          CUpti_SubscriberParams* parameters) {
  const void* caller = __builtin_return_address(0);
  return spillway::shim::subscribe([&] {
    return forward<CuptiHook::cuptiSubscribe_v2>(caller, &cuptiSubscribe_v2, subscriber, callback, data, parameters);
  });
}

SPILLWAY_EXPORTED_CUPTI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  const CUptiResult result =
      forward<CuptiHook::cuptiUnsubscribe>(__builtin_return_address(0), &cuptiUnsubscribe, subscriber);
  if (result == CUPTI_SUCCESS) spillway::shim::subscribed.store(false);
  return result;
}

SPILLWAY_EXPORTED_CUPTI cuptiFinalize() {
  const void* caller = __builtin_return_address(0);
  spillway::shim::tell_listener();
  const CUptiResult result = forward<CuptiHook::cuptiFinalize>(caller, &cuptiFinalize);
  if (result == CUPTI_SUCCESS) {
    spillway::shim::kinds_on.store(0);
    spillway::shim::subscribed.store(false);
  }
  return result;
}

SPILLWAY_EXPORTED_CUPTI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                       CUpti_BuffersCallbackCompleteFunc complete) {
  const void* caller = __builtin_return_address(0);
  spillway::shim::registering.fetch_add(1);
  spillway::shim::tell_listener();
  const CUptiResult result =
      forward<CuptiHook::cuptiActivityRegisterCallbacks>(caller, &cuptiActivityRegisterCallbacks, request, complete);
  if (result == CUPTI_SUCCESS) {
    spillway::shim::request_of_program.store(request);
    spillway::shim::complete_of_program.store(complete);
  }
  spillway::shim::registering.fetch_sub(1);
  return result;
}

SPILLWAY_EXPORTED_CUPTI cuptiActivityEnable(CUpti_ActivityKind kind) {
  const void* caller = __builtin_return_address(0);
  return spillway::shim::switch_on(
      kind, [&] { return forward<CuptiHook::cuptiActivityEnable>(caller, &cuptiActivityEnable, kind); });
}

SPILLWAY_EXPORTED_CUPTI cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  const void* caller = __builtin_return_address(0);
  return spillway::shim::switch_on(
      kind, [&] { return forward<CuptiHook::cuptiActivityEnableAndDump>(caller, &cuptiActivityEnableAndDump, kind); });
}

SPILLWAY_EXPORTED_CUPTI cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
  const void* caller = __builtin_return_address(0);
  return spillway::shim::switch_on(kind, [&] {
    return forward<CuptiHook::cuptiActivityEnableContext>(caller, &cuptiActivityEnableContext, context, kind);
  });
}

SPILLWAY_EXPORTED_CUPTI cuptiActivityDisable(CUpti_ActivityKind kind) {
  const void* caller = __builtin_return_address(0);
  return spillway::shim::switch_off(
      kind, [&] { return forward<CuptiHook::cuptiActivityDisable>(caller, &cuptiActivityDisable, kind); });
}

SPILLWAY_EXPORTED_CUPTI cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
  const void* caller = __builtin_return_address(0);
  return spillway::shim::switch_off(kind, [&] {
    return forward<CuptiHook::cuptiActivityDisableContext>(caller, &cuptiActivityDisableContext, context, kind);
  });
}
