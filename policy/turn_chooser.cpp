#include "policy/turn_chooser.hpp"

#include <algorithm>
#include <bit>

namespace spillway::policy {
namespace {

// On its way or waiting for room: what is decided later knows more, and meanwhile the room is of no use.
constexpr Bytes kAhead = 64_MiB;
// What comes late came for nothing, until its next use: so much of the time that is expected is allowed for.
constexpr double kSafety = 1.5;
constexpr Bytes kUsualMove = 32_MiB;
// Of the rates, how much the latest move says; of the pace, the latest stretch.
constexpr double kLatestMove = 0.25;
constexpr double kLatestStretch = 0.5;
// After an iteration without a move, of a rate with each stretch.
constexpr double kForgotten = 0.1;
constexpr double kSlowestCrawl = 2;  // times what is known of moves beside use in place

double seconds_of(Nanoseconds time) { return static_cast<double>(time.count()) * 1e-9; }
double count_of(Bytes bytes) { return static_cast<double>(bytes.count()); }
StretchMask stretch_bit(std::uint32_t stretch) { return StretchMask{1} << stretch; }

template <class Visit>
void each_stretch(StretchMask mask, const Visit& visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<std::uint32_t>(std::countr_zero(mask)));
}

}  // namespace

TurnChooser::TurnChooser(std::vector<TurnPiece> pieces, std::vector<double> seconds, Bytes limit,
                         const CostTable& costs)
    : pieces_(std::move(pieces)),
      seconds_(std::move(seconds)),
      limit_(limit),
      crawling_(1 / costs.move_beside_in_place),
      used_in_(seconds_.size()),
      turn_in_(seconds_.size()),
      owed_(pieces_.size()) {
  in_.least = std::min(crawling_, costs.bring_in(kUsualMove, kUsualMove) / count_of(kUsualMove));
  out_.least = std::min(crawling_, 1 / costs.move_out);
  in_.seconds_a_byte = out_.seconds_a_byte = crawling_;
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    each_stretch(pieces_[i].used, [&](std::uint32_t k) { used_in_[k].push_back(i); });
    each_stretch(pieces_[i].turns, [&](std::uint32_t k) { turn_in_[k].push_back(i); });
  }
}

std::uint32_t TurnChooser::distance(StretchMask mask, std::uint32_t from) const {
  const StretchMask ahead = mask >> stretch_;
  const StretchMask behind = stretch_ == 0 ? 0 : mask << (count() - stretch_);
  const StretchMask all = count() >= kMostStretches ? ~StretchMask{0} : stretch_bit(count()) - 1;
  const StretchMask turned = (ahead | behind) & all;
  const StretchMask later = from == 0 ? turned : turned & ~StretchMask{1};
  if (later != 0) return static_cast<std::uint32_t>(std::countr_zero(later));
  return turned != 0 ? count() : 2 * count();
}

void TurnChooser::reached(std::uint32_t stretch, double part, Nanoseconds now) {
  if (stretch != stretch_) {
    double expected = 0;
    for (std::uint32_t k = stretch_; k != stretch; k = (k + 1) % count()) expected += seconds_[k];
    const double ratio = std::clamp(seconds_of(now - entered_) / std::max(expected, 1e-9), 0.1, 10.0);
    for (std::uint32_t k = stretch_; k != stretch; k = (k + 1) % count()) {
      passed_ |= stretch_bit(k);
      if (reached_ != Nanoseconds()) seconds_[k] *= 1 + kLatestStretch * (ratio - 1);
    }
    entered_ = now - Nanoseconds(static_cast<std::int64_t>(part * seconds_[stretch] * 1e9));
  }
  stretch_ = stretch;
  part_ = part;
  reached_ = now;
}

void TurnChooser::moved(Bytes bytes, TurnPlace to, Nanoseconds now) {
  Lane& lane = to == TurnPlace::in_hbm ? in_ : out_;
  const double took = seconds_of(now - lane.since) / std::max(count_of(bytes), 1.0);
  lane.seconds_a_byte += kLatestMove * (std::clamp(took, lane.least, kSlowestCrawl * crawling_) - lane.seconds_a_byte);
  lane.since = now;
  lane.idle = 0;
}

void TurnChooser::note_uses(std::span<const TurnPlace> places) {
  if (passed_ == 0) return;
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    if (owed_[i] == Owed::nothing || places[i] != TurnPlace::in_hbm) continue;
    if (owed_[i] == Owed::comes) {
      owed_[i] = Owed::is_there;
    } else if ((pieces_[i].used & passed_) != 0) {
      owed_[i] = Owed::nothing;
    }
  }
}

