// What the counting driver tells its tests. Rows are numbered in the hook list's order.
#pragma once

#include <cstdint>

extern "C" {
// Notes a call of a row; returns the code set by stand_in_answer, 0 at first.
int stand_in_note(unsigned row);
std::uint64_t stand_in_calls(unsigned row);
// The code that every counting function gives from now on.
void stand_in_answer(int code);
// The newest version that cuGetProcAddress knows: an older driver.
void stand_in_version(int version);
}

// The driver's own function of a row; within the library only.
void* stand_in_function(unsigned row);
