#include "tests/support/trace_maker.hpp"

#include <utility>

namespace spillway::tests {

using namespace policy;
using namespace policy::trace;

TraceMaker::TraceMaker(const TraceHeader& header, FrameLimits limits)
    : file_(encode_file_start(encode_header(header))), builder_(limits) {}

void TraceMaker::put(const std::optional<FrameBytes>& frame) {
  if (!frame) return;
  index_.add(file_.size(), *parse_frame_header(*frame));
  file_.insert(file_.end(), frame->begin(), frame->end());
}

void TraceMaker::event(EventBody body) {
  time_ += Nanoseconds(1000);
  put(builder_.add({time_, std::move(body)}));
}

DecisionId TraceMaker::decide(const Cause& cause, DecisionBody body) {
  time_ += Nanoseconds(1000);
  const Decision decision{{++decisions_}, cause, std::move(body)};
  put(builder_.add(time_, decision));
  return decision.id;
}

void TraceMaker::allocate(std::uint32_t id, Bytes bytes, Backing backing, Address address) {
  event(AllocationRequested{{id}, {0}, bytes, AllocationKind::linear, {1}, {}, false});
  Cause cause;
  cause.reason = backing == Backing::device ? Reason::small : Reason::expected_spill;
  decide(cause, BackAllocation{{id}, backing, Placement::device});
  event(AllocationSettled{{id}, address, bytes, backing, {}});
}

DecisionId TraceMaker::move(std::uint32_t id, Bytes offset, Bytes bytes, Placement to, const Cause& cause,
                            MoveOutcome outcome) {
  const DecisionId decision = decide(cause, MoveRange{{id}, offset, bytes, to, Urgency::background, {}, {}});
  pass(Nanoseconds(1'000'000));
  event(MoveFinished{decision, outcome, {}, Nanoseconds(1'000'000)});
  return decision;
}

void TraceMaker::launch(std::uint32_t shape, std::uint32_t stream) {
  ++launches_;
  event(Launched{{shape}, {stream}});
}

void TraceMaker::drop(std::uint64_t events, std::uint64_t frames) {
  dropped_frames_ += frames;
  event(EventsDropped{events});
}

std::vector<std::byte> TraceMaker::finish_without_end() {
  put(builder_.finish());
  return file_;
}

std::vector<std::byte> TraceMaker::finish(std::vector<DeviceEnd> devices) {
  put(builder_.finish());
  const FrameBytes index = index_.encode(builder_.encoder());
  file_.insert(file_.end(), index.begin(), index.end());
  TraceEnd end;
  end.reason = "exit";
  end.launches = launches_;
  end.decisions = decisions_;
  end.dropped_frames = dropped_frames_;
  end.devices = std::move(devices);
  const std::string text = encode_end(end);
  FrameContents contents;
  contents.kind = FrameKind::end;
  const FrameBytes frame = builder_.encoder().encode(std::as_bytes(std::span(text)), contents);
  file_.insert(file_.end(), frame.begin(), frame.end());
  return file_;
}

namespace {

TraceHeader training_header(const TrainingOptions& options) {
  TraceHeader header;
  header.program = "/usr/bin/train";
  header.arguments = {"train", "--steps", "20"};
  header.pid = options.pid;
  header.parent_pid = 1;
  header.start = options.start;
  header.host = "node1";
  header.rank = options.rank;
  header.driver_version = "13.0";
  header.build = "0.1.0";
  header.settings = {
      {"memory.device_budget", "64MiB"}, {"policy.mode", "adaptive"}, {"policy.file", "/etc/training.toml"}};
  header.rules = {{"weights last", 4}, {"adam \"states\"\x1b", 9}};
  return header;
}

constexpr Address kWeights{0x7f0010000000};
constexpr Address kStates{0x7f0020000000};
constexpr Address kActivations{0x7f0030000000};

void see_shapes(TraceMaker& maker) {
  maker.event(FunctionSeen{{1}, "_Z7forwardPf"});
  maker.event(FunctionSeen{{2}, "_Z8backwardPfS_"});
  maker.event(FunctionSeen{{3}, "_Z4adamPfS_i"});
  for (std::uint32_t i = 0; i < 10; ++i) {
    const Address layer = kWeights + 512_KiB * (i % 8);
    maker.event(LaunchShapeSeen{{1 + i}, {1}, 4096, {{0, layer}}});
    maker.event(LaunchShapeSeen{{11 + i}, {2}, 8192, {{0, layer}, {1, kActivations + 1_MiB * (i % 6)}}});
  }
  for (std::uint32_t i = 0; i < 4; ++i) {
    maker.event(LaunchShapeSeen{{21 + i}, {3}, 1024, {{0, kWeights + 2_MiB * i}, {1, kStates + 4_MiB * i}}});
  }
}

}  // namespace

std::vector<std::byte> training_trace(const TrainingOptions& options) {
  TraceMaker maker(training_header(options));
  maker.event(DeviceSeen{{0}, {1, 2, 3}, 1_GiB, 1_GiB, true, "Sample GPU"});
  maker.event(CallerSeen{{1}, "/usr/lib/libtrain.so"});
  Cause room, full;
  room.reason = Reason::window_room;
  full.reason = Reason::window_full;
  maker.allocate(1, 8_MiB, Backing::managed, kWeights);
  maker.move(1, {}, 8_MiB, Placement::device, room);
  maker.allocate(2, 16_MiB, Backing::managed, kStates);
  maker.move(2, {}, 16_MiB, Placement::host, full);
  maker.allocate(3, 6_MiB, Backing::managed, kActivations);
  maker.move(3, {}, 6_MiB, Placement::device, room);
  see_shapes(maker);
  const auto cause = [&maker](Reason reason, std::uint16_t span_class, std::uint16_t rule) {
    Cause made;
    made.reason = reason;
    made.span_class = span_class;
    made.rule = rule;
    made.launch = {maker.launches()};
    return made;
  };
  for (unsigned iteration = 1; iteration <= options.iterations; ++iteration) {
    maker.event(Copied{{0}, CopyKind::host_to_device, kActivations, {}, 64_KiB});
    for (std::uint32_t i = 0; i < 20; ++i) maker.launch(1 + i);
    const bool streams = iteration >= 5;
    const bool useless = iteration >= 10 && iteration <= 12;
    if (useless) {
      maker.move(3, 4_MiB, 2_MiB, Placement::host, cause(Reason::worth, 3, 0));
      maker.move(3, 4_MiB, 2_MiB, Placement::device, cause(Reason::worth, 3, 0));
      maker.move(3, 4_MiB, 2_MiB, Placement::host, cause(Reason::watchdog, 3, 0));
    }
    if (streams) maker.move(2, {}, 4_MiB, Placement::device, cause(Reason::rule, 4, 2));
    for (std::uint32_t i = 20; i < 24; ++i) maker.launch(1 + i, 1);
    if (streams) maker.move(2, {}, 4_MiB, Placement::host, cause(Reason::rule, 4, 2));
    if (useless) maker.move(3, 4_MiB, 2_MiB, Placement::device, cause(Reason::worth, 3, 0));
    if (iteration == 3) maker.decide({}, Note{{}, {}, {}, "an iteration of 24 launches was found"});
  }
  maker.event(FreeRequested{{3}, {}});
  maker.event(Freed{{3}, {}});
  return maker.finish();
}

}  // namespace spillway::tests
