#include "tools/view/residency_series.hpp"

namespace spillway::tools::view {

void HeldBin::merge(const HeldBin& later) {
  if (!later.known) return;
  if (!known || later.fullest.held.in_hbm() > fullest.held.in_hbm()) fullest = later.fullest;
  last = later.last;
  known = true;
}

void ResidencySeries::add(policy::Nanoseconds time, const policy::DeviceTotals& totals, policy::Bytes arriving) {
  const Held held = {totals.plain.count(), totals.reserved.count(), totals.resident.count(), arriving.count(),
                     totals.on_host.count()};
  if (held == now_) return;
  bins_.at(time).merge({true, {time, held}, {time, held}});
  now_ = held;
}

Json ResidencySeries::to_json(Blocks& blocks) const {
  Json levels = Json::array();
  for (const unsigned factor : {1U, 8U, 64U}) {
    const TimeBins<HeldBin> level = bins_.coarser(factor);
    Column time, plain, reserved, resident, arriving, on_host;
    const auto point = [&](const HeldBin::Moment& moment) {
      time.add(moment.time.count());
      plain.add(moment.held.plain);
      reserved.add(moment.held.reserved);
      resident.add(moment.held.resident);
      arriving.add(moment.held.arriving);
      on_host.add(moment.held.on_host);
    };
    for (const HeldBin& bin : level.bins()) {
      if (!bin.known) continue;
      point(bin.fullest);
      if (bin.last.time > bin.fullest.time) point(bin.last);
    }
    Json block = blocks.add({{"time", &time},
                             {"plain", &plain},
                             {"reserved", &reserved},
                             {"resident", &resident},
                             {"arriving", &arriving},
                             {"on_host", &on_host}});
    block["width"] = level.width().count();
    levels.push_back(std::move(block));
  }
  return levels;
}

}  // namespace spillway::tools::view
