// Columns: blocks at the same place of equal ranges, of which one may speak for all.
#include <algorithm>

#include "policy/heat.hpp"

namespace spillway::policy {
void Heat::find_columns() {
  columns_.clear();
  for (auto& [key, block] : blocks_) columns_[block.column].push_back(&block);
}

const std::vector<HeatBlock*>& Heat::column_of(const HeatBlock& block) const { return columns_.at(block.column); }

bool Heat::columns_hold(std::uint64_t family) const {
  const auto found = families_.find(family);
  return found != families_.end() && found->second.columns_hold();
}

bool Heat::spoken_for(const HeatBlock& block) const {
  if (!columns_hold(block.family)) return false;
  const std::vector<HeatBlock*>& column = column_of(block);
  return std::any_of(column.begin(), column.end(),
                     [&](const HeatBlock* mate) { return mate != &block && (mate->probe || mate->hit_at == epoch_); });
}

// A column tells something where at least two of its probes were there in the epoch before this one. Those that have
// not been used by now were not used with the others.
void Heat::compare_columns() {
  const std::uint32_t then = epoch_ - 1;
  if (then == 0) return;
  for (const auto& [id, column] : columns_) {
    std::uint32_t used = 0, unused = 0;
    for (const HeatBlock* block : column) {
      if (block->told_at == then || block->told_before == then) {
        ++used;
      } else if (block->probe && block->set_at <= then) {
        ++unused;
      }
    }
    if (used == 0 || used + unused < 2) continue;
    Family& family = families_.at(column.front()->family);
    ++(unused == 0 ? family.together : family.apart);
  }
}

std::vector<const HeatBlock*> Heat::spread(const HeatBlock& hit, std::vector<ChunkRange>& map) {
  std::vector<const HeatBlock*> others;
  if (!columns_hold(hit.family)) return others;
  for (HeatBlock* mate : column_of(hit)) {
    if (mate->hit_at == epoch_) continue;
    if (const auto probe = drop_probe(*mate)) map.push_back(*probe);
    mate->seen = HeatBlock::Seen::hot;
    mate->streak = hit.streak;
    mate->hit_at = epoch_;
    others.push_back(mate);
  }
  return others;
}

}  // namespace spillway::policy
