#include "policy/stream_schedule.hpp"

#include <algorithm>
#include <numeric>

#include "policy/device_model.hpp"

namespace spillway::policy {
namespace {

// A turn must save this part of the time that its moves take on a link of their own, though they overlap with launches:
// estimates err, and what is moving cannot be used for anything else. And the same with crawling moves in mind.
constexpr std::array kPrices{0.1, 0.4, 1.0};
constexpr std::size_t kMostPieces = 768;  // that could come in, and that could leave
// Iterations that are run: those that count come after the first, which begin with the layout.
constexpr std::uint64_t kFirst = 4;
constexpr std::uint64_t kCounted = 2;

StretchMask stretch_mask(std::uint32_t stretch) { return StretchMask{1} << stretch; }

// What is used with at most one stretch between is used in one turn: nothing could be gained in between.
TurnPiece turns_of(const StreamPiece& piece, std::uint32_t count, double price) {
  TurnPiece turns{piece.bytes, 0, 0, std::clamp(piece.least_lead, 1U, count - 3)};
  for (std::uint32_t k = 0; k < count; ++k) {
    if (piece.seconds[k] > 0) turns.used |= stretch_mask(k);
  }
  const auto used = [&](std::uint32_t k) { return (turns.used & stretch_mask(k % count)) != 0; };
  for (std::uint32_t first = 0; first < count; ++first) {
    if (!used(first) || used(first + count - 1) || used(first + count - 2)) continue;
    double saves = 0;
    StretchMask turn = 0;
    std::uint32_t unused = 0, length = 0;
    for (std::uint32_t step = 0; step < count && unused < 2; ++step) {
      const std::uint32_t k = (first + step) % count;
      saves += piece.seconds[k];
      unused = used(k) ? 0 : unused + 1;
      if (unused == 0) turn |= stretch_mask(k), length = step + 1;
    }
    // One to come in, one to leave.
    if (saves > price && length + 3 < count) turns.turns |= turn;
  }
  return turns;
}

// Some iterations on the device model; one launch stands for a stretch.
class Rehearsal {
 public:
  Rehearsal(std::span<const StreamPiece> pieces, const StreamSchedule& plan, std::span<const Stretch> stretches,
            const CostTable& costs)
      : costs_(costs), stretches_(stretches.begin(), stretches.end()), link_(stretches.size()) {
    std::vector<TurnPiece> turns;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (plan.pieces[i].turns == 0) continue;
      pieces_.push_back(&pieces[i]);
      places_.push_back(pieces[i].in_hbm ? TurnPlace::in_hbm : TurnPlace::host);
      turns.push_back(plan.pieces[i]);
    }
    chooser_ = TurnChooser(std::move(turns), plan.seconds, plan.limit, costs);
    for (std::size_t k = 0; k < link_.size(); ++k) link_[k] = stretches_[k].link;
  }

  void run(StreamSchedule& plan) {
    const std::uint64_t count = stretches_.size();
    const std::uint64_t all = (kFirst + kCounted) * count;
    for (std::uint64_t launch = 1; launch <= all; ++launch) {
      model_.launch({launch}, {});
      model_.mark({launch}, {});
    }
    choose({});
    model_.finish();
    plan.seconds_after = (ended_ - counted_from_) / kCounted;
    plan.turns = static_cast<std::uint32_t>(turns_ / kCounted);
    plan.moved = Bytes(moved_.count() / kCounted);
  }

 private:
  static Nanoseconds nanoseconds(Seconds time) { return Nanoseconds(static_cast<std::int64_t>(time.count() * 1e9)); }
  [[nodiscard]] bool counts(LaunchNumber launch) const { return launch.value >= kFirst * stretches_.size(); }

  // What launches wait for grows and shrinks with what they use in place.
  LaunchLoad load(LaunchNumber launch) {
    const std::size_t k = (launch.value - 1) % stretches_.size();
    const Stretch& stretch = stretches_[k];
    const double link = std::max(0.0, link_[k]);
    const double stall = link > stretch.link ? stretch.stall + link - stretch.link
                                             : stretch.stall * link / std::max(stretch.link, 1e-12);
    LaunchLoad load;
    load.compute_seconds = stretch.compute + stall;
    load.remote_read = std::min(link, load.compute_seconds) * costs_.link_in;
    return load;
  }

  void passed(LaunchNumber launch, Seconds at) {
    const std::uint64_t count = stretches_.size();
    if (launch.value == kFirst * count) counted_from_ = at.count();
    ended_ = at.count();
    reached_ = launch;
    chooser_.reached(static_cast<std::uint32_t>(launch.value % count), 0, nanoseconds(at));
    choose(at);
  }

