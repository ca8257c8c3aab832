// Fork, exec, exit order and unload: all that a process does to the library beside calling it.
//
// - Loading does next to nothing: no allocation, no file, no thread. Fork handlers are registered when the driver has
//   been initialised.
// - Child of a fork: rings, this thread's state and the recording flag are reset, so that it forwards silently; a CUDA
//   program does not use CUDA in such a child, but one that had not started CUDA may start it there and is served.
// - Exit: our memory is never torn down (statics are constant-initialised and leak), as threads may still be launching.
//   Listeners run once, at exit or return from main and not after _exit or abort, in two steps. `before_exit` is an
//   exit handler that is younger than the driver's own, so it runs before the driver ends: it is loaded late and looks
//   its functions up through our `dlsym`, for which the loader ends it before us. `at_exit` is the library's
//   destructor, after the program's own handlers and destructors.
// - Unload: the library is marked NODELETE, since the driver and the program keep pointers to it.
#pragma once

namespace spillway::shim {

// What the session wants to hear. All null at first; set once, before `watch_process`.
struct ProcessListener {
  void (*before_fork)() = nullptr;  // in the parent: take locks that the child must find free
  void (*after_fork_parent)() = nullptr;
  void (*after_fork_child)() = nullptr;  // threads are gone: forget, write nothing
  void (*before_exit)() = nullptr;       // the driver may begin to end: call it no more of our own accord
  void (*at_exit)() = nullptr;           // the last moment in which the trace may be closed
};

void set_process_listener(const ProcessListener& listener);
// Register the fork handlers, and the exit handler. Called once, when the driver has been initialised.
void watch_process();
void watch_exit();
// True in a child made by fork after the parent had initialised the driver: CUDA is unusable there, and we keep silent.
bool forked_child();
// The same for any child, also one made by _Fork, vfork or the system call itself, which run no fork handlers: our
// threads are not there, and our locks may be held by nobody. Asks the system; for the end of a process.
bool other_process();
// True when the main thread has ended without ending the process, and all threads that are left are ours: the C library
// would have ended the process with the last thread of the program. Reads /proc; for a timer.
bool only_own_threads_left();

}  // namespace spillway::shim
