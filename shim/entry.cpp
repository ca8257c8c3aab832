// The way in: what every exported symbol jumps to. One function a row, made from the hook list: guard against re-entry,
// count, call the handler, and let nothing be thrown into the program.
//
// The program may cancel its threads. One that is in a handler that keeps books goes on to its end; one that is in the
// driver, for a call that is only recorded or forwarded, ends there as without us.
#include <cxxabi.h>

#include <atomic>
#include <cstdint>

#include "shim/driver.hpp"
#include "shim/handlers.hpp"
#include "shim/process.hpp"
#include "shim/thread_state.hpp"
#include "shim/uncancelled.hpp"

namespace spillway::shim {

thread_local constinit ThreadState this_thread;

namespace {

constinit std::atomic<std::uint64_t> counts[kHookCount];

// The program linked a function that this machine's driver does not have, or there is no driver.
CUresult missing_result() { return driver_found() ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_NO_DEVICE; }

// First call of a hook: find the driver, loading it if need be.
[[gnu::noinline, gnu::cold]] void* find_real(HookId id) {
  find_driver(Search::load);
  return real_address(id);
}

struct Cancellable {};

template <class Cancelled, HookId id, class Function, HandlerFunction<Function>* handler>
struct Entry;
template <class Cancelled, HookId id, class... Arguments, HandlerFunction<CUresult (*)(Arguments...)>* handler>
struct Entry<Cancelled, id, CUresult (*)(Arguments...), handler> {
  using Function = CUresult (*)(Arguments...);

  static CUresult call(Arguments... arguments) {
    void* address = real_address(id);
    if (address == nullptr) [[unlikely]] {
      address = find_real(id);
      if (address == nullptr) return missing_result();
    }
    const auto real = reinterpret_cast<Function>(address);
    ThreadState& thread = this_thread;
    if (thread.depth != 0 || forked_child()) return real(arguments...);
    counts[index_of(id)].fetch_add(1, std::memory_order_relaxed);
    [[maybe_unused]] const Cancelled in_the_handler{};
    const HookScope inside(thread);
    RealCall<Function> forward(id, real, __builtin_return_address(0));
    try {
      return handler(forward, arguments...);
    } catch (abi::__forced_unwind&) {
      throw;  // the thread's end; swallowed it would be the process's
    } catch (...) {
      return forward.answered() ? forward.result() : real(arguments...);
    }
  }
};

// The slot of each row, typed as its function, so that the table is constant-initialised: no constructor has to run.
struct Slots {
#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler) type symbol;
#include "shim/hook_list.def"
};
static_assert(sizeof(Slots) == kHookCount * sizeof(void*));

}  // namespace

extern "C" constinit const Slots spillway_hook_slots{
#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler) \
  &Entry<Uncancelled, HookId::symbol, type, static_cast<HandlerFunction<type>*>(&handlers::handler)>::call,
#define SPILLWAY_RECORD(symbol, base, version, variant, need, type, handler) \
  &Entry<Cancellable, HookId::symbol, type, static_cast<HandlerFunction<type>*>(&handlers::handler)>::call,
#define SPILLWAY_PASS SPILLWAY_RECORD
#include "shim/hook_list.def"
};

std::uint64_t hook_count(HookId id) { return counts[index_of(id)].load(std::memory_order_relaxed); }

std::uint64_t hook_count_total() {
  std::uint64_t total = 0;
  for (const auto& count : counts) total += count.load(std::memory_order_relaxed);
  return total;
}

}  // namespace spillway::shim
