#include "tests/support/sample_trace.hpp"

#include "policy/trace/frame_builder.hpp"
#include "policy/trace/header.hpp"

namespace spillway::tests {

using namespace policy;
using namespace policy::trace;

namespace {

TraceHeader header(const std::string& rank) {
  TraceHeader header;
  header.program = "/usr/bin/train";
  header.arguments = {"train", "--steps", "10"};
  header.pid = 4242;
  header.parent_pid = 1;
  header.start = "2026-01-02T03:04:05+00:00";
  header.host = "node1";
  header.rank = rank;
  header.driver_version = "13.0";
  header.build = "0.1.0";
  header.settings = {{"memory.device_budget", "4GiB"}, {"memory.backing", "auto"}, {"policy.mode", "arrival"}};
  return header;
}

class Writer {
 public:
  explicit Writer(const SampleOptions& options)
      : file_(encode_file_start(encode_header(header(options.rank)))),
        builder_({options.frame_bytes, options.compression}) {}

  void event(EventBody body) { put(builder_.add({tick(), std::move(body)})); }
  void decide(Reason reason, DecisionBody body) {
    Decision decision;
    decision.id = {++decisions_};
    decision.cause.reason = reason;
    decision.body = std::move(body);
    put(builder_.add(tick(), decision));
  }
  [[nodiscard]] DecisionId last_decision() const { return {decisions_}; }
  void put(const std::optional<FrameBytes>& frame) {
    if (!frame) return;
    index_.add(file_.size(), *parse_frame_header(*frame));
    file_.insert(file_.end(), frame->begin(), frame->end());
  }
  std::vector<std::byte> finish(bool with_end) {
    put(builder_.finish());
    if (!with_end) return file_;
    const FrameBytes index = index_.encode(builder_.encoder());
    file_.insert(file_.end(), index.begin(), index.end());
    TraceEnd end;
    end.reason = "exit";
    end.launches = 30;
    end.decisions = decisions_;
    end.dropped_events = 1;
    DeviceTotals totals;
    totals.budget = 4_GiB;
    totals.managed = 8_MiB;
    totals.resident_peak = 6_MiB;
    totals.on_host = 2_MiB;
    totals.moved_in = 2_MiB;
    totals.moved_out = 4_MiB;
    end.devices.push_back({{0}, totals});
    const std::string text = encode_end(end);
    FrameContents contents;
    contents.kind = FrameKind::end;
    const FrameBytes frame = builder_.encoder().encode(std::as_bytes(std::span(text)), contents);
    file_.insert(file_.end(), frame.begin(), frame.end());
    return file_;
  }

 private:
  Nanoseconds tick() { return time_ += Nanoseconds(1'000'000); }

  std::vector<std::byte> file_;
  FrameBuilder builder_;
  FrameIndex index_;
  Nanoseconds time_;
  std::uint64_t decisions_ = 0;
};

void allocate(Writer& writer, std::uint32_t id, Bytes bytes, Backing backing, Reason reason) {
  writer.event(AllocationRequested{{id}, {0}, bytes, AllocationKind::linear, {1}, {}, false});
  writer.decide(reason, BackAllocation{{id}, backing, Placement::device});
  writer.event(AllocationSettled{{id}, Address{0x7f0000000000 + id * 0x10000000ULL}, bytes, backing, {}});
}

void move(Writer& writer, std::uint32_t id, Bytes offset, Bytes bytes, Placement to, Reason reason,
          MoveOutcome outcome) {
  writer.decide(reason, MoveRange{{id}, offset, bytes, to, Urgency::background, {}, {}});
  writer.event(MoveFinished{writer.last_decision(), outcome, {}, Nanoseconds(1000)});
}

}  // namespace

std::vector<std::byte> sample_trace(const SampleOptions& options) {
  Writer writer(options);
  writer.event(DeviceSeen{{0}, {1, 2, 3}, 16_GiB, 15_GiB, true, "Sample GPU"});
  writer.event(CallerSeen{{1}, "/usr/lib/libtrain.so"});
  allocate(writer, 1, 1_MiB, Backing::device, Reason::small);
  allocate(writer, 2, 5_MiB, Backing::managed, Reason::expected_spill);
  move(writer, 2, {}, 5_MiB, Placement::device, Reason::window_room, MoveOutcome::done);
  allocate(writer, 3, 3_MiB, Backing::managed, Reason::expected_spill);
  move(writer, 3, {}, 3_MiB, Placement::host, Reason::window_full, MoveOutcome::done);
  writer.event(AllocationRequested{{4}, {0}, 1_GiB, AllocationKind::linear, {1}, {}, false});
  writer.decide(Reason::host_budget, RefuseAllocation{{4}, 1_MiB});
  writer.event(FunctionSeen{{1}, "_Z4adamPfS_i"});
  writer.event(FunctionSeen{{2}, "gemm"});
  writer.event(LaunchShapeSeen{{1}, {1}, 4096, {{0, {0x7f0020000000}}}});
  writer.event(LaunchShapeSeen{{2}, {2}, 65536, {{0, {0x7f0020000000}}, {1, {0x7f0030000000}}}});
  writer.event(Copied{{0}, CopyKind::host_to_device, {0x7f0020000000}, {}, 64_KiB});
  for (int i = 0; i < 30; ++i) writer.event(Launched{{i % 3 == 0 ? 1U : 2U}, {0}});
  move(writer, 2, {}, 4_MiB, Placement::host, Reason::least_recent, MoveOutcome::done);
  move(writer, 2, {}, 2_MiB, Placement::device, Reason::upcoming_use, MoveOutcome::done);
  move(writer, 2, {}, 2_MiB, Placement::host, Reason::least_recent, MoveOutcome::cancelled);
  writer.decide(Reason::mode, Note{{}, {}, {}, "a note"});
  writer.event(EventsDropped{1});
  writer.event(FreeRequested{{1}, {}});
  writer.event(Freed{{1}, {}});
  return writer.finish(options.with_end);
}

}  // namespace spillway::tests
