// What threads of ours block inside somebody else's program: everything that is meant for the program, so that its
// handlers never run on them. Their own crash is not: it is told to who watches for crashes, and blocked the process
// would end without a word.
#pragma once

#include <signal.h>

namespace spillway::shim {

inline sigset_t signals_of_the_program() {
  sigset_t set;
  sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&set, own);
  return set;
}

}  // namespace spillway::shim
