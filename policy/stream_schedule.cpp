#include "policy/stream_schedule.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

// A turn must save this part of the time that its moves take on the link, though they overlap with launches: estimates
// err, and what is moving cannot be used for anything else.
constexpr double kPriceOfMoves = 0.1;
constexpr Bytes kBatch = 32_MiB;
constexpr std::size_t kMostTurns = 8192;  // that are looked at

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
    const StretchMask all = count_ == 32 ? ~StretchMask{0} : (StretchMask{1} << count_) - 1;
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
    plan_.seconds_before = plan_.seconds_after = total();
  }

  StreamSchedule run() {
    std::vector<Turn> turns = all_turns();
    if (turns.size() > kMostTurns) turns.resize(kMostTurns);
    for (const Turn& turn : turns) take(turn);
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

  [[nodiscard]] double lasts(std::uint32_t k) const {
    const Stretch& stretch = stretches_[k];
    return std::max({stretch.compute + stretch.stall, stretch.link + in_[k], out_[k]});
  }
  [[nodiscard]] double total() const {
    double sum = 0;
    for (std::uint32_t k = 0; k < count_; ++k) sum += lasts(k);
    return sum;
  }

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
        // One to come in, one to leave.
        if (turn.length + 2 < count_) turns.push_back(turn);
      }
    }
    const auto density = [this](const Turn& turn) {
      return turn.saves / (static_cast<double>(pieces_[turn.piece].bytes.count()) * (turn.length + 1));
    };
    std::stable_sort(turns.begin(), turns.end(),
                     [&density](const Turn& a, const Turn& b) { return density(a) > density(b); });
    return turns;
  }
  [[nodiscard]] bool begins(std::uint32_t piece, std::uint32_t k) const {
    return (used_[piece] & bit(k)) != 0 && (used_[piece] & (bit(before(k)) | bit(before(before(k))))) == 0;
  }

  // A stretch of an iteration in which nothing uses a piece that is in HBM: it may be away from `first` to `last`,
  // comes back in the stretch after, and is used in the one after that.
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
        if (length > 1) pauses.push_back({piece, first, length - 1, false});
      }
    }
    std::stable_sort(pauses.begin(), pauses.end(), [](const Pause& a, const Pause& b) { return a.length > b.length; });
    return pauses;
  }
  [[nodiscard]] bool covers(const Pause& pause, std::uint32_t first, std::uint32_t length) const {
    return (first + count_ - pause.first) % count_ + length <= pause.length;
  }

  // What launches wait for shrinks with what they use in place.
  void bring(const Turn& turn) {
    for (std::uint32_t step = 0; step < turn.length; ++step) {
      Stretch& stretch = stretches_[after(turn.first, step)];
      const double seconds = std::min<double>(pieces_[turn.piece].seconds[after(turn.first, step)], stretch.link);
      if (seconds <= 0) continue;
      stretch.stall *= 1 - seconds / stretch.link;
      stretch.link -= seconds;
    }
    in_[before(turn.first)] += bring_in(pieces_[turn.piece].bytes);
    out_[after(turn.first, turn.length)] += send_out(pieces_[turn.piece].bytes);
  }

  void take(const Turn& turn) {
    const StreamPiece& piece = pieces_[turn.piece];
    const std::uint32_t comes = before(turn.first);
    const std::uint32_t length = turn.length + 1;  // stretches in which it holds room
    std::vector<Bytes> missing(length);
    bool short_of_room = false;
    for (std::uint32_t step = 0; step < length; ++step) {
      missing[step] = (held_[after(comes, step)] + piece.bytes).saturating_minus(limit_);
      short_of_room = short_of_room || missing[step] > Bytes();
    }
    std::vector<Pause*> lent;
    for (std::size_t i = 0; i < pauses_.size() && short_of_room; ++i) {
      Pause& pause = pauses_[i];
      if (pause.lent || !covers(pause, comes, length)) continue;
      lent.push_back(&pause);
      short_of_room = false;
      for (Bytes& lacking : missing) {
        lacking = lacking.saturating_minus(pieces_[pause.piece].bytes);
        short_of_room = short_of_room || lacking > Bytes();
      }
    }
    if (short_of_room) return;
    const std::vector<Stretch> stretches = stretches_;
    const std::vector<double> in = in_, out = out_;
    const double was = total();
    bring(turn);
    double moves = bring_in(piece.bytes) + send_out(piece.bytes);
    Bytes moved = piece.bytes;
    for (const Pause* pause : lent) {
      const Bytes bytes = pieces_[pause->piece].bytes;
      out_[pause->first] += send_out(bytes);
      in_[after(pause->first, pause->length)] += bring_in(bytes);
      moves += bring_in(bytes) + send_out(bytes);
      moved += bytes;
    }
    if (was - total() <= kPriceOfMoves * moves) {
      stretches_ = stretches;
      in_ = in;
      out_ = out;
      return;
    }
    for (std::uint32_t step = 0; step < length; ++step) {
      held_[after(comes, step)] += piece.bytes;
      plan_.in_hbm[turn.piece] |= bit(after(comes, step));
    }
    for (Pause* pause : lent) {
      pause->lent = true;
      for (std::uint32_t step = 0; step < pause->length; ++step) {
        held_[after(pause->first, step)] -= pieces_[pause->piece].bytes;
        plan_.in_hbm[pause->piece] &= ~bit(after(pause->first, step));
      }
    }
    plan_.moved += moved + moved;
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
