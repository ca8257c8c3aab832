#include "shim/ordered_heap.hpp"

#include <algorithm>
#include <iterator>

namespace spillway::shim {

using policy::Address;
using policy::Bytes;

namespace {

// Those that `stream` has to wait for.
FreeMarks in_the_way(const FreeMarks& marks, StreamKey stream) {
  FreeMarks found;
  for (const auto& mark : marks) {
    const bool same = stream && mark->stream == stream;
    if (!same && !mark->done.load(std::memory_order_acquire)) found.push_back(mark);
  }
  return found;
}

}  // namespace

Bytes OrderedHeap::rounded(Bytes bytes) {
  return Bytes((bytes.count() + kGrain.count() - 1) / kGrain.count() * kGrain.count());
}

std::optional<OrderedHeap::Taken> OrderedHeap::take(Bytes bytes, StreamKey stream, Wait wait) {
  for (auto entry = by_size_.lower_bound({rounded(bytes), 0}); entry != by_size_.end(); ++entry) {
    const auto block = blocks_.find(entry->second);
    FreeMarks after = in_the_way(block->second.marks, stream);
    if (wait == Wait::no && !after.empty()) continue;
    FreeMarks marks = block->second.marks;
    return Taken{{take_from(block, bytes)->first}, std::move(after), std::move(marks)};
  }
  return std::nullopt;
}

// The remainder keeps the marks, as those it shares with what is taken may be of either part.
OrderedHeap::Blocks::iterator OrderedHeap::take_from(Blocks::iterator block, Bytes bytes) {
  const Bytes size = rounded(bytes);
  by_size_.erase({block->second.bytes, block->first});
  if (block->second.bytes > size) {
    Block rest;
    rest.bytes = block->second.bytes - size;
    rest.marks = block->second.marks;
    const std::uint64_t address = block->first + size.count();
    by_size_.insert({rest.bytes, address});
    blocks_.emplace(address, std::move(rest));
  }
  block->second.bytes = size;
  block->second.asked = bytes;
  block->second.life = Life::live;
  block->second.marks.clear();
  used_ += size;
  used_peak_ = std::max(used_peak_, used_);
  return block;
}

void OrderedHeap::untake(const Taken& taken) {
  const auto block = blocks_.find(taken.address.value);
  if (block == blocks_.end() || block->second.life != Life::live) return;
  block->second.marks = taken.marks;
  make_free(block);
}

void OrderedHeap::add(Address arena, Bytes bytes, FreeMarks marks) {
  arenas_[arena.value] = bytes;
  reserved_ += bytes;
  reserved_peak_ = std::max(reserved_peak_, reserved_);
  Block whole;
  whole.bytes = bytes;
  whole.marks = std::move(marks);
  blocks_.emplace(arena.value, std::move(whole));
  by_size_.insert({bytes, arena.value});
}

Address OrderedHeap::add_and_take(Address arena, Bytes arena_bytes, Bytes bytes) {
  add(arena, arena_bytes);
  return {take_from(blocks_.find(arena.value), bytes)->first};
}

bool OrderedHeap::begin_free(Address address) {
  const auto block = blocks_.find(address.value);
  if (block == blocks_.end() || block->second.life != Life::live) return false;
  block->second.life = Life::freeing;
  return true;
}

void OrderedHeap::abandon_free(Address address) {
  const auto block = blocks_.find(address.value);
  if (block != blocks_.end() && block->second.life == Life::freeing) block->second.life = Life::live;
}

void OrderedHeap::end_free(Address address, std::shared_ptr<FreeMark> mark) {
  const auto block = blocks_.find(address.value);
  if (block == blocks_.end() || block->second.life != Life::freeing) return;
  if (mark) block->second.marks.push_back(std::move(mark));
  make_free(block);
}

void OrderedHeap::make_free(Blocks::iterator block) {
  used_ -= block->second.bytes;
  block->second.life = Life::free;
  block->second.asked = {};
  by_size_.insert({block->second.bytes, block->first});
  const auto next = std::next(block);
  if (next != blocks_.end() && next->second.life == Life::free && !begins_arena(next->first)) join(block, next);
  if (begins_arena(block->first)) return;
  const auto before = std::prev(block);
  if (before->second.life == Life::free) join(before, block);
}

OrderedHeap::Blocks::iterator OrderedHeap::join(Blocks::iterator left, Blocks::iterator right) {
  by_size_.erase({left->second.bytes, left->first});
  by_size_.erase({right->second.bytes, right->first});
  left->second.bytes += right->second.bytes;
  FreeMarks& marks = left->second.marks;
  for (auto& mark : right->second.marks) {
    if (std::find(marks.begin(), marks.end(), mark) == marks.end()) marks.push_back(std::move(mark));
  }
  // A long-lived block would gather marks for ever.
  std::erase_if(marks, [](const auto& mark) { return mark->done.load(std::memory_order_acquire); });
  by_size_.insert({left->second.bytes, left->first});
  blocks_.erase(right);
  return left;
}

FreeMarks OrderedHeap::pending() const {
  FreeMarks all;
  for (const auto& [bytes, address] : by_size_) {
    for (const auto& mark : blocks_.at(address).marks) {
      if (!mark->done.load(std::memory_order_acquire)) all.push_back(mark);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void OrderedHeap::stream_gone(StreamKey stream) {
  for (auto& [address, block] : blocks_) {
    for (const auto& mark : block.marks) {
      if (mark->stream == stream) mark->stream = {};
    }
  }
}

bool OrderedHeap::empty(std::uint64_t arena, Bytes bytes) const {
  const Block& first = blocks_.at(arena);
  return first.life == Life::free && first.bytes == bytes;
}

bool OrderedHeap::has_empty() const {
  return std::any_of(arenas_.begin(), arenas_.end(),
                     [this](const auto& arena) { return empty(arena.first, arena.second); });
}

FreeMarks OrderedHeap::pending_of_empty() const {
  FreeMarks all;
  for (const auto& [address, bytes] : arenas_) {
    if (!empty(address, bytes)) continue;
    const FreeMarks of_arena = in_the_way(blocks_.at(address).marks, {});
    all.insert(all.end(), of_arena.begin(), of_arena.end());
  }
  return all;
}

std::vector<OrderedHeap::Arena> OrderedHeap::remove_empty(Bytes keep) {
  std::vector<std::pair<Bytes, std::uint64_t>> candidates;
  for (const auto& [address, bytes] : arenas_) {
    if (empty(address, bytes) && in_the_way(blocks_.at(address).marks, {}).empty())
      candidates.emplace_back(bytes, address);
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<Arena> removed;
  for (const auto& [bytes, address] : candidates) {
    if (reserved_ <= keep) break;
    removed.push_back({{address}, bytes});
    by_size_.erase({bytes, address});
    blocks_.erase(address);
    arenas_.erase(address);
    reserved_ -= bytes;
  }
  return removed;
}

std::optional<std::pair<Address, Bytes>> OrderedHeap::block_at(Address address) const {
  auto block = blocks_.upper_bound(address.value);
  if (block == blocks_.begin()) return std::nullopt;
  block = std::prev(block);
  if (block->second.life == Life::free || address.value - block->first >= block->second.asked.count())
    return std::nullopt;
  return std::pair{Address{block->first}, block->second.asked};
}

std::string OrderedHeap::check_invariants() const {
  Bytes reserved;
  Bytes used;
  std::size_t free_blocks = 0;
  for (const auto& [arena, bytes] : arenas_) {
    reserved += bytes;
    std::uint64_t at = arena;
    bool free_before = false;
    while (at < arena + bytes.count()) {
      const auto block = blocks_.find(at);
      if (block == blocks_.end()) return "blocks do not cover their arena";
      const bool free = block->second.life == Life::free;
      if (free && free_before) return "two free neighbours are not joined";
      if (free && !by_size_.contains({block->second.bytes, at})) return "a free block is not to be found by its size";
      if (!free && !block->second.marks.empty()) return "a live block carries marks";
      if (!free) used += block->second.bytes;
      free_blocks += free ? 1 : 0;
      free_before = free;
      at += block->second.bytes.count();
    }
    if (at != arena + bytes.count()) return "a block reaches beyond its arena";
  }
  if (free_blocks != by_size_.size()) return "a block is found by its size that is not free";
  if (reserved != reserved_ || used != used_) return "the totals differ from the blocks";
  if (used_peak_ < used_ || reserved_peak_ < reserved_) return "a peak is below what is there";
  return {};
}

}  // namespace spillway::shim
