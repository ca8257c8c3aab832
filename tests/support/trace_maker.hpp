// Writes a trace by hand, event by event, and a training run of known figures with it: for the tests of the tools.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "policy/trace/frame_builder.hpp"
#include "policy/trace/header.hpp"

namespace spillway::tests {

class TraceMaker {
 public:
  explicit TraceMaker(const policy::trace::TraceHeader& header, policy::trace::FrameLimits limits = {});

  // Each record is a microsecond after the one before.
  void event(policy::EventBody body);
  policy::DecisionId decide(const policy::Cause& cause, policy::DecisionBody body);
  void pass(policy::Nanoseconds time) { time_ += time; }

  // Request, decision and settling in one.
  void allocate(std::uint32_t id, policy::Bytes bytes, policy::Backing backing, policy::Address address);
  // Decision and end in one; takes a millisecond.
  policy::DecisionId move(std::uint32_t id, policy::Bytes offset, policy::Bytes bytes, policy::Placement to,
                          const policy::Cause& cause, policy::MoveOutcome outcome = policy::MoveOutcome::done);
  void launch(std::uint32_t shape, std::uint32_t stream = 0);
  // Here; the frames are counted at the end only.
  void drop(std::uint64_t events, std::uint64_t frames);

  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  // With its end and what that says of the devices, or without one as after a SIGKILL.
  std::vector<std::byte> finish(std::vector<policy::trace::DeviceEnd> devices = {});
  std::vector<std::byte> finish_without_end();

 private:
  void put(const std::optional<policy::trace::FrameBytes>& frame);

  std::vector<std::byte> file_;
  policy::trace::FrameBuilder builder_;
  policy::trace::FrameIndex index_;
  policy::Nanoseconds time_;
  std::uint64_t launches_ = 0;
  std::uint64_t dropped_frames_ = 0;
  std::uint64_t decisions_ = 0;
};

// 20 iterations of 24 launches: 10 of `forward` on eight MiB of weights (allocation 1), 10 of `backward` on weights and
// 6 MiB of activations (3), 4 of `adam` on 16 MiB of states (2) and the weights. Weights and activations begin in HBM,
// states on the host. From the fifth iteration on, 4 MiB of the states come in before adam and go out after it, by rule
// 2 and as class optimizer; in the tenth to twelfth, 2 MiB of activations go out, come in and go out again with no
// launch in between, and come in at the end of the iteration. The run ends with the activations freed.
struct TrainingOptions {
  std::string rank;
  std::string start = "2026-01-02T03:04:05+00:00";
  std::uint64_t pid = 4242;
  unsigned iterations = 20;
};
std::vector<std::byte> training_trace(const TrainingOptions& options = {});

}  // namespace spillway::tests
