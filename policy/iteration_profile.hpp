// One iteration laid out by span: who uses what, when. Made once an iteration from the forecast's history; answers when
// a span is needed next. Positions are launches from the start of the profile, and the profile repeats itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/forecast.hpp"
#include "policy/launch_book.hpp"
#include "policy/span_map.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

struct ProfiledUse {
  std::uint32_t position = 0;
  LaunchShapeId shape;
  std::uint16_t argument = 0;
  float columns = 0;  // operand_columns(), if the kernel is a matrix product
};

// Cuts what the launches of a stretch name, and marks it with `now`: a second pass meets no new cuts, and what is aged
// out then is used by none of them.
void cut_stretch(const Forecast& forecast, const LaunchBook& book, SpanMap& spans, LaunchNumber first,
                 LaunchNumber last, Epoch now);

class IterationProfile {
 public:
  // Reads the `length` launches that end with `last`. Cuts that had been aged out are made again. Marks spans with
  // `now`.
  void build(const Forecast& forecast, const LaunchBook& book, SpanMap& spans, LaunchNumber last, LaunchCount length,
             Epoch now);

  [[nodiscard]] LaunchCount length() const { return length_; }
  [[nodiscard]] LaunchNumber first_launch() const { return first_; }
  // Spans used in the iteration, ascending by id.
  [[nodiscard]] std::span<const SpanId> spans() const { return spans_; }
  // In order of position; empty for a span that is not used.
  [[nodiscard]] std::span<const ProfiledUse> uses(SpanId span) const;
  // Position in the profile that `launch` corresponds to, whatever iteration it is in.
  [[nodiscard]] std::uint32_t position(LaunchNumber launch) const;
  // Launches from `launch` (excluded) to the next use; the largest count if the span is not used at all.
  [[nodiscard]] LaunchCount next_use(SpanId span, LaunchNumber launch) const;
  // Launches of one iteration that separate the last use from the first, going round (the longest pause subtracted).
  [[nodiscard]] LaunchCount hull(SpanId span) const;

  static constexpr LaunchCount kNever = LaunchCount(~std::uint64_t{0});

 private:
  LaunchCount length_;
  LaunchNumber first_;
  std::vector<SpanId> spans_;
  std::vector<std::uint32_t> begin_;  // by span id; uses_[begin_[id] .. begin_[id + 1])
  std::vector<ProfiledUse> uses_;
};

// The share of bytes, and of spans, that two stretches of launches have in common; the smaller of the two, 0 to 1.
// The stretches are the `length` launches ending with `last`, and those before them.
double stretch_overlap(const Forecast& forecast, const LaunchBook& book, SpanMap& spans, LaunchNumber last,
                       LaunchCount length, Epoch now);

}  // namespace spillway::policy
