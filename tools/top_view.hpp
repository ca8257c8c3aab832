// What `spillway top` shows of a trace, up to the record that it was given last. Rates are over the last two seconds.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "policy/settings.hpp"
#include "policy/trace/trace_reader.hpp"
#include "tools/run_follower.hpp"
#include "tools/top_frame.hpp"

namespace spillway::tools {

class TopView {
 public:
  // Of a reader that is open.
  void begin(const policy::trace::TraceReader& reader, const std::string& path);
  // After `run` has seen the record.
  void add(const policy::trace::Record& record, const RunFollower& run);
  // The trace's end: what it recorded takes the place of what was added up or not known.
  void end(const policy::trace::TraceEnd& end);
  // "running", "ended by exit", "no end in the trace (killed, or its disk was full)".
  void set_state(std::string state) { state_ = std::move(state); }
  void set_completeness(std::string what) { completeness_ = std::move(what); }
  // Seconds since the last event, and its date, as TopFrame has them.
  void set_quiet(std::int64_t seconds, std::string last_event) {
    quiet_seconds_ = seconds;
    last_event_ = std::move(last_event);
  }

  // With `top` allocations.
  [[nodiscard]] TopFrame frame(const RunFollower& run, std::size_t top) const;

 private:
  struct Crossing {
    policy::Nanoseconds time;
    std::uint32_t device = 0;
    policy::Bytes in;
    policy::Bytes out;
  };
  struct Rates {
    double in = 0;  // bytes a second
    double out = 0;
    double launches = 0;
  };
  struct Mark {
    policy::Nanoseconds time;
    std::uint64_t launches = 0;
  };

  [[nodiscard]] Rates rates(const RunFollower& run, std::uint32_t device) const;
  [[nodiscard]] policy::Bytes budget(
      std::uint32_t device) const;  // zero: nothing is bounded, or the device not seen yet
  struct Peaks {
    policy::Bytes plain;
    policy::Bytes resident;
    policy::Bytes on_host;
  };
  [[nodiscard]] Peaks peaks(std::uint32_t device) const;
  [[nodiscard]] std::vector<const FollowedAllocation*> most_moved(const RunFollower& run, std::size_t top) const;
  [[nodiscard]] policy::Bytes crossed(policy::AllocationId id) const;

  policy::trace::TraceHeader header_;
  bool header_known_ = true;
  policy::Settings settings_;
  std::string path_;
  std::string state_ = "running";
  std::string completeness_;
  std::int64_t quiet_seconds_ = 0;
  std::string last_event_;
  std::unordered_map<std::uint32_t, policy::DeviceSeen> devices_;
  std::vector<Peaks> peaks_;                                            // by device
  std::unordered_map<std::uint32_t, policy::DeviceTotals> end_totals_;  // by device
  bool ended_ = false;
  std::deque<Crossing> crossings_;                                   // of the last two seconds
  std::deque<Mark> marks_;                                           // of the last two seconds, ten a second
  std::unordered_map<policy::AllocationId, policy::Bytes> crossed_;  // of what is live
  policy::Nanoseconds iteration_began_;
  policy::Nanoseconds iteration_took_;  // the last whole one; zero: none
  std::uint64_t iteration_launches_ = 0;
};

}  // namespace spillway::tools
