#include "tools/view/moves.hpp"

namespace spillway::tools::view {

using namespace policy;

void TrafficBin::merge(const TrafficBin& later) {
  in += later.in;
  out += later.out;
  copied_in += later.copied_in;
  copied_out += later.copied_out;
  waited += later.waited;
  named_on_host += later.named_on_host;
}

void Moves::decide(Nanoseconds time, const Decision& decision, const MoveRange& move, Allocations& allocations) {
  const auto row = allocations.row(move.allocation);
  if (!row) return;
  Open open;
  open.device = allocations.all()[*row].device;
  open.move = {decision.id,           *row, move.offset, move.bytes, move.to, move.urgency,
               decision.cause.reason, {},   {},          time,       {},      {}};
  if (in_hbm(move.to)) arriving_[open.device.value] += move.bytes;
  open_[decision.id] = open;
}

void Moves::finish(Nanoseconds time, const MoveFinished& finished, Bytes crossed, Allocations& allocations) {
  const auto found = open_.find(finished.decision);
  if (found == open_.end()) return;
  Open open = found->second;
  open_.erase(found);
  ViewMove& move = open.move;
  if (in_hbm(move.to)) arriving_[open.device.value] -= move.bytes;
  move.outcome = finished.outcome;
  move.crossed = crossed > Bytes();
  move.end = time;
  move.start = std::min(time, std::max(move.decided, time - std::max(Nanoseconds(), finished.took)));
  ListedAllocation& allocation = allocations.all()[move.row];
  if (move.outcome == MoveOutcome::done) {
    const bool inward = in_hbm(move.to);
    ++allocation.moves;
    (crossed == Bytes() ? allocation.populated
     : inward           ? allocation.moved_in
                        : allocation.moved_out) += crossed == Bytes() ? move.bytes : crossed;
    traffic_.spread(move.start, move.end, [&](TrafficBin& bin, double share) {
      const auto part = static_cast<std::uint64_t>(share * static_cast<double>(crossed.count()));
      (inward ? bin.in : bin.out) += part;
      if (move.urgency != Urgency::blocking) return;
      bin.waited += static_cast<std::uint64_t>(share * static_cast<double>((move.end - move.start).count()));
    });
  }
  if (done_.size() < kMost) {
    done_.push_back(move);
  } else {
    ++left_out_;
  }
}

void Moves::copied(Nanoseconds time, const Copied& copy) {
  if (copy.kind == CopyKind::host_to_device) traffic_.at(time).copied_in += copy.bytes.count();
  if (copy.kind == CopyKind::device_to_host) traffic_.at(time).copied_out += copy.bytes.count();
}

void Moves::launched(Nanoseconds time, Bytes named_on_host) {
  if (named_on_host == Bytes()) return;
  named_on_host_ += named_on_host;
  traffic_.at(time).named_on_host += named_on_host.count();
}

Bytes Moves::arriving(DeviceIndex device) const {
  const auto found = arriving_.find(device.value);
  return found == arriving_.end() ? Bytes() : found->second;
}

Json Moves::to_json(Blocks& blocks) const {
  Column decision, row, offset, bytes, to, urgency, reason, outcome, crossed, decided, start, took;
  for (const ViewMove& move : done_) {
    decision.add(move.decision.value);
    row.add(move.row);
    offset.add(move.offset.count());
    bytes.add(move.bytes.count());
    to.add(static_cast<std::uint32_t>(move.to));
    urgency.add(static_cast<std::uint32_t>(move.urgency));
    reason.add(static_cast<std::uint32_t>(move.reason));
    outcome.add(static_cast<std::uint32_t>(move.outcome));
    crossed.add(std::uint32_t{move.crossed});
    decided.add(move.decided.count());
    start.add(move.start.count());
    took.add((move.end - move.start).count());
  }
  Json json = blocks.add({{"decision", &decision},
                          {"allocation", &row},
                          {"offset", &offset},
                          {"bytes", &bytes},
                          {"to", &to},
                          {"urgency", &urgency},
                          {"reason", &reason},
                          {"outcome", &outcome},
                          {"crossed", &crossed},
                          {"decided", &decided},
                          {"start", &start},
                          {"took", &took}});
  json["left_out"] = left_out_;
  json["open"] = open_.size();
  json["traffic"] = Json::array();
  for (const unsigned factor : {1U, 4U, 16U}) {
    const TimeBins<TrafficBin> level = traffic_.coarser(factor);
    Column in, out, copied_in, copied_out, waited, named_on_host;
    for (const TrafficBin& bin : level.bins()) {
      in.add(bin.in);
      out.add(bin.out);
      copied_in.add(bin.copied_in);
      copied_out.add(bin.copied_out);
      waited.add(bin.waited);
      named_on_host.add(bin.named_on_host);
    }
    Json block = blocks.add({{"in", &in},
                             {"out", &out},
                             {"copied_in", &copied_in},
                             {"copied_out", &copied_out},
                             {"waited", &waited},
                             {"named_on_host", &named_on_host}});
    block["width"] = level.width().count();
    json["traffic"].push_back(std::move(block));
  }
  return json;
}

}  // namespace spillway::tools::view
