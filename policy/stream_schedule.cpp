#include "policy/stream_schedule.hpp"

#include <algorithm>
#include <optional>

namespace spillway::policy {
namespace {

// A turn must save this part of the time that its moves take on the link, though they overlap with launches: estimates
// err, and what is moving cannot be used for anything else.
constexpr double kPriceOfMoves = 0.1;
constexpr Bytes kBatch = 32_MiB;
constexpr std::size_t kMostTurns = 1024;  // that are looked at
constexpr std::size_t kMostPauses = 1024;

// One part of an iteration that uses a piece on the host.
struct Turn {
  std::uint32_t piece = 0;
  std::uint32_t first = 0;   // stretch
  std::uint32_t length = 0;  // stretches
  double saves = 0;          // seconds on the link, were nothing hidden
};

class Scheduler {
 public:
  Scheduler(std::span<const StreamPiece> pieces, std::span<const Stretch> stretches, Bytes room, const CostTable& costs)
      : pieces_(pieces),
        costs_(costs),
        count_(static_cast<std::uint32_t>(stretches.size())),
        stretches_(stretches.begin(), stretches.end()),
        in_(count_),
        out_(count_),
        held_(count_) {
    const StretchMask all = all_stretches(count_);
    Bytes resident;
    for (const StreamPiece& piece : pieces_) {
      plan_.in_hbm.push_back(piece.in_hbm ? all : 0);
      used_.push_back(0);
      for (std::uint32_t k = 0; k < count_; ++k) {
        if (piece.seconds[k] > 0) used_.back() |= bit(k);
      }
      if (piece.in_hbm) resident += piece.bytes;
    }
    std::fill(held_.begin(), held_.end(), resident);
    limit_ = resident + room;
    pauses_ = all_pauses();
    if (pauses_.size() > kMostPauses) pauses_.resize(kMostPauses);
    plan_.seconds_before = plan_.seconds_after = total();
  }

  StreamSchedule run() {
    std::vector<Turn> turns = all_turns();
    if (turns.size() > kMostTurns) turns.resize(kMostTurns);
    // What had no room at first may have it now.
    for (int pass = 0; pass < 2; ++pass) {
      for (const Turn& turn : turns) {
        if ((plan_.in_hbm[turn.piece] & bit(turn.first)) == 0) take(turn);
      }
    }
    plan_.seconds_after = total();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] static StretchMask bit(std::uint32_t stretch) { return StretchMask{1} << stretch; }
  [[nodiscard]] std::uint32_t after(std::uint32_t stretch, std::uint32_t by = 1) const {
    return (stretch + by) % count_;
  }
  [[nodiscard]] std::uint32_t before(std::uint32_t stretch) const { return (stretch + count_ - 1) % count_; }
  [[nodiscard]] double bring_in(Bytes bytes) const { return costs_.bring_in(bytes, std::max(bytes, kBatch)); }
  [[nodiscard]] double send_out(Bytes bytes) const { return static_cast<double>(bytes.count()) / costs_.move_out; }

  static double lasts(const Stretch& stretch, double in, double out) {
    return std::max({stretch.compute + stretch.stall, stretch.link + in, out});
  }
  static double total(const std::vector<Stretch>& stretches, const std::vector<double>& in,
                      const std::vector<double>& out) {
    double sum = 0;
    for (std::size_t k = 0; k < stretches.size(); ++k) sum += lasts(stretches[k], in[k], out[k]);
    return sum;
  }
  [[nodiscard]] double total() const { return total(stretches_, in_, out_); }

