// A recording in today's version of the format: the same frames, packed anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spillway::golden {

struct Rewritten {
  std::vector<std::byte> file;
  std::uint64_t launches = 0;  // of graphs too
  bool whole = false;          // nothing of the recording was cut or damaged
};

// Throws std::runtime_error, with the reason, if `file` is no trace.
Rewritten rewrite(std::span<const std::byte> file);

}  // namespace spillway::golden