  void finished(DecisionId move, Seconds at) {
    const auto piece = static_cast<std::uint32_t>(move.value - 1);
    const bool in = places_[piece] == TurnPlace::coming;
    places_[piece] = in ? TurnPlace::in_hbm : TurnPlace::host;
    for (std::size_t k = 0; k < link_.size(); ++k) link_[k] += (in ? -1.0 : 1.0) * pieces_[piece]->seconds[k];
    chooser_.moved(pieces_[piece]->bytes, places_[piece], nanoseconds(at));
    choose(at);
  }

  void choose(Seconds at) {
    if (reached_.value == (kFirst + kCounted) * stretches_.size()) return;
    const TurnChooser::Choice choice = chooser_.choose(places_, nanoseconds(at));
    for (const std::uint32_t piece : choice.out) move(piece, MoveJob::Way::out, at);
    for (const std::uint32_t piece : choice.in) move(piece, MoveJob::Way::in, at);
  }

  void move(std::uint32_t piece, MoveJob::Way way, Seconds at) {
    MoveJob job;
    job.decision = {piece + std::uint64_t{1}};
    job.bytes = pieces_[piece]->bytes;
    job.way = way;
    places_[piece] = way == MoveJob::Way::in ? TurnPlace::coming : TurnPlace::leaving;
    model_.move(job, at);
    if (!counts(reached_)) return;
    moved_ += job.bytes;
    turns_ += way == MoveJob::Way::in ? 1 : 0;
  }

  const CostTable& costs_;
  std::vector<const StreamPiece*> pieces_;  // those that take turns
  std::vector<TurnPlace> places_;
  std::vector<Stretch> stretches_;
  std::vector<double> link_;  // by stretch, where things are now
  TurnChooser chooser_;
  DeviceModel model_{costs_,
                     {[this](LaunchNumber launch) { return load(launch); },
                      [this](DecisionId move, Seconds at) { finished(move, at); },
                      [this](LaunchNumber launch, Seconds at) { passed(launch, at); }}};
  LaunchNumber reached_;
  double counted_from_ = 0, ended_ = 0;
  Bytes moved_;
  std::uint64_t turns_ = 0;
};

// Of each kind those that save most a byte.
void leave_out(std::span<const StreamPiece> pieces, std::vector<TurnPiece>& turns) {
  for (const bool in_hbm : {false, true}) {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (turns[i].turns == 0 || pieces[i].in_hbm != in_hbm) continue;
      const double saves = std::accumulate(pieces[i].seconds.begin(), pieces[i].seconds.end(), 0.0);
      order.emplace_back(-saves / static_cast<double>(pieces[i].bytes.count()), i);
    }
    std::sort(order.begin(), order.end());
    for (std::size_t at = kMostPieces; at < order.size(); ++at) turns[order[at].second].turns = 0;
  }
}

}  // namespace

StreamSchedule plan_streaming(std::span<const StreamPiece> pieces, std::span<const Stretch> stretches, Bytes room,
                              const CostTable& costs) {
  const auto count = static_cast<std::uint32_t>(stretches.size());
  StreamSchedule best;
  best.pieces.resize(pieces.size());
  for (const Stretch& stretch : stretches) {
    best.seconds.push_back(stretch.compute + stretch.stall);
    best.seconds_before += best.seconds.back();
  }
  best.seconds_after = best.seconds_before;
  const StreamSchedule still = best;
  for (const double price : kPrices) {
    StreamSchedule plan = still;
    plan.limit = room;
    bool comes = false;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const StreamPiece& piece = pieces[i];
      const auto bytes = static_cast<double>(piece.bytes.count());
      const double moves = costs.bring_in(piece.bytes, std::max(piece.bytes, 32_MiB)) + bytes / costs.move_out;
      if (piece.may_move) plan.pieces[i] = turns_of(piece, count, price * moves);
    }
    leave_out(pieces, plan.pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (plan.pieces[i].turns == 0) continue;
      if (pieces[i].in_hbm) plan.limit += pieces[i].bytes;
      comes = comes || !pieces[i].in_hbm;
    }
    if (!comes) continue;
    Rehearsal(pieces, plan, stretches, costs).run(plan);
    if (plan.turns > 0 && plan.seconds_after < best.seconds_after) best = std::move(plan);
  }
  return best;
}

}  // namespace spillway::policy
