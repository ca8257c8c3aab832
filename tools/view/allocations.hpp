// Every allocation of the run that the page lists: its life, its backing and why, what launched on it, what it was
// found to hold. The memory taken is bounded: small plain allocations past a limit are only counted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/class_share.hpp"
#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "tools/view/timeline.hpp"

namespace spillway::tools::view {

// Position in Allocations::all().
using Row = std::uint32_t;

struct ListedAllocation {
  policy::AllocationId id;
  policy::DeviceIndex device;
  policy::Bytes bytes;
  policy::AllocationKind kind = policy::AllocationKind::linear;
  policy::Backing backing = policy::Backing::device;
  policy::CallerId caller;
  policy::Address address;
  policy::Nanoseconds asked;
  std::optional<policy::Nanoseconds> freed;
  enum class End : std::uint8_t { lives = 0, freed = 1, refused = 2, failed = 3 } end = End::lives;
  bool settled = false;
  std::optional<policy::Reason> reason;  // of its backing
  std::uint16_t rule = 0;                // the rule that last decided about it
  policy::ClassShare said;               // what decisions say it holds
  policy::Bytes moved_in, moved_out, populated;
  std::uint32_t moves = 0;
  std::uint64_t launches = 0;
  // Launches by function and argument, function id in the upper half; the first kMostUses that were seen.
  std::map<std::uint64_t, std::uint64_t> uses;
};

class Allocations {
 public:
  void request(policy::Nanoseconds time, const policy::AllocationRequested& event);
  void decide(const policy::Decision& decision);
  void settle(policy::Nanoseconds time, const policy::AllocationSettled& event);
  void freed(policy::Nanoseconds time, const policy::Freed& event);

  void function(const policy::FunctionSeen& event) { functions_[event.function.value] = event.name; }
  void caller(const policy::CallerSeen& event) { callers_[event.caller.value] = event.library; }
  void shape(const policy::LaunchShapeSeen& event);
  void graph(const policy::GraphSeen& event);
  void launched(LaunchCode code);

  // None if the allocation is not listed. Ids are never used again in a run.
  [[nodiscard]] std::optional<Row> row(policy::AllocationId id) const;
  [[nodiscard]] std::vector<ListedAllocation>& all() { return all_; }
  [[nodiscard]] const std::vector<ListedAllocation>& all() const { return all_; }
  // The table, its texts, functions, shapes and graphs.
  Json finish(Blocks& blocks);

 private:
  static constexpr std::size_t kMostListed = 60'000;
  static constexpr std::size_t kMostPlain = 20'000;  // of them plain
  static constexpr std::size_t kMostUses = 32;
  static constexpr std::size_t kMostShapesShown = 200'000;

  struct Shape {
    policy::FunctionId function;
    std::uint64_t threads = 0;
    std::vector<policy::PointerArgument> arguments;
    std::vector<std::pair<Row, std::uint16_t>> touches;  // as resolved under `epoch`
    std::uint64_t epoch = 0;
    std::uint64_t pending = 0;  // launches not yet counted at the allocations
  };

  void drop(Row row);
  void resolve(Shape& shape);
  void count_pending();
  void count_shape(policy::LaunchShapeId shape);
  [[nodiscard]] std::string evidence(const ListedAllocation& allocation) const;
  [[nodiscard]] std::string function_name(std::uint32_t id) const;
  Json shapes_json(Blocks& blocks);
  Json graphs_json(Blocks& blocks) const;

  std::vector<ListedAllocation> all_;
  std::unordered_map<policy::AllocationId, Row> rows_;
  std::map<std::uint64_t, Row> by_address_;
  std::uint64_t epoch_ = 1;
  std::size_t plain_listed_ = 0;
  std::uint64_t not_listed_ = 0;
  policy::Bytes not_listed_bytes_;
  std::unordered_map<policy::LaunchShapeId, Shape> shapes_;
  std::vector<Shape*> dirty_;  // with launches pending; a map's elements stay where they are
  std::unordered_map<std::uint32_t, std::vector<policy::LaunchShapeId>> graphs_;
  std::map<std::uint32_t, std::string> functions_;
  std::map<std::uint32_t, std::string> callers_;
};

}  // namespace spillway::tools::view
