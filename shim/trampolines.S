// The exported symbols, one for each row of the hook list, and the way into dlsym. Each hook jumps through its slot in
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

// dlsym answers only what our filter answers; everything else goes on to the real dlsym by a jump, so that the real one
// sees the program's return address: RTLD_NEXT and RTLD_DEFAULT mean what they mean for the program.
  .hidden spillway_look_up
  .balign 16
  .globl dlsym
  .type dlsym, %function
dlsym:
  .cfi_startproc
  LANDING
#if defined(__x86_64__)
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call spillway_look_up
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rdx, %rdx
  jz 1f
  jmpq *%rdx
1:
  ret
#else
  stp x29, x30, [sp, #-32]!
  .cfi_adjust_cfa_offset 32
  .cfi_offset x29, -32
  .cfi_offset x30, -24
  stp x0, x1, [sp, #16]
  bl spillway_look_up
  mov x16, x1
  mov x17, x0
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_adjust_cfa_offset -32
  .cfi_restore x29
  .cfi_restore x30
  cbz x16, 1f
  br x16
1:
  mov x0, x17
  ret
#endif
  .cfi_endproc
  .size dlsym, . - dlsym

  .section .note.GNU-stack, "", %progbits
