// Declares every handler named in the hook list, with the type that its row demands; a handler that is missing or has
// another signature does not link. Bodies are in shim/handlers/<topic>.cpp, one shape for all: note the event, ask,
// call the real function, note the result. The re-entry guard, the counter and the catch are around it already.
#pragma once

#include "shim/hook.hpp"

namespace spillway::shim::handlers {

#define SPILLWAY_HOOK(symbol, base, version, variant, need, type, handler) HandlerFunction<type> handler;
#define SPILLWAY_PASS(symbol, base, version, variant, need, type, handler)
#include "shim/hook_list.def"

// Handler of the rows that are only counted.
template <class... Arguments>
CUresult pass(RealCall<CUresult (*)(Arguments...)>& real, Arguments... arguments) {
  return real(arguments...);
}

}  // namespace spillway::shim::handlers
