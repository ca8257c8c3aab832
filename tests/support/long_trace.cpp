#include "tests/support/long_trace.hpp"

#include <random>
#include <string>
#include <vector>

#include "policy/forecast.hpp"
#include "policy/span_class.hpp"
#include "policy/trace/frame_builder.hpp"
#include "policy/trace/header.hpp"

namespace spillway::tests {

using namespace policy;
using namespace policy::trace;

namespace {

constexpr std::uint32_t kManaged = 400;
constexpr std::uint32_t kPlain = 600;
constexpr std::uint32_t kFunctions = 40;
constexpr std::uint32_t kStreams = 2;

class LongTraceWriter {
 public:
  LongTraceWriter(const LongTrace& options, const std::function<void(std::span<const std::byte>)>& write)
      : options_(options), write_(write) {
    TraceHeader header;
    header.program = "/usr/bin/python3";
    header.arguments = {"python", "train.py", "--layers", "48"};
    header.pid = 4242;
    header.start = "2026-01-02T03:04:05+00:00";
    header.host = "node1";
    header.driver_version = "13.0";
    header.build = "0.1.0";
    header.settings = {{"memory.device_budget", "40GiB"}, {"policy.mode", "adaptive"}};
    write_(encode_file_start(encode_header(header)));
  }

  std::uint64_t run() {
    begin();
    while (records_ < options_.events) iteration();
    put(builder_.finish());
    end();
    return records_;
  }

 private:
  void put(const std::optional<FrameBytes>& frame) {
    if (frame) write_(*frame);
  }
  void event(EventBody body) {
    ++records_;
    put(builder_.add({now_, std::move(body)}));
  }
  DecisionId decide(const Cause& cause, DecisionBody body) {
    ++records_;
    put(builder_.add(now_, Decision{{++decisions_}, cause, std::move(body)}));
    return {decisions_};
  }
  void pass(std::uint64_t least, std::uint64_t range) {
    now_ += Nanoseconds(static_cast<std::int64_t>(least + random_() % range));
  }
  [[nodiscard]] static Bytes size_of(std::uint32_t id) { return Bytes((id <= kManaged ? 32 + id % 7 * 48 : 1) << 20U); }
  [[nodiscard]] static Address address_of(std::uint32_t id) { return {0x7f0000000000 + (std::uint64_t{id} << 30U)}; }
  [[nodiscard]] static std::uint16_t class_of(std::uint32_t id) { return static_cast<std::uint16_t>(1 + id % 4); }

  void begin() {
    event(DeviceSeen{{0}, {1, 2, 3}, 80_GiB, 79_GiB, true, "A device made by formula"});
    event(CallerSeen{{1}, "/usr/lib/libtorch_cuda.so"});
    for (std::uint32_t id = 1; id <= kManaged + kPlain; ++id) allocate(id);
    for (std::uint32_t function = 1; function <= kFunctions; ++function) {
      const std::string name = "kernel_" + std::to_string(function);
      event(FunctionSeen{{function}, "_Z" + std::to_string(name.size()) + name + "Pfi"});
    }
    for (std::uint32_t shape = 1; shape <= options_.launches_each; ++shape) {
      const std::uint32_t id = 1 + shape * kManaged / static_cast<std::uint32_t>(options_.launches_each + 1);
      event(LaunchShapeSeen{{shape},
                            {function_of(shape)},
                            4096 * shape,
                            {{0, address_of(id)}, {1, address_of(1 + (id + 7) % kManaged)}}});
    }
  }

  [[nodiscard]] static std::uint32_t function_of(std::uint32_t shape) { return 1 + shape * shape % kFunctions; }