  // Uses with at most one stretch between them are one turn: nothing could be gained in between.
  [[nodiscard]] std::vector<Turn> all_turns() const {
    std::vector<Turn> turns;
    for (std::uint32_t piece = 0; piece < pieces_.size(); ++piece) {
      if (pieces_[piece].in_hbm || !pieces_[piece].may_move || used_[piece] == 0) continue;
      for (std::uint32_t first = 0; first < count_; ++first) {
        if (!begins(piece, first)) continue;
        Turn turn{piece, first, 0, 0};
        std::uint32_t unused = 0;
        for (std::uint32_t step = 0; step < count_ && unused < 2; ++step) {
          const std::uint32_t k = after(first, step);
          unused = (used_[piece] & bit(k)) == 0 ? unused + 1 : 0;
          if (unused == 0) turn.length = step + 1;
          turn.saves += pieces_[piece].seconds[k];
        }
        if (turn.saves <= kPriceOfMoves * (bring_in(pieces_[piece].bytes) + send_out(pieces_[piece].bytes))) continue;
        // One to come in, one to leave.
        if (turn.length + 3 < count_) turns.push_back(turn);
      }
    }
    const auto density = [this](const Turn& turn) {
      return turn.saves / (static_cast<double>(pieces_[turn.piece].bytes.count()) * (turn.length + 2));
    };
    std::stable_sort(turns.begin(), turns.end(),
                     [&density](const Turn& a, const Turn& b) { return density(a) > density(b); });
    return turns;
  }
  [[nodiscard]] bool begins(std::uint32_t piece, std::uint32_t k) const {
    return (used_[piece] & bit(k)) != 0 && (used_[piece] & (bit(before(k)) | bit(before(before(k))))) == 0;
  }

  // Stretches of an iteration in which nothing uses a piece that is in HBM: it may leave in the first of them, and come
  // back in the last.
  struct Pause {
    std::uint32_t piece = 0;
    std::uint32_t first = 0;
    std::uint32_t length = 0;
    bool lent = false;
  };
  [[nodiscard]] std::vector<Pause> all_pauses() const {
    std::vector<Pause> pauses;
    for (std::uint32_t piece = 0; piece < pieces_.size(); ++piece) {
      if (!pieces_[piece].in_hbm || !pieces_[piece].may_move || used_[piece] == 0) continue;
      for (std::uint32_t first = 0; first < count_; ++first) {
        if ((used_[piece] & bit(first)) != 0 || (used_[piece] & bit(before(first))) == 0) continue;
        std::uint32_t length = 0;
        while ((used_[piece] & bit(after(first, length))) == 0) ++length;
        // One to leave, one to come back.
        if (length > 2) pauses.push_back({piece, first, length, false});
      }
    }
    std::stable_sort(pauses.begin(), pauses.end(), [](const Pause& a, const Pause& b) { return a.length > b.length; });
    return pauses;
  }

  // How things would be with one turn more.
  struct Offer {
    Turn turn;
    std::uint32_t comes = 0;   // stretch
    std::uint32_t length = 0;  // stretches from there in which it holds room, the one in which it leaves included
    double gain = 0;
    Bytes moved;
    std::vector<Pause*> lent;
    std::vector<Stretch> stretches;
    std::vector<double> in, out;
  };

  // What it lacks of room is lent by pieces that pause.
  bool find_room(Offer& offer) {
    const Bytes bytes = pieces_[offer.turn.piece].bytes;
    std::vector<Bytes> missing(offer.length);
    std::uint32_t lacking = 0;
    for (std::uint32_t step = 0; step < offer.length; ++step) {
      missing[step] = (held_[after(offer.comes, step)] + bytes).saturating_minus(limit_);
      if (missing[step] > Bytes()) ++lacking;
    }
    for (std::size_t i = 0; i < 2 * pauses_.size() && lacking > 0; ++i) {
      Pause& pause = pauses_[i % pauses_.size()];
      if (pause.lent || std::find(offer.lent.begin(), offer.lent.end(), &pause) != offer.lent.end()) continue;
      const Bytes room = pieces_[pause.piece].bytes;
      std::uint32_t helps = 0;
      each_free(pause, offer, [&](std::uint32_t step) { helps += missing[step] > Bytes() ? 1U : 0U; });
      // First those that do for all of it.
      if (helps < (i < pauses_.size() ? lacking : 1)) continue;
      offer.lent.push_back(&pause);
      each_free(pause, offer, [&](std::uint32_t step) {
        if (missing[step] > Bytes() && missing[step] <= room) --lacking;
        missing[step] = missing[step].saturating_minus(room);
      });
    }
    return lacking == 0;
  }
  // Steps of the offer for which the pause gives room.
  template <class Visit>
  void each_free(const Pause& pause, const Offer& offer, const Visit& visit) const {
    for (std::uint32_t step = 0; step < offer.length; ++step) {
      const std::uint32_t into = (after(offer.comes, step) + count_ - pause.first) % count_;
      if (into >= 1 && into + 1 < pause.length) visit(step);
    }
  }

