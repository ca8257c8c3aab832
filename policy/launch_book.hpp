// Every launch the program has shown, once per shape: what it names, and as which key the forecast knows it.
// Spans are cut here, and how far a use reaches over later cuts is estimated (reach.hpp): when a shape is seen for the
// first time, or again after an allocation came or went.
//
// Memory: the newest 2^17 shapes at most, each 64 bytes and 24 per pointer; an older one is forgotten when its slot is
// needed. (The shim itself keeps fewer apart at a time, and gives a forgotten one a new id.)
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/forecast.hpp"
#include "policy/function_book.hpp"
#include "policy/reach.hpp"
#include "policy/span_map.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

// One pointer of a launch, resolved to the allocation it named when the launch was last seen.
struct NamedPointer {
  AllocationId allocation;
  Bytes offset;
  Bytes room;  // to the end of the allocation
  std::uint16_t argument = 0;
  friend bool operator==(const NamedPointer&, const NamedPointer&) = default;
};

// Whether a function's launches tell by their threads how far they reach.
enum class Reaching : std::uint8_t { unknown, by_threads };

struct LaunchSite {
  LaunchShapeId shape;
  FunctionId function;
  std::uint64_t threads = 0;
  Reaching reaching = Reaching::unknown;
  LaunchKey key;
  std::uint64_t resolved_at = 0;  // the owner's epoch of address resolution
  std::vector<NamedPointer> pointers;
  std::vector<LaunchShapeId> kernels;  // of a graph, which names nothing itself
};

// A span as one kernel uses it: the launch's, or one of a graph's.
struct SpanUse {
  SpanId span;
  LaunchShapeId shape;
  std::uint16_t argument = 0;
  float columns = 0;  // operand_columns(), if the kernel is a matrix product
};

class LaunchBook {
 public:
  static constexpr std::size_t kMostShapes = std::size_t{1} << 17;

  // Graph launches have no shape: they are known by their kernels, which must be learned each by itself. Their shapes
  // get numbers from 2^31 up.
  LaunchShapeId graph_shape(std::span<const LaunchShapeId> kernels);

  [[nodiscard]] static bool is_graph(LaunchShapeId shape) { return (shape.value >> 31) != 0; }
  // True if the pointers must be given again with `learn` (new shape, or resolved at another epoch).
  [[nodiscard]] bool stale(LaunchShapeId shape, std::uint64_t epoch) const;
  void learn(LaunchShapeId shape, FunctionId function, std::uint64_t threads, std::uint64_t epoch,
             std::vector<NamedPointer> pointers, SpanMap& spans, Epoch now, Reaching reaching = Reaching::unknown);

  // A shape that is unknown or forgotten names nothing.
  [[nodiscard]] const LaunchSite& site(LaunchShapeId shape) const;
  // How far the launch reaches from this argument's pointers is known, so that it uses all that it is taken to use.
  [[nodiscard]] bool reach_known(LaunchShapeId shape, std::uint16_t argument) const;
  // The spans this launch uses, cut and marked as used now; appended to `out`, each span once a kernel.
  void uses(LaunchShapeId shape, SpanMap& spans, Epoch now, std::vector<SpanUse>& out) const;

 private:
  void uses_of(const LaunchSite& kernel, SpanMap& spans, Epoch now, std::vector<SpanUse>& out) const;

  std::vector<LaunchSite> sites_;  // by the low bits of the shape
  std::vector<LaunchSite> graphs_{1};
  std::unordered_map<std::uint64_t, std::uint32_t> graph_by_hash_;
  Reach reach_;
  mutable std::vector<SpanId> scratch_;
  mutable std::vector<Bytes> extents_;  // scratch of uses_of(): of the first three pointers
};

}  // namespace spillway::policy