  void allocate(std::uint32_t id) {
    const Backing backing = id <= kManaged ? Backing::managed : Backing::device;
    event(AllocationRequested{{id}, {0}, size_of(id), AllocationKind::linear, {1}, {}, false});
    Cause cause;
    cause.reason = backing == Backing::managed ? Reason::expected_spill : Reason::small;
    decide(cause, BackAllocation{{id}, backing, Placement::device});
    pass(20'000, 30'000);
    event(AllocationSettled{{id}, address_of(id), size_of(id), backing, {}});
    if (backing == Backing::device) return;
    const bool fits = resident_ + size_of(id) <= 38_GiB;
    if (fits) resident_ += size_of(id);
    cause.reason = fits ? Reason::window_room : Reason::window_full;
    move(id, {}, size_of(id), fits ? Placement::device : Placement::host, cause);
  }

  void move(std::uint32_t id, Bytes offset, Bytes bytes, Placement to, Cause cause) {
    cause.span_class = class_of(id);
    cause.launch = {launches_};
    const DecisionId decision = decide(cause, MoveRange{{id}, offset, bytes, to, Urgency::background, {}, {}});
    const Nanoseconds took(static_cast<std::int64_t>(bytes.count() / (to == Placement::host ? 15 : 48)));
    now_ += took;
    event(MoveFinished{decision, MoveOutcome::done, {}, took});
  }

  void launch(std::uint32_t shape, bool timed) {
    pass(4'000, 6'000);
    event(Launched{{shape}, {shape % 50 == 0 ? kStreams : 1}});
    ++launches_;
    if (timed) event(KernelTimed{{launches_}, now_ + Nanoseconds(3'000), Nanoseconds(2'000 + shape % 17 * 300)});
    forecast_.launched(launch_key({function_of(shape)}, 4096 * shape), {shape});
    if (forecast_.candidate() == LaunchCount()) return;
    forecast_.accept();
    decide({}, Note{{}, {}, {}, "an iteration of " + std::to_string(options_.launches_each) + " launches was found"});
  }

  void iteration() {
    const std::uint64_t number = iterations_++;
    const bool timed = options_.timed_every != 0 && number % options_.timed_every == options_.timed_every - 1;
    event(Copied{{1}, CopyKind::host_to_device, address_of(kManaged + 1), {}, 256_KiB});
    const std::uint64_t stretch = options_.launches_each / (options_.moves_each + 1) + 1;
    for (std::uint32_t shape = 1; shape <= options_.launches_each; ++shape) {
      launch(shape, timed);
      if (shape % stretch == 0) exchange(number, shape / stretch);
    }
    event(Copied{{1}, CopyKind::device_to_host, {}, address_of(kManaged + 2), 4_KiB});
  }

  // One out, one in, by turns: what is resident stays about the same.
  void exchange(std::uint64_t number, std::uint64_t turn) {
    Cause cause;
    cause.reason = turn % 2 == 0 ? Reason::next_use : Reason::upcoming_use;
    cause.worth = static_cast<float>(turn);
    const auto id = static_cast<std::uint32_t>(1 + (number * 31 + turn / 2 * 7 + turn % 2 * 200) % kManaged);
    const std::uint64_t pieces = size_of(id).count() >> 25U;
    move(id, 32_MiB * (number % std::max<std::uint64_t>(1, pieces)), 32_MiB,
         turn % 2 == 0 ? Placement::host : Placement::device, cause);
  }

  void end() {
    TraceEnd end;
    end.reason = "exit";
    end.launches = launches_;
    end.decisions = decisions_;
    const std::string text = encode_end(end);
    FrameContents contents;
    contents.kind = FrameKind::end;
    write_(builder_.encoder().encode(std::as_bytes(std::span(text)), contents));
  }

  LongTrace options_;
  const std::function<void(std::span<const std::byte>)>& write_;
  FrameBuilder builder_;
  Forecast forecast_;
  std::mt19937_64 random_{7};
  Nanoseconds now_;
  Bytes resident_;
  std::uint64_t records_ = 0;
  std::uint64_t decisions_ = 0;
  std::uint64_t launches_ = 0;
  std::uint64_t iterations_ = 0;
};

}  // namespace

std::uint64_t write_long_trace(const LongTrace& options, const std::function<void(std::span<const std::byte>)>& write) {
  return LongTraceWriter(options, write).run();
}

}  // namespace spillway::tests
