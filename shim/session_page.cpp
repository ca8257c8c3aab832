// What the session shows of itself to `spillway top`.
#include <algorithm>

#include "shim/session.hpp"

namespace spillway::shim {

namespace {

void put_device(policy::RunPageDevice& row, const policy::DeviceSeen& device, const policy::DeviceTotals& totals) {
  row.device = device.device.value;
  put_text(row.name, device.name);
  row.budget = totals.budget.count();
  row.plain = totals.plain.count();
  row.reserved = totals.reserved.count();
  row.managed = totals.managed.count();
  row.resident = totals.resident.count();
  row.on_host = totals.on_host.count();
  row.resident_peak = totals.resident_peak.count();
  row.moved_in = totals.moved_in.count();
  row.moved_out = totals.moved_out.count();
}

}  // namespace

void Session::publish(std::string_view ended_by) {
  if (!page_.on()) return;
  policy::RunPage& page = page_.page();
  {
    const std::unique_lock lock(mutex_);
    const bool news = std::exchange(page_events_, events_) != events_;
    page.time = now() - started_;
    page.last_event = last_time_.count();
    page.launches = engine_.launches().value;
    page.dropped_events = dropped_;
    const policy::IterationProgress progress = engine_.progress();
    page.iteration = progress.number;
    page.iteration_began = progress.began.value;
    page.iteration_took = progress.took.count();
    page.device_count = 0;
    for (const auto& [index, device] : devices_) {
      if (page.device_count == page.devices.size()) break;
      policy::RunPageDevice& row = page.devices[page.device_count++];
      put_device(row, device, engine_.totals({index}));
      const bool has_budget = settings_.mode != policy::ModeName::off && devices_with_context_.contains(index);
      if (!has_budget) row.budget = 0;
    }
    if (news) put_allocations(page);
  }
  put_text(page.ended_by, ended_by);
  page_rates_.add(page);
  page_.publish();
}

void Session::put_allocations(policy::RunPage& page) const {
  const std::vector<policy::AllocationTotals> all = engine_.most_moved(page.allocations.size());
  page.allocation_count = static_cast<std::uint32_t>(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const policy::AllocationTotals& of = all[i];
    policy::RunPageAllocation& row = page.allocations[i];
    row.allocation = of.id.value;
    row.device = static_cast<std::uint16_t>(of.device.value);
    row.span_class = of.span_class;
    row.bytes = of.bytes.count();
    row.in_hbm = of.resident.count();
    row.on_host = of.on_host.count();
    row.crossed = of.crossed.count();
    put_text(row.caller, engine_.library(of.caller));
  }
}

}  // namespace spillway::shim
