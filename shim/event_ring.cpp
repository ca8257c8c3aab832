#include "shim/event_ring.hpp"

namespace spillway::shim {

namespace {

// Fills the end of the ring when a record does not fit there: a header of kind 0.
constexpr auto kPadding = RecordKind{0};
constexpr std::size_t kHeaderWords = sizeof(RecordHeader) / 8;

}  // namespace

std::uint64_t* EventRing::reserve(std::size_t words) {
  const std::uint64_t written = written_.load(std::memory_order_relaxed);
  const std::size_t at = position(written);
  // Records do not wrap; one that would starts at the ring's beginning, and the consumer skips what is left over.
  const std::size_t skipped = at + words > kWords ? kWords - at : 0;
  if (words > kWords / 2) {
    drop();
    return nullptr;
  }
  if (written + skipped + words - read_seen_ > kWords) {
    read_seen_ = read_.load(std::memory_order_acquire);
    if (written + skipped + words - read_seen_ > kWords) {
      drop();
      return nullptr;
    }
  }
  start_ = written + skipped;
  return &words_[position(start_)];
}

void EventRing::commit(std::size_t words) {
  const std::uint64_t written = written_.load(std::memory_order_relaxed);
  if (start_ != written) words_[position(written)] = static_cast<std::uint64_t>(kPadding);
  written_.store(start_ + words, std::memory_order_release);
}

const RecordHeader* EventRing::front() {
  for (;;) {
    const std::uint64_t read = read_.load(std::memory_order_relaxed);
    if (read == written_seen_) {
      written_seen_ = written_.load(std::memory_order_acquire);
      if (read == written_seen_) return nullptr;
    }
    const std::uint64_t* at = &words_[position(read)];
    // The kind is the first byte (little-endian): a padding word has none.
    if ((*at & 0xFF) != static_cast<std::uint64_t>(kPadding)) return reinterpret_cast<const RecordHeader*>(at);
    read_.store(read + kWords - position(read), std::memory_order_release);
  }
}

void EventRing::pop() {
  const std::uint64_t read = read_.load(std::memory_order_relaxed);
  const auto* header = reinterpret_cast<const RecordHeader*>(&words_[position(read)]);
  static_assert(kHeaderWords == 3);
  read_.store(read + header->words, std::memory_order_release);
}

}  // namespace spillway::shim
