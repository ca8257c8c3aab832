// What things cost on this machine. The defaults were measured on one H200 with PCIe 5 x16 (docs/driver_facts.md);
// `spillway probe` measures the machine's own (cost_file.hpp). Rates are bytes a second; a rate of zero is never used
// (parsing refuses it).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/units.hpp"

namespace spillway::policy {

struct CostTable {
  double link_in = 51e9;            // kernel reading mapped host pages
  double link_out = 52e9;           // kernel writing mapped host pages
  double link_both = 82e9;          // reads and writes at once, summed (Adam with its states on the host)
  double move_in = 48e9;            // prefetch to the device in large calls
  double move_in_half_batch = 5e6;  // bytes of a call at which half of that is reached (2 MiB: 17, 8: 33, 32: 42 GB/s)
  double move_out = 15e9;           // prefetch to the host, pages allocated before
  double move_out_first = 5e9;      // the same, the first time
  double populate = 237e9;          // prefetch of unpopulated pages to the device
  double fault_in = 8e9;            // GPU page faults on host pages, sequential
  double fault_first_touch = 18e9;  // first GPU touch of unpopulated pages
  double hbm = 4400e9;
  double launch = 4e-6;            // seconds from one launch to the next, at least
  double move_call = 110e-6;       // seconds inside a move call of one chunk
  double drop_read_only = 50e9;    // dropping a duplicated range: no traffic, 20 us per MiB
  double stream_read_only = 28e9;  // prefetch in and drop, sustained
  double stream_dirty = 9.5e9;     // prefetch in and out, sustained
  // Of moves, each way, while kernels use host pages in place; what these do is hardly slower. 310 moves of 32 MiB
  // beside products that cross ten times, on an H200: a ninth of what the same moves did without. No row: probe does
  // not measure it.
  double move_beside_in_place = 1.7e9;

  friend bool operator==(const CostTable&, const CostTable&) = default;

  // Seconds to bring in `bytes` by calls of `batch` bytes.
  [[nodiscard]] double bring_in(Bytes bytes, Bytes batch) const;
  // From how many crossings a use of bytes that have to leave again is worth streaming.
  [[nodiscard]] double crossings_worth_streaming_read_only() const { return link_in / stream_read_only; }
  [[nodiscard]] double crossings_worth_streaming_dirty() const { return link_in / stream_dirty; }
};

struct CostRow {
  std::string_view key;
  std::string_view unit;  // "bytes/s", "s" or "bytes"
  double CostTable::*field;
  std::string_view sentence;
};
std::span<const CostRow> cost_rows();
// Beyond wide bounds nothing that has a GPU is; a damaged file must not reach the planner's arithmetic.
bool possible_cost(const CostRow& row, double value);

// The shortest text that reads back to the same number: "51000000000", "4e-06".
std::string cost_text(double value);
// A flat JSON object, one key a line, every row; reads back to the same table. It is what the trace's header holds.
std::string write_costs(const CostTable& costs);
// Any subset of the keys in any order. Unknown keys and bad values become problems and leave the default in place.
CostTable read_costs(std::string_view text, std::vector<std::string>& problems);

}  // namespace spillway::policy
