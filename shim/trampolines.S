// The exported symbols, one for each row of the hook list. Each jumps through its slot in
// spillway_hook_slots (entry.cpp), a table that the linker fills, so that a call before any constructor works too.
// A hook leaves stack and registers as they were: the handler sees the program's own return address.
//
// All hooks are 16 bytes apart from spillway_trampolines on, in the list's order (driver.cpp counts on it).

#if defined(__x86_64__)
#define LANDING endbr64
#define JUMP_THROUGH_SLOT jmp *(spillway_hook_slots + slot_offset)(%rip)
#elif defined(__aarch64__)
#define LANDING hint #34
#define JUMP_THROUGH_SLOT                            \
  adrp x16, (spillway_hook_slots + slot_offset);     \
  ldr x16, [x16, :lo12:spillway_hook_slots + slot_offset]; \
  br x16
#else
#error "Spillway knows x86-64 and aarch64"
#endif

#define SPILLWAY_HOOK(symbol, base, version, variant, need, pfn, handler) \
  .balign 16;                                                              \
  .globl symbol;                                                           \
  .type symbol, %function;                                                 \
  symbol:                                                                  \
  .cfi_startproc;                                                          \
  LANDING;                                                                 \
  JUMP_THROUGH_SLOT;                                                       \
  .cfi_endproc;                                                            \
  .size symbol, . - symbol;                                                \
  .set slot_offset, slot_offset + 8;

  .text
  .hidden spillway_hook_slots
  .balign 16
  .globl spillway_trampolines
  .hidden spillway_trampolines
spillway_trampolines:
  .set slot_offset, 0
#include "shim/hook_list.def"

  .section .note.GNU-stack, "", %progbits
