// Follows a trace record by record and knows at each moment what is live, where its pages are, which launch it is and
// which iteration. The tables of stats, --explain, export and top are made from it.
//
//   RunFollower run;
//   run.add(record);   // then: what this record did
//   if (run.finished_move() != nullptr) ...
//
// What a launch touches is estimated: each of its pointers reaches to the next place at which any launch of the trace
// so far has pointed into the same allocation. Memory is bounded by what is live, the newest 131,072 shapes with 2 M
// pointers, and 4 M chunks (8 TiB) of managed memory. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/class_share.hpp"
#include "policy/engine.hpp"
#include "policy/plain_memory.hpp"
#include "policy/trace/record_codec.hpp"
#include "tools/iteration_finder.hpp"

namespace spillway::tools {

// Whom a move is put down to: what its cause names.
struct MoveOrigin {
  std::uint16_t span_class = 0;  // SpanClass
  std::uint16_t rule = 0;
  std::uint32_t function = 0;   // of the launch that asked for it; 0 none
  std::uint32_t iteration = 0;  // in which it was finished
  friend bool operator==(const MoveOrigin&, const MoveOrigin&) = default;
};

struct FollowedChunk {
  policy::Placement at = policy::Placement::unpopulated;
  bool was_in = false;     // has been in HBM before: coming in again is a refetch
  bool moved_in = false;   // came by a move from the host, and
  bool untouched = false;  // nothing has touched it since
  MoveOrigin origin;       // of that move
};

struct FollowedAllocation {
  policy::AllocationId id;
  std::uint32_t order = 0;  // of the request, from 1
  policy::DeviceIndex device;
  policy::AllocationKind kind = policy::AllocationKind::linear;
  policy::CallerId caller;
  policy::Bytes bytes;  // as requested; once settled, as the driver gave it
  policy::Address address;
  policy::Backing backing = policy::Backing::device;
  bool settled = false;
  policy::Nanoseconds asked;
  policy::ClassShare said;  // what decisions say it holds, so far
  [[nodiscard]] std::uint16_t span_class() const { return said.most(); }
  policy::Bytes in_hbm;  // managed only
  policy::Bytes on_host;
  policy::Bytes host_bytes;           // on the host when a launch named them, all launches together
  std::vector<FollowedChunk> chunks;  // managed only
  std::vector<std::uint64_t> cuts;    // offsets that were pointed to, sorted
  std::uint64_t arrivals = 1;         // RunFollower's counts of these, as of this allocation's last one
  std::uint64_t placements = 1;
};

// A move that has ended, and what it changed. Bytes that were there already are in none of the figures.
struct FinishedMove {
  policy::DecisionId decision;
  policy::MoveRange range;
  policy::Cause cause;
  policy::Nanoseconds decided;
  policy::MoveFinished end;
  MoveOrigin origin;
  policy::DeviceIndex device;
  policy::Bytes in;         // from the host into HBM
  policy::Bytes out;        // from HBM to the host
  policy::Bytes populated;  // first placement: nothing crosses
  policy::Bytes refetched;  // the part of `in` that had been in HBM before
  policy::Bytes changed;    // all bytes whose placement changed
};

// Bytes that were moved in and left again, or were freed, without a touch in between.
struct UselessMove {
  MoveOrigin origin;  // of the move in
  policy::AllocationId allocation;
  policy::Bytes bytes;
};

// How many iterations there were so far; replay, page and tables all say it by iterations_text (names.hpp).
struct IterationsSeen {
  std::uint64_t whole = 0;
  std::uint64_t begun = 0;  // the number of one that has launches and no end; 0: none
};

enum class Follows : std::uint8_t { memory, memory_and_iterations };

class RunFollower {
 public:
  explicit RunFollower(Follows what = Follows::memory_and_iterations);

  void add(const policy::trace::Record& record);

  // What the last record did.
  [[nodiscard]] const FinishedMove* finished_move() const { return has_move_ ? &move_ : nullptr; }
  [[nodiscard]] const std::vector<UselessMove>& useless() const { return useless_; }
  [[nodiscard]] const FollowedAllocation* freed() const { return has_freed_ ? &freed_ : nullptr; }
  [[nodiscard]] bool iteration_ended() const { return iteration_ended_; }
  // Of a launch: the function (0 for a graph), and the bytes on the host that its pointers reach.
  [[nodiscard]] policy::FunctionId launched() const { return launched_; }
  [[nodiscard]] policy::Bytes host_bytes() const { return host_bytes_; }
  [[nodiscard]] policy::StreamId stream() const { return stream_; }

