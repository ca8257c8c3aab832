// The virtual clock. Each host thread has its own time; streams, the link and the compute units have theirs. Waiting
// moves the waiting thread's time forward to what it waited for. All in nanoseconds. Call with the world's lock held.
#pragma once

#include <cstdint>

namespace spillway::simulated {

std::int64_t thread_time();
void advance_thread(std::int64_t by);
void advance_thread_to(std::int64_t to);
std::int64_t virtual_time();  // the furthest any thread or stream has come
void note_time(std::int64_t time);

}  // namespace spillway::simulated
