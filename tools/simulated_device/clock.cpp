#include "tools/simulated_device/clock.hpp"

#include <algorithm>

namespace spillway::simulated {
namespace {

std::int64_t furthest = 0;         // guarded by the world's lock
std::int64_t furthest_thread = 0;  // a new thread starts where the host threads are
thread_local std::int64_t own_time = -1;

}  // namespace

std::int64_t thread_time() {
  if (own_time < 0) own_time = furthest_thread;
  return own_time;
}

void advance_thread_to(std::int64_t to) {
  own_time = std::max(thread_time(), to);
  furthest_thread = std::max(furthest_thread, own_time);
  furthest = std::max(furthest, own_time);
}

void advance_thread(std::int64_t by) { advance_thread_to(thread_time() + by); }

std::int64_t virtual_time() { return furthest; }

void note_time(std::int64_t time) { furthest = std::max(furthest, time); }

}  // namespace spillway::simulated
