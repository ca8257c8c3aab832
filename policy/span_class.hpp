// What a span holds, as rules name it and the classifier finds it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace spillway::policy {

// Append only: the numbers are in traces (Cause::span_class).
enum class SpanClass : std::uint16_t {
  unknown = 0,
  weights = 1,
  gradients = 2,
  activations = 3,
  optimizer = 4,
  kv = 5,
  workspace = 6,
};

// By number.
inline constexpr std::array<std::string_view, 7> kSpanClassNames = {"unknown",   "weights", "gradients", "activations",
                                                                    "optimizer", "kv",      "workspace"};

}  // namespace spillway::policy
