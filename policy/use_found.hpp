// What a mode has found of how memory is used, for who plans the next run.
#pragma once

#include <cstdint>

namespace spillway::policy {

enum class UseFound : std::uint8_t {
  nothing,   // no plan was made yet: it lies where it came to lie
  in_parts,  // maybe: a run whose pages can be watched probes it (sparse_candidates.hpp), so its place changes by parts
  as_whole,
};

}  // namespace spillway::policy
