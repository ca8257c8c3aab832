// What each rule of a policy file would match in a recorded run, from the trace's own events.
//
// Counts what the rule decides, first match wins. Memory: the live allocations, the launch shapes, and one bit per rule
// and allocation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/rule_matcher.hpp"

namespace spillway::tools {

struct RuleUse {
  std::uint64_t allocations = 0;  // that it decides, when they are asked for or through a launch
  policy::Bytes bytes;            // of those allocations
  std::uint64_t launches = 0;     // with at least one pointer that it decides
  // Where its conditions hold, but a rule above decides.
  std::uint64_t lost = 0;
  bool allowed = false;       // the size, order, caller and device of some allocation are as it asks
  std::uint16_t lost_to = 0;  // number of the first rule that took something; 0: none did
  [[nodiscard]] bool dead() const { return allocations == 0 && launches == 0; }
};

// Memory of one device that rules with place = "device" decide.
struct PinnedUse {
  policy::DeviceSeen device;
  policy::Bytes live;
  policy::Bytes peak;
};

struct CoverageReport {
  std::vector<RuleUse> rules;  // by position in the file
  std::uint64_t allocations = 0;
  policy::Bytes bytes;
  std::uint64_t launches = 0;
  RuleUse no_rule;           // allocations that no rule decides
  RuleUse small;             // of those that rules decide, the ones that stay plain whatever a rule says
  std::uint64_t shared = 0;  // allocations that more than one rule decides, each for other kernels
  std::map<policy::DeviceIndex, PinnedUse> pinned;
  bool names_classes = false;  // some decision says which class a span has; else rules on classes cannot be judged
};

class RuleCoverage {
 public:
  explicit RuleCoverage(std::vector<policy::Rule> rules);
  void see(const policy::Event& event);
  void see(const policy::Decision& decision);
  [[nodiscard]] CoverageReport report() const;

 private:
  struct ClassRange {
    policy::Bytes bytes;
    policy::SpanClass span_class = policy::SpanClass::unknown;
    friend bool operator==(const ClassRange&, const ClassRange&) = default;
  };
  struct Allocation {
    policy::Bytes bytes;
    policy::Address address;
    policy::DeviceIndex device;
    bool pinned = false;                          // to the device, by a rule
    policy::RuleSet allowed;                      // by size, order, caller, device
    std::vector<bool> decided_by;                 // by rule
    std::size_t deciders = 0;                     // of them, so many
    std::map<std::uint64_t, ClassRange> classes;  // by offset, as the trace's decisions name them
  };
  // What the rules say about one shape, until memory or classes change.
  struct Shape {
    policy::FunctionId function;
    std::vector<policy::PointerArgument> arguments;
    std::uint64_t epoch = 0;
    policy::StreamId stream;
    std::vector<std::size_t> deciding;
  };

  void requested(const policy::AllocationRequested& request);
  void settled(const policy::AllocationSettled& settled);
  void freed(policy::AllocationId id);
  void launched(policy::LaunchShapeId id, policy::StreamId stream, std::vector<std::size_t>& deciding);
  void count_launch(std::vector<std::size_t>& deciding);
  void resolve(Shape& shape, policy::StreamId stream);
  void decide(Allocation& allocation, const policy::RuleSet& holding);
  void pin(Allocation& allocation);
  void forget(const Allocation& allocation);
  void name_class(policy::AllocationId id, policy::Bytes offset, ClassRange range);
  Allocation* at(policy::Address address);

  policy::RuleMatcher matcher_;
  std::unordered_map<policy::CallerId, std::string> callers_;
  std::unordered_map<policy::AllocationId, Allocation> allocations_;
  std::map<std::uint64_t, policy::AllocationId> by_address_;
  std::unordered_map<policy::LaunchShapeId, Shape> shapes_;
  std::unordered_map<policy::GraphId, std::vector<policy::LaunchShapeId>> graphs_;
  std::uint64_t epoch_ = 1;
  std::uint32_t requests_ = 0;
  std::uint64_t undecided_ = 0;
  policy::Bytes undecided_bytes_;
  CoverageReport report_;
};

}  // namespace spillway::tools
