// Where iterations begin. The trace has a note when the policy accepts an iteration; between notes the launches are
// followed by the policy's own forecast, so that the boundaries are those that it worked with.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "policy/event.hpp"
#include "policy/forecast.hpp"
#include "tools/view/blocks.hpp"

namespace spillway::tools::view {

class Iterations {
 public:
  void shape(const policy::LaunchShapeSeen& event);
  void launched(policy::Nanoseconds time, policy::LaunchShapeId shape);
  void launched(policy::Nanoseconds time, policy::GraphId graph);
  // A note of the policy: it says so when it accepts the candidate of the launch just before.
  void note(std::string_view text);

  struct Boundary {
    policy::Nanoseconds time;    // of the launch that ended an iteration
    std::uint64_t launches = 0;  // up to here
    bool found = false;          // an iteration was found here: what lies before it is none
  };
  [[nodiscard]] const std::vector<Boundary>& boundaries() const { return boundaries_; }
  Json to_json(Blocks& blocks) const;

 private:
  static constexpr std::size_t kMost = 100'000;
  void step(policy::Nanoseconds time, policy::LaunchKey key, policy::LaunchShapeId shape);

  policy::Forecast forecast_;
  std::unordered_map<policy::LaunchShapeId, policy::LaunchKey> keys_;
  std::vector<Boundary> boundaries_;
  policy::Nanoseconds last_;
};

}  // namespace spillway::tools::view
