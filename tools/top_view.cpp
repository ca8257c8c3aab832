#include "tools/top_view.hpp"

#include <algorithm>

#include "policy/device_budget.hpp"
#include "tools/names.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

constexpr Nanoseconds kWindow{2'000'000'000};
constexpr Nanoseconds kMarkEvery{100'000'000};
constexpr std::size_t kMostCrossings = 65536;

}  // namespace

void TopView::begin(const trace::TraceReader& reader, const std::string& path) {
  const trace::TraceHeader& header = reader.header();
  header_ = header;
  header_known_ = !reader.report().header_damaged;
  settings_ = settings_of(header);
  path_ = path;
  for (const DeviceSeen& device : header.devices) devices_[device.device.value] = device;
}

void TopView::end(const trace::TraceEnd& end) {
  ended_ = true;
  for (const trace::DeviceEnd& device : end.devices) end_totals_[device.device.value] = device.totals;
}

TopView::Peaks TopView::peaks(std::uint32_t device) const {
  Peaks of = device < peaks_.size() ? peaks_[device] : Peaks();
  if (const auto at_end = end_totals_.find(device); at_end != end_totals_.end())
    of.resident = std::max(of.resident, at_end->second.resident_peak);
  return of;
}

void TopView::add(const trace::Record& record, const RunFollower& run) {
  if (record.kind != trace::RecordKind::event) return;
  peaks_.resize(std::max(peaks_.size(), run.devices().size()));
  for (std::size_t i = 0; i < run.devices().size(); ++i) {
    const DeviceTotals& totals = run.devices()[i];
    peaks_[i].plain = std::max(peaks_[i].plain, totals.plain);
    peaks_[i].resident = std::max(peaks_[i].resident, totals.resident);
    peaks_[i].on_host = std::max(peaks_[i].on_host, totals.on_host);
  }
  if (const auto* seen = std::get_if<DeviceSeen>(&record.event.body)) devices_[seen->device.value] = *seen;
  if (const FinishedMove* move = run.finished_move(); move != nullptr && move->in + move->out != Bytes()) {
    crossings_.push_back({run.time(), move->device.value, move->in, move->out});
    if (run.find(move->range.allocation) != nullptr) crossed_[move->range.allocation] += move->in + move->out;
  }
  if (const FollowedAllocation* gone = run.freed()) crossed_.erase(gone->id);
  if (run.iteration_ended()) {
    if (run.iteration() > 1) {
      iteration_took_ = run.time() - iteration_began_;
    }
    iteration_began_ = run.time();
    iteration_launches_ = run.launches();
  }
  if (marks_.empty() || run.time() - marks_.back().time >= kMarkEvery) marks_.push_back({run.time(), run.launches()});
  while (marks_.size() > 1 && run.time() - marks_[1].time >= kWindow) marks_.pop_front();
  while (!crossings_.empty() &&
         (run.time() - crossings_.front().time > kWindow || crossings_.size() > kMostCrossings)) {
    crossings_.pop_front();
  }
}

TopView::Rates TopView::rates(const RunFollower& run, std::uint32_t device) const {
  const double seconds = static_cast<double>(std::min(kWindow, run.time()).count()) / 1e9;
  Rates rates;
  if (seconds <= 0) return rates;
  for (const Crossing& one : crossings_) {
    if (one.device != device) continue;
    rates.in += static_cast<double>(one.in.count()) / seconds;
    rates.out += static_cast<double>(one.out.count()) / seconds;
  }
  if (!marks_.empty() && run.time() > marks_.front().time) {
    rates.launches = static_cast<double>(run.launches() - marks_.front().launches) * 1e9 /
                     static_cast<double>((run.time() - marks_.front().time).count());
  }
  return rates;
}

Bytes TopView::budget(std::uint32_t device) const {
  if (settings_.mode == ModeName::off) return {};
  const auto at_end = end_totals_.find(device);
  if (at_end != end_totals_.end() && at_end->second.budget > Bytes()) return at_end->second.budget;
  if (!header_known_) return {};
  const auto seen = devices_.find(device);
  return seen == devices_.end() ? Bytes() : device_budget(settings_, seen->second);
}

Bytes TopView::crossed(AllocationId id) const {
  const auto found = crossed_.find(id);
  return found == crossed_.end() ? Bytes() : found->second;
}

std::vector<const FollowedAllocation*> TopView::most_moved(const RunFollower& run, std::size_t top) const {
  std::vector<const FollowedAllocation*> all;
  for (const auto& [id, allocation] : run.live()) {
    if (allocation.settled && allocation.backing == Backing::managed) all.push_back(&allocation);
  }
  const auto shown = all.begin() + static_cast<std::ptrdiff_t>(std::min(top, all.size()));
  std::partial_sort(all.begin(), shown, all.end(), [this](const auto* a, const auto* b) {
    if (crossed(a->id) != crossed(b->id)) return crossed(a->id) > crossed(b->id);
    return a->on_host != b->on_host ? a->on_host > b->on_host : a->id < b->id;
  });
  all.erase(shown, all.end());
  return all;
}

TopFrame TopView::frame(const RunFollower& run, std::size_t top) const {
  TopFrame frame;
  frame.trace = path_;
  frame.program = header_.program;
  frame.host = header_.host;
  frame.rank = header_.rank;
  frame.pid = header_.pid;
  frame.header_known = header_known_;
  frame.state = state_;
  frame.completeness = completeness_;
  frame.ended = ended_;
  frame.quiet_seconds = quiet_seconds_;
  frame.last_event = last_event_;
  frame.time = run.time();
  frame.launches = run.launches();
  frame.launches_per_second = rates(run, 0).launches;
  frame.iteration = run.iteration();
  frame.iteration_launches = run.iteration() == 0 ? 0 : run.launches() - iteration_launches_;
  frame.iteration_took = iteration_took_;
  frame.no_iteration = "no iteration found yet";
  frame.no_budget = settings_.mode == ModeName::off ? "none (off)" : "not known yet";
  for (std::uint32_t i = 0; i < run.devices().size(); ++i) {
    const DeviceTotals& totals = run.devices()[i];
    const auto seen = devices_.find(i);
    const Rates now = rates(run, i);
    const Peaks most = peaks(i);
    frame.devices.push_back({i, seen == devices_.end() ? std::string() : seen->second.name, budget(i), totals.plain,
                             totals.reserved, totals.managed, totals.resident, totals.on_host, most.resident,
                             most.plain, most.on_host, totals.moved_in, totals.moved_out, now.in, now.out});
  }
  for (const FollowedAllocation* of : most_moved(run, top)) {
    frame.allocations.push_back(
        {of->id.value, of->bytes, of->in_hbm, of->on_host, crossed(of->id), of->span_class(), run.library(of->caller)});
  }
  if (frame.ended) take_rates_of_whole_run(frame);
  return frame;
}

}  // namespace spillway::tools
