#include "policy/cost_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace spillway::policy {
namespace {

constexpr std::array kRows{
    CostRow{"link_in", "bytes/s", &CostTable::link_in, "A kernel reads host pages in place."},
    CostRow{"link_out", "bytes/s", &CostTable::link_out, "A kernel writes host pages in place."},
    CostRow{"link_both", "bytes/s", &CostTable::link_both,
            "A kernel reads and writes host pages, both directions summed."},
    CostRow{"move_in", "bytes/s", &CostTable::move_in, "Prefetch to the device in large calls."},
    CostRow{"move_in_half_batch", "bytes", &CostTable::move_in_half_batch,
            "Size of a call that reaches half of move_in."},
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

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// One "key": value of a flat object.
void read_entry(std::string_view entry, CostTable& costs, std::vector<std::string>& problems) {
  const std::size_t colon = entry.find(':');
  std::string_view key = without_blanks(entry.substr(0, colon));
  if (key.size() >= 2 && key.front() == '"' && key.back() == '"') key = key.substr(1, key.size() - 2);
  const auto row = std::find_if(kRows.begin(), kRows.end(), [key](const CostRow& r) { return r.key == key; });
  if (colon == std::string_view::npos || row == kRows.end()) {
    problems.push_back("'" + std::string(key) + "' is no cost; the keys are those that probe writes, such as \"" +
                       std::string(kRows.front().key) + "\": 51e9");
    return;
  }
  const std::string_view text = without_blanks(entry.substr(colon + 1));
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !possible_cost(*row, value)) {
    problems.push_back(std::string(key) + ": '" + std::string(text) +
                       "' is nothing that a machine can have; write it in " + std::string(row->unit));
    return;
  }
  costs.*(row->field) = value;
}

}  // namespace

double CostTable::bring_in(Bytes bytes, Bytes batch) const {
  const auto size = static_cast<double>(std::max(batch, Bytes(1)).count());
  return static_cast<double>(bytes.count()) / move_in * (1 + move_in_half_batch / size);
}

std::span<const CostRow> cost_rows() { return kRows; }

bool possible_cost(const CostRow& row, double value) {
  if (row.unit == "bytes/s") return value >= 1e6 && value <= 1e15;
  if (row.unit == "s") return value >= 1e-9 && value <= 1;
  return value >= 1 && value <= 1e12;
}

std::string cost_text(double value) {
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

std::string write_costs(const CostTable& costs) {
  std::string text = "{";
  for (const CostRow& row : kRows) {
    text.append(text.size() == 1 ? "\n" : ",\n").append("  \"").append(row.key).append("\": ");
    text.append(cost_text(costs.*row.field));
  }
  return text + "\n}\n";
}

CostTable read_costs(std::string_view text, std::vector<std::string>& problems) {
  CostTable costs;
  text = without_blanks(text);
  if (text.size() < 2 || text.front() != '{' || text.back() != '}') {
    problems.emplace_back("a cost table is not an object; write it as {\"link_in\": 51e9, ...}");
    return costs;
  }
  text = text.substr(1, text.size() - 2);
  while (!without_blanks(text).empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    read_entry(without_blanks(text.substr(0, end)), costs, problems);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return costs;
}

}  // namespace spillway::policy
