#include "policy/cost_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace spillway::policy {
namespace {

constexpr std::array kRows{
    CostRow{"link_in", "bytes/s", &CostTable::link_in, "A kernel reads host pages in place."},
    CostRow{"link_out", "bytes/s", &CostTable::link_out, "A kernel writes host pages in place."},
    CostRow{"link_both", "bytes/s", &CostTable::link_both, "A kernel reads and writes host pages, both directions summed."},
    CostRow{"move_in", "bytes/s", &CostTable::move_in, "Prefetch to the device in large calls."},
    CostRow{"move_in_half_batch", "bytes", &CostTable::move_in_half_batch, "Size of a call that reaches half of move_in."},
    CostRow{"move_out", "bytes/s", &CostTable::move_out, "Prefetch to the host, host pages already allocated."},
    CostRow{"move_out_first", "bytes/s", &CostTable::move_out_first, "Prefetch to the host, the first time."},
    CostRow{"populate", "bytes/s", &CostTable::populate, "Prefetch of unpopulated pages to the device."},
    CostRow{"fault_in", "bytes/s", &CostTable::fault_in, "GPU page faults on host pages."},
    CostRow{"fault_first_touch", "bytes/s", &CostTable::fault_first_touch, "First GPU touch of unpopulated pages."},
    CostRow{"hbm", "bytes/s", &CostTable::hbm, "Memory bandwidth of the device."},
    CostRow{"launch", "s", &CostTable::launch, "Time from one launch to the next, at least."},
    CostRow{"move_call", "s", &CostTable::move_call, "Time inside a move call of one chunk."},
    CostRow{"drop_read_only", "bytes/s", &CostTable::drop_read_only, "Dropping the device copy of a read-only range."},
    CostRow{"stream_read_only", "bytes/s", &CostTable::stream_read_only, "Bring in and drop, sustained."},
    CostRow{"stream_dirty", "bytes/s", &CostTable::stream_dirty, "Bring in and send back, sustained."},
};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string number_text(double value) {
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

}  // namespace

double CostTable::bring_in(Bytes bytes, Bytes batch) const {
  const auto size = static_cast<double>(std::max(batch, Bytes(1)).count());
  return static_cast<double>(bytes.count()) / move_in * (1 + move_in_half_batch / size);
}

std::span<const CostRow> cost_rows() { return kRows; }

std::string write_costs(const CostTable& costs) {
  std::string text;
  for (const CostRow& row : kRows) {
    text.append(row.key).append(" = ").append(number_text(costs.*row.field)).append("\n");
  }
  return text;
}

CostTable read_costs(std::string_view text, std::vector<std::string>& problems) {
  CostTable costs;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const std::string place = "line " + std::to_string(number) + ": ";
    const std::size_t sign = line.find('=');
    const std::string_view key = trimmed(line.substr(0, sign));
    const auto row = std::find_if(kRows.begin(), kRows.end(), [key](const CostRow& r) { return r.key == key; });
    if (sign == std::string_view::npos || row == kRows.end()) {
      problems.push_back(place + "'" + std::string(key) + "' is no cost; write one of the keys of a written table, as \"" +
                         std::string(kRows.front().key) + " = 51e9\"");
      continue;
    }
    const std::string_view value_text = trimmed(line.substr(sign + 1));
    double value = 0;
    const auto parsed = std::from_chars(value_text.data(), value_text.data() + value_text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != value_text.data() + value_text.size() || !std::isfinite(value) ||
        value <= 0) {
      problems.push_back(place + std::string(key) + " = '" + std::string(value_text) +
                         "' is not a number above 0; write it in " + std::string(row->unit));
      continue;
    }
    costs.*(row->field) = value;
  }
  return costs;
}

}  // namespace spillway::policy
