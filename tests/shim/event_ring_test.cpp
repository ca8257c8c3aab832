#include "shim/event_ring.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "shim/ring_registry.hpp"

namespace spillway::shim {
namespace {

// Writes a launch record whose touches repeat `mark`.
bool write(EventRing& ring, std::uint64_t mark, std::size_t touches, std::size_t room, std::int64_t time) {
  std::uint64_t* at = ring.reserve(4 + room);
  if (at == nullptr) return false;
  auto* record = new (at) LaunchRecord;
  for (std::size_t i = 0; i < touches; ++i) at[4 + i] = mark;
  record->header.words = static_cast<std::uint16_t>(4 + touches);
  record->header.detail = static_cast<std::uint32_t>(mark);
  record->header.time = time;
  ring.commit(record->header.words);
  return true;
}

void expect_record(const RecordHeader& header, std::uint64_t mark, std::size_t touches) {
  ASSERT_EQ(header.kind, RecordKind::launch);
  const auto& record = reinterpret_cast<const LaunchRecord&>(header);
  ASSERT_EQ(record.function().value, mark);
  ASSERT_EQ(record.touch_count(), touches);
  for (std::size_t i = 0; i < touches; ++i) ASSERT_EQ(record.touches()[i].packed, mark);
}

TEST(Touch, KeepsAddressAndArgument) {
  const Touch touch = Touch::of(0x7fff'ffff'fff8, 65535);
  EXPECT_EQ(touch.address(), 0x7fff'ffff'fff8U);
  EXPECT_EQ(touch.argument(), 65535);
}

TEST(EventRing, AgreesWithAQueueAndCountsDrops) {
  const auto ring = std::make_unique<EventRing>();
  std::deque<std::pair<std::uint64_t, std::size_t>> reference;
  std::mt19937 random(7);
  std::uint64_t drops = 0;
  std::uint64_t mark = 0;
  for (int step = 0; step < 200'000; ++step) {
    // Long phases of writing, so that it fills, and of reading, so that it empties.
    const bool writing = (step / 20'000) % 2 == 0 ? random() % 10 < 8 : random() % 10 < 2;
    if (writing) {
      const std::size_t room = random() % 400;
      const std::size_t touches = room == 0 ? 0 : random() % (room + 1);
      if (write(*ring, ++mark, touches, room, step)) {
        reference.emplace_back(mark, touches);
      } else {
        ++drops;
      }
    } else if (reference.empty()) {
      ASSERT_EQ(ring->front(), nullptr);
    } else {
      ASSERT_NE(ring->front(), nullptr);
      expect_record(*ring->front(), reference.front().first, reference.front().second);
      ring->pop();
      reference.pop_front();
    }
    ASSERT_EQ(ring->dropped(), drops);
  }
  EXPECT_GT(drops, 0U) << "the test did not fill the ring";
}

TEST(EventRing, AnAbandonedReservationLeavesNoTrace) {
  const auto ring = std::make_unique<EventRing>();
  ASSERT_NE(ring->reserve(100), nullptr);
  EXPECT_EQ(ring->front(), nullptr);
  ASSERT_TRUE(write(*ring, 5, 2, 2, 1));
  expect_record(*ring->front(), 5, 2);
  EXPECT_EQ(ring->dropped(), 0U);
  EXPECT_EQ(ring->reserve(EventRing::kWords / 2 + 1), nullptr);
  EXPECT_EQ(ring->dropped(), 1U);
}

TEST(EventRing, OneWriterOneReader) {
  const auto ring = std::make_unique<EventRing>();
  constexpr std::uint64_t kRecords = 200'000;
  std::thread writer([&] {
    std::mt19937 random(3);
    for (std::uint64_t mark = 1; mark <= kRecords; ++mark) {
      const std::size_t touches = random() % 40;
      while (!write(*ring, mark, touches, touches + 10, static_cast<std::int64_t>(mark))) std::this_thread::yield();
    }
  });
  std::mt19937 random(3);
  for (std::uint64_t mark = 1; mark <= kRecords;) {
    const RecordHeader* header = ring->front();
    if (header == nullptr) {
      std::this_thread::yield();
      continue;
    }
    expect_record(*header, mark, random() % 40);
    ring->pop();
    ++mark;
  }
  writer.join();
  EXPECT_EQ(ring->front(), nullptr);
}

TEST(RingRegistry, MergesByTimeUpToALimit) {
  const auto registry = std::make_unique<RingRegistry>();
  EventRing* a = registry->adopt();
  EventRing* b = registry->adopt();
  ASSERT_NE(a, b);
  for (const int time : {10, 30, 50}) ASSERT_TRUE(write(*a, static_cast<std::uint64_t>(time), 1, 1, time));
  for (const int time : {20, 25, 60}) ASSERT_TRUE(write(*b, static_cast<std::uint64_t>(time), 1, 1, time));
  std::vector<std::int64_t> times;
  const auto note = [&](const RecordHeader& header) { times.push_back(header.time); };
  EXPECT_EQ(registry->drain(note, 30), 4U);
  EXPECT_EQ(times, (std::vector<std::int64_t>{10, 20, 25, 30}));
  EXPECT_EQ(registry->drain(note), 2U);
  EXPECT_EQ(times.back(), 60);
}

TEST(RingRegistry, ARingOutlivesItsThreadUntilDrained) {
  const auto registry = std::make_unique<RingRegistry>();
  EventRing* ring = registry->adopt();
  ASSERT_TRUE(write(*ring, 1, 0, 0, 1));
  RingRegistry::finish(ring);
  EXPECT_NE(registry->adopt(), ring) << "given away with a record in it";
  EXPECT_EQ(registry->drain([](const RecordHeader&) {}), 1U);
  registry->drain([](const RecordHeader&) {});
  EXPECT_EQ(registry->adopt(), ring) << "not given to the next thread";
}

TEST(RingRegistry, CountsDropsOnce) {
  const auto registry = std::make_unique<RingRegistry>();
  EventRing* ring = registry->adopt();
  ring->drop();
  ring->drop();
  EXPECT_EQ(registry->take_dropped(), 2U);
  EXPECT_EQ(registry->take_dropped(), 0U);
}

TEST(RingRegistry, ManyThreadsComeAndGoBesideTheConsumer) {
  const auto registry = std::make_unique<RingRegistry>();
  constexpr int kThreads = 8;
  constexpr int kLives = 20;
  constexpr int kRecords = 200;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int life = 0; life < kLives; ++life) {
        EventRing* ring = registry->adopt();
        for (int i = 0; i < kRecords; ++i) write(*ring, 9, 3, 8, i);
        RingRegistry::finish(ring);
      }
      --running;
    });
  }
  std::size_t seen = 0;
  const auto check = [](const RecordHeader& header) { expect_record(header, 9, 3); };
  while (running > 0) seen += registry->drain(check);
  for (auto& thread : threads) thread.join();
  seen += registry->drain(check);
  EXPECT_EQ(seen + registry->take_dropped(), std::size_t{kThreads} * kLives * kRecords);
}

TEST(RingRegistry, AForkedChildStartsEmpty) {
  const auto registry = std::make_unique<RingRegistry>();
  ASSERT_TRUE(write(*registry->adopt(), 1, 0, 0, 1));
  registry->reset_after_fork();
  EXPECT_EQ(registry->drain([](const RecordHeader&) {}), 0U);
}

}  // namespace
}  // namespace spillway::shim
