// CUPTI's functions once more, under the version that programs built with CUDA 12 ask for: a reference with a version is bound to
// that version only. The export map gives the functions themselves the version of CUDA 13. A jump leaves the program's return
// address, by which the caller is known.

#if defined(__x86_64__)
#define LANDING endbr64
#define GO_ON(symbol) jmp symbol
#elif defined(__aarch64__)
#define LANDING hint #34
#define GO_ON(symbol) b symbol
#endif

#define CUPTI_HOOK(symbol)                          \
  .balign 16;                                       \
  .globl symbol##_of_12;                            \
  .type symbol##_of_12, %function;                  \
  symbol##_of_12:                                   \
  .cfi_startproc;                                   \
  LANDING;                                          \
  GO_ON(symbol);                                    \
  .cfi_endproc;                                     \
  .size symbol##_of_12, . - symbol##_of_12;         \
  .symver symbol##_of_12, symbol@libcupti.so.12;

  .text
#include "shim/cupti_hook_list.def"

  .section .note.GNU-stack, "", %progbits
