// A small trace made by hand, with known figures: for the tools' golden outputs and the fuzzer's seeds.
//
// One device with a budget of 4 GiB; three allocations (one plain of 1 MiB, managed of 5 MiB and 3 MiB), one refused of
// 1 GiB; 30 launches of two functions; 4 MiB moved to the host and 2 MiB of them back; a Note; one dropped event.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace spillway::tests {

struct SampleOptions {
  std::string rank;
  bool with_end = true;
  std::size_t frame_bytes = 1024;  // several frames
  int compression = 1;
};

std::vector<std::byte> sample_trace(const SampleOptions& options = {});

}  // namespace spillway::tests
