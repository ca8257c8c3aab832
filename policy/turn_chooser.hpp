// Which piece comes into HBM next, and which leaves for it, while a device works through an iteration that repeats.
//
// What is used next comes first, if it can be there in time: behind what is on its way already, at the rate that moves
// have had lately. What cannot is left to be read in place, and waits for its next use. What leaves is what is used
// last from now on, later than what it makes room for (Belady), and nothing leaves before it was used once. So moves
// that crawl, because launches use the link, are fewer, but each of them saves a use in place.
//
// Owner: who follows a device (policy/modes/streaming.hpp), or looks ahead what that would come to
// (policy/stream_schedule.hpp). Places are told each time, so a move that was missed or refused is thought of again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/units.hpp"

namespace spillway::policy {

inline constexpr std::size_t kMostStretches = 64;
// Bit k is stretch k of an iteration.
using StretchMask = std::uint64_t;

// A piece of memory that takes turns in HBM.
struct TurnPiece {
  Bytes bytes;
  StretchMask used = 0;
  StretchMask turns = 0;         // of those, the ones that are worth coming in for
  std::uint32_t least_lead = 1;  // stretches before its use by which it is to be there, at least
};

enum class TurnPlace : std::uint8_t { host, coming, in_hbm, leaving, gone };

class TurnChooser {
 public:
  struct Choice {
    std::vector<std::uint32_t> out, in;  // pieces; what is needed first comes first
  };

  TurnChooser() = default;
  // `seconds`: of each stretch, as far as is known. `limit`: what the pieces may hold together.
  TurnChooser(std::vector<TurnPiece> pieces, std::vector<double> seconds, Bytes limit, const CostTable& costs);

  // The device is so far (0 to 1) into this stretch.
  void reached(std::uint32_t stretch, double part, Nanoseconds now);
  // To HBM or the host.
  void moved(Bytes bytes, TurnPlace to, Nanoseconds now);
  Choice choose(std::span<const TurnPlace> places, Nanoseconds now);

 private:
  // What came in stays until it was used, by a stretch at whose beginning it was there.
  enum class Owed : std::uint8_t { nothing, comes, is_there };
  struct Lane {
    double seconds_a_byte = 0;
    double least = 0;        // where the link is free
    Nanoseconds since;       // when the move that runs began
    std::uint32_t idle = 0;  // stretches since the latest move
  };
  // Bytes, of the pieces.
  struct Held {
    Bytes free;      // that may come in now
    Bytes promised;  // and once all has left that is leaving, less what is to come for it
    Bytes coming;
    Bytes leaving;
    bool waiting = false;  // something waits for what is leaving
    bool full = false;     // and nothing more may leave for what is used later
  };

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(seconds_.size()); }
  // Stretches from now on until one of these, `from` at least; none: twice as many as there are.
  [[nodiscard]] std::uint32_t distance(StretchMask mask, std::uint32_t from) const;
  void note_uses(std::span<const TurnPlace> places);
  Held hold(std::span<const TurnPlace> places, Nanoseconds now);
  void look_ahead(Nanoseconds now);
  bool bring(std::uint32_t piece, std::uint32_t use, std::span<const TurnPlace> places, Held& held, Choice& choice);
  // Enough to make room for these bytes, if there is.
  std::vector<std::uint32_t> leaving_for(Bytes bytes, std::uint32_t use, std::span<const TurnPlace> places,
                                         const Choice& choice) const;

  std::vector<TurnPiece> pieces_;
  std::vector<double> seconds_;
  Bytes limit_;
  double crawling_ = 0;  // seconds a byte
  Lane in_, out_;
  std::vector<std::vector<std::uint32_t>> used_in_, turn_in_;  // pieces by stretch
  std::vector<Owed> owed_;
  StretchMask passed_ = 0;     // stretches since uses were noted
  std::uint32_t stretch_ = 0;  // where the device is
  double part_ = 0;
  Nanoseconds reached_;  // when that was told
  Nanoseconds entered_;  // when this stretch began, about
  // Seconds until the stretch that comes after so many begins.
  std::array<double, kMostStretches + 1> until_{};
};

}  // namespace spillway::policy