TurnChooser::Held TurnChooser::hold(std::span<const TurnPlace> places, Nanoseconds now) {
  Held held;
  Bytes all;
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    if (places[i] == TurnPlace::host || places[i] == TurnPlace::gone) continue;
    all += pieces_[i].bytes;
    if (places[i] == TurnPlace::coming) held.coming += pieces_[i].bytes;
    if (places[i] == TurnPlace::leaving) held.leaving += pieces_[i].bytes;
  }
  held.free = limit_.saturating_minus(all);
  held.promised = (limit_ + held.leaving).saturating_minus(all);
  const auto idle = [&](Lane& lane) {
    lane.since = now;
    // A rate that lets nothing come in time would never be found to be better.
    if (passed_ != 0 && ++lane.idle > count()) lane.seconds_a_byte += kForgotten * (lane.least - lane.seconds_a_byte);
  };
  if (held.coming == Bytes()) idle(in_);
  if (held.leaving == Bytes()) idle(out_);
  return held;
}

void TurnChooser::look_ahead(Nanoseconds now) {
  double sum = std::max(0.0, seconds_[stretch_] * (1 - part_) - seconds_of(now - reached_));
  for (std::uint32_t steps = 1; steps <= count(); ++steps) {
    until_[steps] = sum;
    sum += seconds_[(stretch_ + steps) % count()];
  }
}

TurnChooser::Choice TurnChooser::choose(std::span<const TurnPlace> places, Nanoseconds now) {
  Choice choice;
  note_uses(places);
  Held held = hold(places, now);
  passed_ = 0;
  if (held.coming >= kAhead) return choice;
  look_ahead(now);
  for (std::uint32_t use = 1; use <= count(); ++use) {
    for (const std::uint32_t piece : turn_in_[(stretch_ + use) % count()]) {
      if (held.coming >= kAhead) return choice;
      if (places[piece] != TurnPlace::host || distance(pieces_[piece].turns, 1) != use) continue;
      bring(piece, use, places, held, choice);
    }
  }
  return choice;
}

bool TurnChooser::bring(std::uint32_t piece, std::uint32_t use, std::span<const TurnPlace> places, Held& held,
                        Choice& choice) {
  const Bytes bytes = pieces_[piece].bytes;
  const Bytes missing = bytes.saturating_minus(held.promised);
  const bool now = bytes <= held.free && !held.waiting;
  double begins = count_of(held.coming) * in_.seconds_a_byte;
  if (!now) begins = std::max(begins, count_of(held.leaving + missing) * out_.seconds_a_byte);
  const std::uint32_t there = use > pieces_[piece].least_lead ? use - pieces_[piece].least_lead + 1 : 1;
  if (kSafety * (begins + count_of(bytes) * in_.seconds_a_byte) > until_[there]) return false;
  Bytes leaves;
  if (missing > Bytes()) {
    if (held.full) return false;
    const std::vector<std::uint32_t> leaving = leaving_for(missing, use, places, choice);
    if (leaving.empty()) return held.full = true, false;
    for (const std::uint32_t each : leaving) leaves += pieces_[each].bytes;
    choice.out.insert(choice.out.end(), leaving.begin(), leaving.end());
  }
  held.leaving += leaves;
  held.promised = held.promised + leaves - bytes;
  held.coming += bytes;
  if (!now) return held.waiting = true;
  held.free -= bytes;
  choice.in.push_back(piece);
  owed_[piece] = Owed::comes;
  return true;
}

std::vector<std::uint32_t> TurnChooser::leaving_for(Bytes bytes, std::uint32_t use, std::span<const TurnPlace> places,
                                                    const Choice& choice) const {
  std::vector<std::uint32_t> leaving;
  Bytes room;
  // It has to be worth coming back, and have the time.
  const double back = until_[use] + count_of(bytes) * (in_.seconds_a_byte + out_.seconds_a_byte);
  for (std::uint32_t far = count() - 1; far > use && until_[far] > back; --far) {
    const std::uint32_t stretch = (stretch_ + far) % count();
    for (const std::uint32_t piece : used_in_[stretch]) {
      if (places[piece] != TurnPlace::in_hbm || owed_[piece] != Owed::nothing) continue;
      if (distance(pieces_[piece].used, 0) != far || (pieces_[piece].turns & stretch_bit(stretch)) == 0) continue;
      if (std::find(choice.out.begin(), choice.out.end(), piece) != choice.out.end()) continue;
      leaving.push_back(piece);
      room += pieces_[piece].bytes;
      if (room >= bytes) return leaving;
    }
  }
  return {};
}

}  // namespace spillway::policy
