// What a run moved, broken down: per class, rule, kernel, iteration and allocation. Fed beside RunFollower.
//
// A move counts for what its cause names: class, rule, and the launch that asked for it. Useless bytes count for the
// move that brought them in. Memory: a row per class, rule and function, at most kMostIterations iterations, and of the
// allocations that have been freed the kKept with most traffic.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/explain.hpp"
#include "policy/trace/header.hpp"
#include "tools/run_follower.hpp"

namespace spillway::tools {

// What moves brought about. "Useless" was moved in, and moved out or freed before anything touched it.
struct Traffic {
  std::uint64_t moves = 0;  // that were carried out
  policy::Bytes in;
  policy::Bytes out;
  policy::Bytes populated;
  policy::Bytes refetched;
  policy::Bytes useless;
  policy::Nanoseconds took;  // inside move calls
  [[nodiscard]] policy::Bytes crossed() const { return in + out; }
  void add(const FinishedMove& move);
};

struct KernelRow {
  std::string name;  // mangled; "no kernel": moves that no launch asked for, "(graphs)"
  std::uint64_t launches = 0;
  policy::Bytes host_bytes;   // on the host when a launch named them
  policy::Nanoseconds timed;  // of the launches that were timed
  std::uint64_t timed_launches = 0;
  Traffic traffic;
};

struct IterationRow {
  std::uint64_t number = 0;  // 0: before the first that was found
  policy::Nanoseconds begin;
  policy::Nanoseconds end;
  bool complete = false;
  std::uint64_t launches = 0;
  policy::Bytes host_bytes;
  std::uint64_t faults = 0;  // of the GPU, where they were recorded
  Traffic traffic;
  [[nodiscard]] policy::Nanoseconds time() const { return end - begin; }
};

struct AllocationRow {
  policy::AllocationId id;
  policy::DeviceIndex device;
  policy::Bytes bytes;
  policy::AllocationKind kind = policy::AllocationKind::linear;
  policy::Backing backing = policy::Backing::device;
  std::uint16_t span_class = 0;
  bool freed = false;
  policy::Bytes in_hbm;  // at the end, or when it was freed
  policy::Bytes on_host;
  policy::Bytes host_bytes;  // on the host when a launch named them
  std::string library;
  Traffic traffic;
};

struct RunTables {
  Traffic total;
  policy::Bytes host_bytes;
  std::map<std::uint16_t, Traffic> classes;  // by SpanClass
  std::map<std::uint16_t, Traffic> rules;    // by number, those that moved nothing too; 0: no rule
  std::vector<KernelRow> kernels;            // most bytes crossed, then most host bytes, then most launches first
  std::vector<IterationRow> iterations;      // in order
  std::uint64_t iterations_left_out = 0;
  IterationsSeen iterations_seen;
  std::vector<AllocationRow> allocations;  // with traffic, or managed and live; ordered as kernels are
  policy::RuleWords rule_words;            // of the policy file, by number from 1; none in older traces
  std::vector<policy::trace::RuleSeen> rules_seen;
  std::string policy_file;
  double link_in = 0;  // bytes a second, by the trace's cost table
  // How long the host bytes take over the link at most: what launches may have waited for.
  [[nodiscard]] policy::Nanoseconds stall_estimate(policy::Bytes bytes) const;
  // Of an iteration: no more than it took.
  [[nodiscard]] policy::Nanoseconds stall_estimate(const IterationRow& row) const;
};

class RunTableMaker {
 public:
  static constexpr std::size_t kMostIterations = 65536;
  static constexpr std::size_t kKept = 1024;

  // After `run` has seen the same record.
  void add(const policy::trace::Record& record, const RunFollower& run);
  RunTables finish(const RunFollower& run, const policy::trace::TraceHeader& header);

 private:
  void add_move(const FinishedMove& move, const RunFollower& run);
  void launched(const RunFollower& run);
  void end_iteration(const RunFollower& run);
  KernelRow& kernel(std::uint32_t function);
  IterationRow* iteration(std::uint64_t number);
  AllocationRow row_of(const FollowedAllocation& allocation, const RunFollower& run);
  void forget(const FollowedAllocation& freed, const RunFollower& run);

  RunTables tables_;
  std::vector<KernelRow> kernels_;  // by function; 0: none
  KernelRow graphs_;
  std::vector<IterationRow> iterations_{1};                        // by number
  std::unordered_map<policy::AllocationId, Traffic> allocations_;  // live, with traffic
  std::vector<AllocationRow> gone_;
};

}  // namespace spillway::tools