  // What is so now.
  [[nodiscard]] policy::Nanoseconds time() const { return time_; }
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  [[nodiscard]] std::uint64_t iteration() const { return iterations_.iteration(); }  // 0 before the first
  [[nodiscard]] IterationsSeen iterations() const;
  // Of the last record: the launch that ends an iteration is still part of it.
  [[nodiscard]] std::uint64_t iteration_of_record() const { return iteration() - (iteration_ended_ ? 1U : 0U); }
  [[nodiscard]] const FollowedAllocation* find(policy::AllocationId id) const;
  [[nodiscard]] const std::unordered_map<policy::AllocationId, FollowedAllocation>& live() const { return live_; }
  [[nodiscard]] std::uint64_t open_moves() const { return open_.size(); }
  // By device index: resident, on_host, plain, managed, moved_in, moved_out, resident_peak and reserved.
  [[nodiscard]] const std::vector<policy::DeviceTotals>& devices() const { return devices_; }
  // By device index, as far as any bytes went there: the most that was on the host at a time.
  [[nodiscard]] const std::vector<policy::Bytes>& on_host_peaks() const { return on_host_peaks_; }
  [[nodiscard]] policy::FunctionId function_of(policy::LaunchShapeId shape) const;
  // 0 if that launch is further back than the newest 65,536, or was a graph.
  [[nodiscard]] policy::FunctionId function_at(policy::LaunchNumber launch) const;
  [[nodiscard]] const std::string& name(policy::FunctionId function) const;   // mangled; empty if unknown
  [[nodiscard]] const std::string& library(policy::CallerId caller) const;    // empty if unknown
  [[nodiscard]] std::size_t function_bound() const { return names_.size(); }  // ids are below
  static constexpr std::uint32_t kMostFunctions = 1U << 20;                   // ids beyond are damage: no function
  // Whether the shape's pointers reach into the allocation. Calls `visit(allocation, begin, end)` for each use.
  template <class Visit>
  void each_use(policy::LaunchShapeId shape, const Visit& visit) {
    if (Shape* known = resolved(shape)) {
      for (const Use& use : known->uses) visit(use.allocation, policy::Bytes(use.begin), policy::Bytes(use.end));
    }
  }
  // The shape's pointers, sorted; empty if it is not known (any more).
  [[nodiscard]] const std::vector<std::uint64_t>& pointers_of(policy::LaunchShapeId shape) const;
  [[nodiscard]] const std::vector<policy::LaunchShapeId>& shapes_of(policy::GraphId graph) const;

 private:
  struct Use {
    policy::AllocationId allocation;
    FollowedAllocation* of = nullptr;  // lives as long as the layout stays
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    policy::Bytes on_host;
  };
  struct Shape {
    policy::LaunchShapeId id;
    policy::FunctionId function;
    policy::LaunchKey key;
    std::vector<std::uint64_t> pointers;  // sorted
    std::vector<Use> uses;
    std::uint64_t resolved = 0;  // the values of layout_, arrivals_ and placements_ for which the rest is right
    std::uint64_t touched = 0;
    std::uint64_t priced = 0;
    policy::Bytes on_host;
  };
  struct OpenMove {
    policy::MoveRange range;
    policy::Cause cause;
    policy::Nanoseconds decided;
  };
  struct Adder;

  policy::DeviceTotals& device(policy::DeviceIndex index);
  FollowedAllocation* live_at(std::uint64_t address);
  void settle(const policy::AllocationSettled& settled);
  void release(policy::AllocationId id);
  // Adds to or removes from what the allocation's device has, in blocks, as the engine counts.
  void count_plain(const FollowedAllocation& allocation,
                   void (policy::PlainMemory::*count)(policy::Address, policy::Bytes));
  void map(const policy::Mapped& mapped);
  void forget_place(const FollowedAllocation& allocation);
  void decided(const policy::trace::Record& record);
  void finish(const policy::MoveFinished& finished);
  void place(FollowedAllocation& allocation, const policy::MoveRange& range, FinishedMove& move);
  void leave(FollowedAllocation& allocation, FollowedChunk& chunk, policy::Bytes size);
  void see_shape(const policy::LaunchShapeSeen& seen);
  Shape* resolved(policy::LaunchShapeId id);
  void launch(Shape& shape);
  static void touch(FollowedAllocation& allocation, std::uint64_t begin, std::uint64_t end);
  void touch(policy::AllocationId id, std::uint64_t begin, std::uint64_t end);
  void touch_address(policy::Address address, policy::Bytes bytes);
  void count_launch(policy::FunctionId function, policy::LaunchKey key, policy::LaunchShapeId shape);

  Follows what_;
  std::unordered_map<policy::AllocationId, FollowedAllocation> live_;
  std::map<std::uint64_t, policy::AllocationId> managed_at_;
  std::unordered_map<policy::DecisionId, OpenMove> open_;
  std::vector<policy::DeviceTotals> devices_;
  std::vector<policy::Bytes> on_host_peaks_;
  std::vector<policy::PlainMemory> plain_;  // by device index
  std::vector<Shape> shapes_;               // by the low bits of the id
  std::vector<std::string> names_;
  std::unordered_map<policy::CallerId, std::string> callers_;
  std::unordered_map<policy::GraphId, std::vector<policy::LaunchShapeId>> graphs_;
  std::vector<std::uint32_t> latest_;  // functions of the latest launches, by the low bits of the number
  IterationFinder iterations_;
  std::uint64_t pointers_ = 0;    // kept, of all shapes
  std::uint64_t chunks_ = 0;      // kept, of all allocations
  std::uint64_t layout_ = 1;      // changes when a pointer may mean another place
  std::uint64_t arrivals_ = 1;    // changes when chunks have come in untouched
  std::uint64_t placements_ = 1;  // changes when pages are elsewhere
  std::uint64_t launches_ = 0;
  std::uint64_t iteration_began_ = 0;  // launches before it
  std::uint32_t requests_ = 0;
  policy::Nanoseconds time_;

  bool has_move_ = false;
  bool has_freed_ = false;
  bool iteration_ended_ = false;
  FinishedMove move_;
  FollowedAllocation freed_;
  std::vector<UselessMove> useless_;
  policy::FunctionId launched_;
  policy::StreamId stream_;
  policy::Bytes host_bytes_;
};

}  // namespace spillway::tools
