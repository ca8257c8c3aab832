#include "policy/residency.hpp"

#include <algorithm>

namespace spillway::policy {
namespace {

std::uint32_t chunk_count(Bytes bytes) {
  return static_cast<std::uint32_t>((bytes.count() + kChunk.count() - 1) / kChunk.count());
}

}  // namespace

void Residency::add(AllocationId allocation, DeviceIndex device, Bytes bytes) {
  Ledger ledger;
  ledger.device = device;
  ledger.bytes = bytes;
  ledger.chunks.resize(chunk_count(bytes));
  if (ledgers_.emplace(allocation, std::move(ledger)).second) usage_[device.value].managed += bytes;
}

void Residency::add_on_host(AllocationId allocation, DeviceIndex device, Bytes bytes) {
  if (holds(allocation)) return;
  add(allocation, device, bytes);
  Ledger& ledger = ledgers_.at(allocation);
  ledger.for_good = true;
  for (std::uint32_t index = 0; index < ledger.chunks.size(); ++index) place(ledger, index, Placement::host);
}

void Residency::remove(AllocationId allocation) {
  const auto entry = ledgers_.find(allocation);
  if (entry == ledgers_.end()) return;
  for (auto move = open_.begin(); move != open_.end();) {
    if (move->second.range.allocation == allocation) {
      const DecisionId decision = move->first;
      ++move;
      finish_move(decision, MoveOutcome::cancelled);
    } else {
      ++move;
    }
  }
  Ledger& ledger = entry->second;
  for (std::uint32_t index = 0; index < ledger.chunks.size(); ++index) {
    if (ledger.chunks[index].host_pages) host_pages_ -= chunk_bytes(allocation, {index});
    place(ledger, index, Placement::unpopulated);
  }
  usage_of(ledger).managed -= ledger.bytes;
  ledgers_.erase(entry);
}

const std::vector<Chunk>& Residency::chunks(AllocationId allocation) const {
  static const std::vector<Chunk> none;
  const auto entry = ledgers_.find(allocation);
  return entry == ledgers_.end() ? none : entry->second.chunks;
}

DeviceIndex Residency::device(AllocationId allocation) const {
  const auto entry = ledgers_.find(allocation);
  return entry == ledgers_.end() ? DeviceIndex{} : entry->second.device;
}

Bytes Residency::chunk_bytes(AllocationId allocation, ChunkIndex chunk) const {
  const auto entry = ledgers_.find(allocation);
  if (entry == ledgers_.end()) return {};
  const Bytes start = kChunk * chunk.value;
  return std::min(kChunk, entry->second.bytes.saturating_minus(start));
}

Bytes Residency::range_bytes(const ChunkRange& range) const {
  const auto entry = ledgers_.find(range.allocation);
  if (entry == ledgers_.end()) return {};
  const Bytes start = kChunk * range.first.value;
  return std::min(kChunk * range.count, entry->second.bytes.saturating_minus(start));
}

ChunkRange Residency::range(AllocationId allocation, Bytes offset, Bytes bytes) const {
  const auto entry = ledgers_.find(allocation);
  if (entry == ledgers_.end() || offset >= entry->second.bytes || bytes == Bytes()) return {allocation, {}, 0};
  const Bytes end = offset + std::min(bytes, entry->second.bytes - offset);
  const auto first = static_cast<std::uint32_t>(offset.count() / kChunk.count());
  const auto last = static_cast<std::uint32_t>((end.count() - 1) / kChunk.count());
  return {allocation, {first}, last - first + 1};
}

Bytes Residency::growth(const ChunkRange& range) const {
  Bytes total;
  const std::vector<Chunk>& all = chunks(range.allocation);
  for (std::uint32_t index = range.first.value; index < range.first.value + range.count && index < all.size();
       ++index) {
    if (!in_hbm(all[index].at)) total += chunk_bytes(range.allocation, {index});
  }
  return total;
}

Bytes Residency::host_growth(const ChunkRange& range) const {
  Bytes total;
  const std::vector<Chunk>& all = chunks(range.allocation);
  for (std::uint32_t index = range.first.value; index < range.first.value + range.count && index < all.size();
       ++index) {
    if (!all[index].host_pages) total += chunk_bytes(range.allocation, {index});
  }
  return total;
}

bool Residency::open_move(DecisionId decision, const ChunkRange& range, Placement to) {
  const auto entry = ledgers_.find(range.allocation);
  if (entry == ledgers_.end() || range.count == 0 || entry->second.for_good) return false;
  Ledger& ledger = entry->second;
  if (range.first.value + range.count > ledger.chunks.size()) return false;
  const auto begin = ledger.chunks.begin() + range.first.value;
  if (std::any_of(begin, begin + range.count, [](const Chunk& chunk) { return chunk.moving; })) return false;
  if (in_hbm(to)) {
    ResidencyUsage& usage = usage_of(ledger);
    usage.arriving += growth(range);
    usage.peak = std::max(usage.peak, usage.held());
  } else {
    host_pages_ += host_growth(range);
  }
  for (auto chunk = begin; chunk != begin + range.count; ++chunk) {
    chunk->moving = true;
    if (!in_hbm(to)) chunk->host_pages = true;
  }
  open_.emplace(decision, OpenMove{range, to});
  return true;
}

std::optional<FinishedMove> Residency::finish_move(DecisionId decision, MoveOutcome outcome) {
  const auto entry = open_.find(decision);
  if (entry == open_.end()) return std::nullopt;
  const OpenMove move = entry->second;
  open_.erase(entry);
  Ledger& ledger = ledgers_.at(move.range.allocation);
  ResidencyUsage& usage = usage_of(ledger);
  if (in_hbm(move.to)) usage.arriving -= growth(move.range);
  FinishedMove finished{move.range, ledger.chunks[move.range.first.value].at, move.to, {}};
  for (std::uint32_t index = move.range.first.value; index < move.range.first.value + move.range.count; ++index) {
    Chunk& chunk = ledger.chunks[index];
    chunk.moving = false;
    const Bytes bytes = chunk_bytes(move.range.allocation, {index});
    if (outcome == MoveOutcome::done) {
      const bool in = chunk.at == Placement::host && in_hbm(move.to);
      const bool out = in_hbm(chunk.at) && !in_hbm(move.to);
      if (in) usage.moved_in += bytes;
      if (out) usage.moved_out += bytes;
      if (in || out) ledger.pages.crossed += bytes;
      if (chunk.at != move.to) finished.bytes += bytes;
      place(ledger, index, move.to);
    } else if (chunk.at == Placement::unpopulated) {
      // Nobody populated it, so the program's first touch will: counted where that puts it.
      place(ledger, index, chunk.prefers_host ? Placement::host : Placement::device);
    }
  }
  return finished;
}

bool Residency::moving(AllocationId allocation) const {
  const std::vector<Chunk>& all = chunks(allocation);
  return std::any_of(all.begin(), all.end(), [](const Chunk& chunk) { return chunk.moving; });
}

Bytes Residency::held_by_moves(DeviceIndex device) const {
  Bytes total;
  for (const auto& [decision, move] : open_) {
    if (this->device(move.range.allocation) != device) continue;
    const std::vector<Chunk>& all = chunks(move.range.allocation);
    for (std::uint32_t index = move.range.first.value; index < move.range.first.value + move.range.count; ++index) {
      if (in_hbm(move.to) || in_hbm(all[index].at)) total += chunk_bytes(move.range.allocation, {index});
    }
  }
  return total;
}

Bytes Residency::leaving(DeviceIndex device) const {
  Bytes total;
  for (const auto& [decision, move] : open_) {
    if (in_hbm(move.to) || this->device(move.range.allocation) != device) continue;
    total += range_bytes(move.range) - growth(move.range);
  }
  return total;
}

bool Residency::prefers_host(const ChunkRange& range) const {
  const auto ledger = ledgers_.find(range.allocation);
  if (ledger == ledgers_.end()) return false;
  const std::vector<Chunk>& chunks = ledger->second.chunks;
  const std::size_t end = std::min<std::size_t>(chunks.size(), std::size_t{range.first.value} + range.count);
  for (std::size_t index = range.first.value; index < end; ++index) {
    if (chunks[index].prefers_host) return true;
  }
  return false;
}

void Residency::set_prefers_host(const ChunkRange& range, bool prefers) {
  const auto entry = ledgers_.find(range.allocation);
  if (entry == ledgers_.end()) return;
  std::vector<Chunk>& all = entry->second.chunks;
  for (std::uint32_t index = range.first.value; index < range.first.value + range.count && index < all.size();
       ++index) {
    all[index].prefers_host = prefers;
  }
}

void Residency::fault_in(const ChunkRange& range) {
  const auto entry = ledgers_.find(range.allocation);
  if (entry == ledgers_.end() || entry->second.for_good) return;
  Ledger& ledger = entry->second;
  for (std::uint32_t index = range.first.value; index < range.first.value + range.count && index < ledger.chunks.size();
       ++index) {
    if (ledger.chunks[index].moving || in_hbm(ledger.chunks[index].at)) continue;
    if (const Bytes bytes = chunk_bytes(range.allocation, {index}); ledger.chunks[index].at == Placement::host) {
      usage_of(ledger).moved_in += bytes;
      ledger.pages.crossed += bytes;
    }
    place(ledger, index, Placement::device);
  }
}

void Residency::use(const ChunkRange& range, LaunchNumber launch) {
  const auto entry = ledgers_.find(range.allocation);
  if (entry == ledgers_.end()) return;
  std::vector<Chunk>& all = entry->second.chunks;
  for (std::uint32_t index = range.first.value; index < range.first.value + range.count && index < all.size();
       ++index) {
    all[index].last_use = launch;
  }
}

const ResidencyUsage& Residency::usage(DeviceIndex device) const {
  static const ResidencyUsage none;
  const auto entry = usage_.find(device.value);
  return entry == usage_.end() ? none : entry->second;
}

void Residency::place(Ledger& ledger, std::uint32_t index, Placement to) {
  Chunk& chunk = ledger.chunks[index];
  if (chunk.at == to) return;
  ResidencyUsage& usage = usage_of(ledger);
  const Bytes bytes = std::min(kChunk, ledger.bytes.saturating_minus(kChunk * index));
  AllocationPages& own = ledger.pages;
  if (in_hbm(chunk.at)) usage.resident -= bytes, own.resident -= bytes;
  if (chunk.at == Placement::host) usage.on_host -= bytes, own.on_host -= bytes;
  chunk.at = to;
  if (in_hbm(to)) usage.resident += bytes, own.resident += bytes;
  if (to == Placement::host) {
    usage.on_host += bytes, own.on_host += bytes;
    if (!chunk.host_pages) {
      chunk.host_pages = true;
      host_pages_ += bytes;
    }
  }
  usage.peak = std::max(usage.peak, usage.held());
}

std::string Residency::check_invariants() const {
  std::unordered_map<std::uint32_t, ResidencyUsage> expected;
  Bytes host_pages;
  for (const auto& [id, ledger] : ledgers_) {
    ResidencyUsage& usage = expected[ledger.device.value];
    usage.managed += ledger.bytes;
    if (ledger.chunks.size() != chunk_count(ledger.bytes)) return "a ledger has the wrong number of chunks";
    const auto elsewhere = [](const Chunk& chunk) { return chunk.at != Placement::host; };
    if (ledger.for_good && std::any_of(ledger.chunks.begin(), ledger.chunks.end(), elsewhere))
      return "what is on the host for good is elsewhere";
    AllocationPages pages;
    for (std::uint32_t index = 0; index < ledger.chunks.size(); ++index) {
      const Bytes bytes = chunk_bytes(id, {index});
      if (in_hbm(ledger.chunks[index].at)) pages.resident += bytes;
      if (ledger.chunks[index].at == Placement::host) pages.on_host += bytes;
      if (ledger.chunks[index].host_pages) host_pages += bytes;
    }
    if (pages.resident != ledger.pages.resident || pages.on_host != ledger.pages.on_host)
      return "a ledger's bytes are not those of its chunks";
    usage.resident += pages.resident;
    usage.on_host += pages.on_host;
  }
  std::size_t moving = 0;
  for (const auto& [decision, move] : open_) {
    if (!ledgers_.contains(move.range.allocation)) return "an open move names an allocation that is gone";
    if (in_hbm(move.to)) expected[device(move.range.allocation).value].arriving += growth(move.range);
    moving += move.range.count;
  }
  std::size_t marked = 0;
  for (const auto& [id, ledger] : ledgers_) {
    marked += static_cast<std::size_t>(
        std::count_if(ledger.chunks.begin(), ledger.chunks.end(), [](const Chunk& chunk) { return chunk.moving; }));
  }
  if (moving != marked) return "chunks marked as moving differ from those in open moves";
  if (host_pages != host_pages_) return "host page count differs from its chunks";
  for (const auto& [index, usage] : usage_) {
    const ResidencyUsage& want = expected[index];
    if (usage.managed != want.managed) return "managed bytes differ from the ledgers";
    if (usage.resident != want.resident) return "resident bytes differ from the chunks";
    if (usage.arriving != want.arriving) return "arriving bytes differ from the open moves";
    if (usage.on_host != want.on_host) return "host bytes differ from the chunks";
    if (usage.peak < usage.held()) return "the peak is below what is held";
  }
  return {};
}

}  // namespace spillway::policy
