#include "policy/plain_memory.hpp"

namespace spillway::policy {
namespace {

constexpr Bytes kBlock = kChunk;
constexpr Bytes kShares = 1_MiB;  // below it

Bytes whole_blocks(Bytes bytes) {
  return Bytes((bytes.count() + kBlock.count() - 1) / kBlock.count() * kBlock.count());
}
std::uint64_t block_of(Address address) { return address.value / kBlock.count(); }

}  // namespace

Bytes PlainMemory::most(Bytes bytes) { return whole_blocks(bytes); }

void PlainMemory::add(Address address, Bytes bytes) {
  if (bytes >= kShares) {
    live_ += whole_blocks(bytes);
  } else if (!address) {
    live_ += bytes;
  } else if (++shared_[block_of(address)] == 1) {
    live_ += kBlock;
  }
}

void PlainMemory::remove(Address address, Bytes bytes) {
  if (bytes >= kShares) {
    live_ -= whole_blocks(bytes);
  } else if (!address) {
    live_ -= bytes;
  } else if (const auto block = shared_.find(block_of(address)); block != shared_.end() && --block->second == 0) {
    shared_.erase(block);
    live_ -= kBlock;
  }
}

}  // namespace spillway::policy