  std::optional<Offer> offer(const Turn& turn, std::uint32_t lead, std::uint32_t stay) {
    const StreamPiece& piece = pieces_[turn.piece];
    Offer made;
    made.turn = turn;
    made.comes = (turn.first + count_ - lead) % count_;
    made.length = lead + turn.length + stay;
    if (made.length + 1 >= count_) return std::nullopt;
    // Two turns of a piece that meet would be one.
    for (std::uint32_t step = 0; step <= made.length; ++step) {
      if ((plan_.in_hbm[turn.piece] & bit(after(before(made.comes), step))) != 0) return std::nullopt;
    }
    made.stretches = stretches_;
    made.in = in_;
    made.out = out_;
    // What launches wait for shrinks with what they use in place.
    for (std::uint32_t step = 1; step + 1 < made.length; ++step) {
      const std::uint32_t k = after(made.comes, step);
      Stretch& stretch = made.stretches[k];
      const double seconds = std::min<double>(piece.seconds[k], stretch.link);
      if (seconds <= 0) continue;
      stretch.stall *= 1 - seconds / stretch.link;
      stretch.link -= seconds;
    }
    const auto cross = [&](Bytes bytes, std::uint32_t in, std::uint32_t out) {
      made.in[in] += bring_in(bytes);
      made.out[out] += send_out(bytes);
      made.moved += bytes + bytes;
      return bring_in(bytes) + send_out(bytes);
    };
    double moves = cross(piece.bytes, made.comes, after(made.comes, made.length - 1));
    const auto gain = [&] { return total() - total(made.stretches, made.in, made.out) - kPriceOfMoves * moves; };
    // What has no use for room needs none.
    if (gain() <= 0 || !find_room(made)) return std::nullopt;
    for (const Pause* pause : made.lent)
      moves += cross(pieces_[pause->piece].bytes, after(pause->first, pause->length - 1), pause->first);
    made.gain = gain();
    return made;
  }

  void take(const Turn& turn) {
    std::optional<Offer> best;
    // As early as a rule wants it, as far as an iteration has room for that.
    const std::uint32_t most = count_ - turn.length - 3;
    const std::uint32_t least = std::clamp(pieces_[turn.piece].least_lead, 1U, most);
    for (const std::uint32_t lead : {least, least + 1, least + 3, least + 7}) {
      for (const std::uint32_t stay : {1U, 2U}) {
        std::optional<Offer> one = offer(turn, lead, stay);
        if (one && one->gain > 0 && (!best || one->gain * best->length > best->gain * one->length))
          best = std::move(one);
      }
    }
    if (!best) return;
    stretches_ = std::move(best->stretches);
    in_ = std::move(best->in);
    out_ = std::move(best->out);
    for (std::uint32_t step = 0; step < best->length; ++step) {
      held_[after(best->comes, step)] += pieces_[turn.piece].bytes;
      if (step + 1 < best->length) plan_.in_hbm[turn.piece] |= bit(after(best->comes, step));
    }
    for (Pause* pause : best->lent) {
      pause->lent = true;
      for (std::uint32_t step = 0; step + 1 < pause->length; ++step) {
        if (step > 0) held_[after(pause->first, step)] -= pieces_[pause->piece].bytes;
        plan_.in_hbm[pause->piece] &= ~bit(after(pause->first, step));
      }
    }
    plan_.moved += best->moved;
    ++plan_.turns;
  }

  std::span<const StreamPiece> pieces_;
  const CostTable& costs_;
  std::uint32_t count_;
  std::vector<Stretch> stretches_;
  std::vector<double> in_, out_;  // seconds of moves, by stretch
  std::vector<Bytes> held_;       // by stretch
  Bytes limit_;
  std::vector<StretchMask> used_;  // by piece
  std::vector<Pause> pauses_;      // longest first: what is away for long has room for several turns
  StreamSchedule plan_;
};

}  // namespace

StreamSchedule plan_streaming(std::span<const StreamPiece> pieces, std::span<const Stretch> stretches, Bytes room,
                              const CostTable& costs) {
  return Scheduler(pieces, stretches, room, costs).run();
}

}  // namespace spillway::policy
