// dlsym, as the program calls it.
//
// In the library it carries the versions that the C library's own has: another interposer that asks for the next dlsym
// by version (the only way that works for it) would otherwise step over us. Linked into a test it is a plain symbol.

#if defined(__x86_64__)
#define LANDING endbr64
#define OLDEST_DLSYM dlsym@GLIBC_2.2.5
#elif defined(__aarch64__)
#define LANDING hint #34
#define OLDEST_DLSYM dlsym@GLIBC_2.17
#endif
#ifdef SPILLWAY_VERSIONED_DLSYM
#define ENTRY spillway_dlsym
#else
#define ENTRY dlsym
#endif

  .text
// dlsym answers only what our filter answers; everything else goes on to the real dlsym by a jump, so that the real one
// sees the program's return address: RTLD_NEXT and RTLD_DEFAULT mean what they mean for the program.
  .hidden spillway_look_up
  .balign 16
  .globl ENTRY
  .type ENTRY, %function
ENTRY:
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
  .size ENTRY, . - ENTRY

#ifdef SPILLWAY_VERSIONED_DLSYM
  .globl spillway_dlsym_old
  .type spillway_dlsym_old, %function
  .set spillway_dlsym_old, spillway_dlsym
  .symver spillway_dlsym_old, OLDEST_DLSYM
  .symver spillway_dlsym, dlsym@@GLIBC_2.34
#endif

  .section .note.GNU-stack, "", %progbits
