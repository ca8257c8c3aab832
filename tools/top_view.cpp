#include "tools/top_view.hpp"

#include <algorithm>
#include <cstdio>

#include "policy/settings.hpp"
#include "tools/names.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

constexpr Nanoseconds kWindow{2'000'000'000};
constexpr Nanoseconds kMarkEvery{100'000'000};
constexpr std::size_t kMostCrossings = 65536;

std::string rate_text(double bytes_a_second) {
  return format_bytes(Bytes(static_cast<std::uint64_t>(bytes_a_second))) + "/s";
}

// "[#######...]" of `width` marks.
std::string bar(Bytes part, Bytes whole, std::size_t width) {
  if (whole == Bytes()) return {};
  const double share = std::min(1.0, static_cast<double>(part.count()) / static_cast<double>(whole.count()));
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width) + 0.5);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

std::string seconds_text(Nanoseconds time, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f s", digits, static_cast<double>(time.count()) / 1e9);
  return text;
}

}  // namespace

void TopView::begin(const trace::TraceHeader& header, const std::string& path) {
  header_ = header;
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
  const auto seen = devices_.find(device);
  Settings settings;
  for (const auto& [key, value] : header_.settings) {
    if (key == "memory.device_budget" || key == "policy.mode")
      static_cast<void>(set_setting(settings, key, value, "trace"));
  }
  const auto at_end = end_totals_.find(device);
  if (at_end != end_totals_.end() && settings.mode != ModeName::off && at_end->second.budget > Bytes())
    return at_end->second.budget;
  return seen == devices_.end() || !settings.device_budget ? Bytes() : settings.device_budget->of(seen->second.total);
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

std::string TopView::text(const RunFollower& run, const Terminal& terminal, std::size_t top) const {
  std::string out = harmless(header_.program.substr(header_.program.rfind('/') + 1)) + ", pid " +
                    std::to_string(header_.pid) + " on " + harmless(header_.host);
  if (!header_.rank.empty()) out += ", rank " + harmless(header_.rank);
  out += ", " + harmless(state_) + ", " + seconds_text(run.time(), 1);
  // The trace is written once a second at least while anything happens.
  if (quiet_seconds_ >= 2) out += ", last event " + std::to_string(quiet_seconds_) + " s ago";
  out += "\n";
  char launch_rate[32];
  std::snprintf(launch_rate, sizeof launch_rate, "%.0f", rates(run, 0).launches);
  out += "launch " + grouped(run.launches()) + ", " + launch_rate + " a second; ";
  if (run.iteration() == 0) {
    out += "no iteration found yet\n";
  } else {
    out += "iteration " + grouped(run.iteration()) + ", at its launch " + grouped(run.launches() - iteration_launches_);
    out += iteration_took_ == Nanoseconds() ? "\n" : "; the last took " + seconds_text(iteration_took_, 4) + "\n";
  }
  TextTable devices(
      {{"device", Align::left}, {"budget"}, {"plain"}, {"resident"}, {"", Align::left}, {"on host"}, {"in"}, {"out"}});
  for (std::uint32_t i = 0; i < run.devices().size(); ++i) {
    const DeviceTotals& totals = run.devices()[i];
    const auto seen = devices_.find(i);
    const Rates now = rates(run, i);
    const Bytes whole = budget(i);
    devices.add({std::to_string(i) + " " + (seen == devices_.end() ? "" : harmless(seen->second.name)),
                 whole == Bytes() ? "not set" : format_bytes(whole), format_bytes(totals.plain),
                 format_bytes(totals.resident), bar(totals.plain + totals.resident, whole, 20),
                 format_bytes(totals.on_host), rate_text(now.in), rate_text(now.out)});
  }
  if (!devices.empty()) out += "\n" + devices.str();
  // A run that has ended freed all, most often: what it held at most says more.
  for (std::uint32_t i = 0; ended_ && i < run.devices().size(); ++i) {
    const Peaks most = peaks(i);
    out += "  peaks of device " + std::to_string(i) + ": plain " + format_bytes(most.plain) + ", resident " +
           format_bytes(most.resident) + ", on host " + format_bytes(most.on_host) + "\n";
  }
  TextTable table({{"allocation"},
                   {"size"},
                   {"class", Align::left},
                   {"in HBM"},
                   {"on host"},
                   {"crossed"},
                   {"asked for by", Align::left}});
  for (const FollowedAllocation* of : most_moved(run, top)) {
    table.add({std::to_string(of->id.value), format_bytes(of->bytes), span_class_name(of->span_class),
               format_bytes(of->in_hbm), format_bytes(of->on_host), format_bytes(crossed(of->id)),
               harmless(run.library(of->caller))});
  }
  if (!table.empty()) out += "\n" + table.str();
  return page_for(terminal, out);
}

nlohmann::ordered_json TopView::json(const RunFollower& run, std::size_t top) const {
  using Json = nlohmann::ordered_json;
  Json devices = Json::array();
  for (std::uint32_t i = 0; i < run.devices().size(); ++i) {
    const DeviceTotals& totals = run.devices()[i];
    const auto seen = devices_.find(i);
    const Rates now = rates(run, i);
    devices.push_back({{"device", i},
                       {"name", seen == devices_.end() ? std::string() : seen->second.name},
                       {"budget", budget(i).count()},
                       {"plain", totals.plain.count()},
                       {"reserved", totals.reserved.count()},
                       {"managed", totals.managed.count()},
                       {"resident", totals.resident.count()},
                       {"on_host", totals.on_host.count()},
                       {"plain_peak", peaks(i).plain.count()},
                       {"resident_peak", peaks(i).resident.count()},
                       {"on_host_peak", peaks(i).on_host.count()},
                       {"moved_in", totals.moved_in.count()},
                       {"moved_out", totals.moved_out.count()},
                       {"in_per_second", now.in},
                       {"out_per_second", now.out}});
  }
  Json allocations = Json::array();
  for (const FollowedAllocation* of : most_moved(run, top)) {
    allocations.push_back({{"allocation", of->id.value},
                           {"bytes", of->bytes.count()},
                           {"class", span_class_name(of->span_class)},
                           {"in_hbm", of->in_hbm.count()},
                           {"on_host", of->on_host.count()},
                           {"crossed", crossed(of->id).count()},
                           {"caller", run.library(of->caller)}});
  }
  return {{"trace", path_},
          {"program", header_.program},
          {"pid", header_.pid},
          {"host", header_.host},
          {"rank", header_.rank},
          {"state", state_},
          {"quiet_seconds", quiet_seconds_},
          {"time_ns", run.time().count()},
          {"launches", run.launches()},
          {"launches_per_second", rates(run, 0).launches},
          {"iteration", run.iteration()},
          {"iteration_launches", run.iteration() == 0 ? 0 : run.launches() - iteration_launches_},
          {"iteration_ns", iteration_took_.count()},
          {"devices", std::move(devices)},
          {"allocations", std::move(allocations)}};
}

}  // namespace spillway::tools
