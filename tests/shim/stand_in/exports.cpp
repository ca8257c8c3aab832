// Every function of the hook list. No CUDA header here, so that each can be defined without its parameters: a callee
// may ignore what it is passed. Weak, so that look_up.cpp can give a few of them a meaning.
#include "tests/shim/stand_in/stand_in.hpp"

namespace {

enum Index : unsigned {
#define SPILLWAY_HOOK(symbol, base, version, variant, need, pfn, handler) index_##symbol,
#include "shim/hook_list.def"
};

}  // namespace

#define SPILLWAY_HOOK(symbol, base, version, variant, need, pfn, handler) \
  extern "C" __attribute__((weak, visibility("default"))) int symbol() { return stand_in_note(index_##symbol); }
#include "shim/hook_list.def"

// Not by dlsym: the shim under test has an opinion on that.
void* stand_in_function(unsigned row) {
  static void* const functions[] = {
#define SPILLWAY_HOOK(symbol, base, version, variant, need, pfn, handler) reinterpret_cast<void*>(&symbol),
#include "shim/hook_list.def"
  };
  return functions[row];
}
