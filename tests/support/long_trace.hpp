// A long trace made by formula: a training run of iterations that are all alike but for their times, on one device
// whose budget holds two thirds of its memory. For what must bear size: the viewer, the reports. The same numbers give
// the same trace everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace spillway::tests {

struct LongTrace {
  std::uint64_t events = 10'000'000;    // about: whole iterations
  std::uint64_t launches_each = 2'000;  // in an iteration
  std::uint64_t moves_each = 20;
  std::uint64_t timed_every = 20;  // iterations of which one has its kernels timed; 0: none
};

// Calls `write` with the file's bytes, piece by piece. Returns the number of records.
std::uint64_t write_long_trace(const LongTrace& options, const std::function<void(std::span<const std::byte>)>& write);

}  // namespace spillway::tests
