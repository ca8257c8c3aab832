// Collects records into frames. The writing side's work per event: some stores into a buffer; per frame: packing.
//
// Pure, not thread-safe: it belongs to the thread that runs policy. Memory: `target_bytes`, 512 KiB, and a packer's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/trace/frame.hpp"

namespace spillway::policy::trace {

struct FrameLimits {
  std::size_t target_bytes = std::size_t{64} << 10;     // a frame is finished once its records take this much
  int compression_level = 1;                            // zstd's; 0 stores
  std::size_t chain_bytes = FrameEncoder::kChainBytes;  // of records: what one damaged byte may cost
};

class FrameBuilder {
 public:
  explicit FrameBuilder(FrameLimits limits = {});

  // Appends a record. Returns a finished frame when this one filled it, or did not fit its 4 s of time.
  // Events may come a little out of order: a record may be earlier than the first of its frame.
  [[nodiscard]] std::optional<FrameBytes> add(const Event& event);
  [[nodiscard]] std::optional<FrameBytes> add(Nanoseconds time, const Decision& decision);

  // The frame so far, finished; nothing if it has no record.
  [[nodiscard]] std::optional<FrameBytes> finish();
  // The same if its first record is `age` old or more at `now`: what is not finished is lost with a SIGKILL.
  [[nodiscard]] std::optional<FrameBytes> finish_if_older(Nanoseconds now,
                                                          Nanoseconds age = Nanoseconds(1'000'000'000));

  // The frame that was returned last will not be in the file.
  void note_dropped() { encoder_.end_chain(); }

  [[nodiscard]] std::uint32_t records() const { return records_; }  // in the open frame
  [[nodiscard]] Nanoseconds first_time() const { return first_; }   // of the open frame; meaningless without records
  [[nodiscard]] FrameEncoder& encoder() { return encoder_; }

 private:
  template <class Body>
  std::optional<FrameBytes> append(Nanoseconds time, const Body& body);
  void make_room_before(Nanoseconds time);

  FrameLimits limits_;
  FrameEncoder encoder_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  std::uint32_t records_ = 0;
  Nanoseconds first_;
  Nanoseconds last_;
};

// A frame that says that `records` were lost here, in place of frames that could not be written.
[[nodiscard]] FrameBytes encode_loss(FrameEncoder& encoder, Nanoseconds time, std::uint64_t records);

}  // namespace spillway::policy::trace
