// Functions by what their names say: how they read their memory, and how to call them in a sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

// Columns of the other operand, for the pointer at `position` of a matrix product: the first two pointers are the
// operands, the third is the result, as cuBLAS and CUTLASS have them, and three sizes in bytes of two-byte elements
// give the three sides. None for the result. With fewer pointers the threads tell: tiles of 128 x 256 outputs by 384
// threads, and a square operand.
double operand_columns(std::size_t position, std::span<const Bytes> extents, std::uint64_t threads);

// How often the bytes of a use cross the link when they stay on the host: 1 for a stream, and for the operand of a
// matrix product once for each 256 columns of the other one (measured: 8192 x 8192 bf16 weights cross once up to 128
// columns, 4 times at 1024, 16 times at 4096).
double default_crossings(FunctionKind kind, double columns);

}  // namespace spillway::policy
