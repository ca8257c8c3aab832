// Functions by what their names say: how they read their memory, and how to call them in a sentence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "policy/units.hpp"

namespace spillway::policy {

// What the name of a function says about how it reads its memory. A hint among others, never the only ground for a
// move.
enum class FunctionKind : std::uint8_t { other, matrix, attention, sparse, optimizer };
FunctionKind function_kind(std::string_view name);

class FunctionBook {
 public:
  void seen(FunctionId function, std::string_view name);
  [[nodiscard]] FunctionKind kind(FunctionId function) const;
  // Readable part of a mangled name, at most 40 characters, for evidence.
  [[nodiscard]] std::string_view label(FunctionId function) const;

 private:
  struct Known {
    FunctionKind kind = FunctionKind::other;
    std::string label;
  };
  std::unordered_map<FunctionId, Known> functions_;
};

// How often the span's bytes cross the link when the span stays on the host and this launch uses it: 1 for a stream,
// more for the tiled re-reads of a matrix product, by its thread count (measured: 8192 x 8192 bf16 weights cross once
// up to 128 columns, 4 times at 1024, 16 times at 4096).
double default_crossings(FunctionKind kind, std::uint64_t threads, Bytes span_bytes);

}  // namespace spillway::policy
