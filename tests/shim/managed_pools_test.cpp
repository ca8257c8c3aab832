// Stream-ordered memory on a pretended driver: streams are lists of work that the test lets pass, arenas are numbers.
#include "shim/managed_pools.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <thread>

namespace spillway::shim {
namespace {

using policy::Address;
using policy::Bytes;
using policy::operator""_MiB;
using Wait = OrderedHeap::Wait;
using Answered = PoolAnswer::Outcome;

struct PretendedMark final : FreeMark {
  std::uint64_t of = 0;  // stream
  std::uint64_t place = 0;
};

// Each stream has come as far as the test says; what it was told to wait for is noted.
class PretendedDriver final : public PoolBacking {
 public:
  GrownArena make_arena(const AllocationRequest& request) override {
    const std::unique_lock lock(mutex);
    ++calls;
    if (outcome != GrownArena::Outcome::made) return {outcome, {}};
    if (reserved + request.bytes > room) return {GrownArena::Outcome::refused, {}};
    reserved += request.bytes;
    const Address address{next};
    next += request.bytes.count();  // arenas are neighbours, and must not be joined
    arenas[address.value] = request.bytes;
    return {GrownArena::Outcome::made, address};
  }
  bool free_arena(Address arena, CUcontext) override {
    const std::unique_lock lock(mutex);
    reserved -= arenas.at(arena.value);
    arenas.erase(arena.value);
    return true;
  }
  std::shared_ptr<FreeMark> mark(const PoolStream& stream, CUresult& result) override {
    const std::unique_lock lock(mutex);
    result = mark_fails ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
    if (mark_fails) return nullptr;
    auto made = std::make_shared<PretendedMark>();
    made->of = stream.key.value;
    made->place = ++issued[stream.key.value];
    return made;
  }
  bool done(const FreeMark& mark) override {
    const std::unique_lock lock(mutex);
    return passed(mark);
  }
  bool wait_in(const PoolStream& stream, const FreeMark& mark) override {
    const std::unique_lock lock(mutex);
    if (wait_fails) return false;
    const auto& of = static_cast<const PretendedMark&>(mark);
    waits.insert({stream.key.value, of.of});
    return true;
  }
  void wait_for(const FreeMarks& marks) override {
    const std::unique_lock lock(mutex);
    for (const auto& mark : marks) {
      const auto& of = static_cast<const PretendedMark&>(*mark);
      if (!stuck) come[of.of] = std::max(come[of.of], of.place);
      ++waited_for;
    }
  }
  CUresult wait_for(CUcontext) override {
    const std::unique_lock lock(mutex);
    come = issued;
    return context_fails ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
  }
  bool passed(const FreeMark& mark) {
    const auto& of = static_cast<const PretendedMark&>(mark);
    return come[of.of] >= of.place;
  }
  void pass(std::uint64_t stream) { come[stream] = issued[stream]; }

  std::mutex mutex;
  GrownArena::Outcome outcome = GrownArena::Outcome::made;
  Bytes room = Bytes(~std::uint64_t{0} / 2);
  Bytes reserved;
  std::uint64_t next = 0x7f0000000000;
  std::uint64_t calls = 0, waited_for = 0;
  bool stuck = false, mark_fails = false, wait_fails = false, context_fails = false;
  std::map<std::uint64_t, Bytes> arenas;
  std::map<std::uint64_t, std::uint64_t> issued, come;
  std::set<std::pair<std::uint64_t, std::uint64_t>> waits;  // who, for whom
};

CUmemoryPool const kPool = reinterpret_cast<CUmemoryPool>(0x100);
CUcontext const kContext = reinterpret_cast<CUcontext>(0x200);

PoolStream stream(std::uint64_t number, CUcontext context = kContext) {
  return {{number}, reinterpret_cast<CUstream>(number), context};
}

class Pools : public testing::Test {
 protected:
  Pools() { pools_.pool_seen(kPool, {{0}, ManagedPools::Service::ours}); }
  Address allocate(Bytes bytes, std::uint64_t on, Wait may_wait = Wait::yes) {
    PoolRequest request;
    request.pool = kPool;
    request.stream = stream(on);
    request.bytes = bytes;
    request.budget = budget_;
    request.may_wait = may_wait;
    const PoolAnswer answer = pools_.allocate(request);
    last_ = answer.outcome;
    return answer.address;
  }
  CUresult free(Address address, std::uint64_t on) { return pools_.free_in_order(address, stream(on)); }

  PretendedDriver driver_;
  ManagedPools pools_{driver_};
  Bytes budget_ = 1024_MiB;
  Answered last_ = Answered::not_ours;
};

TEST_F(Pools, AStreamHasItsOwnMemoryAgainAtOnce) {
  const Address first = allocate(20_MiB, 1);
  EXPECT_EQ(free(first, 1), CUDA_SUCCESS);
  EXPECT_EQ(allocate(20_MiB, 1), first);
  EXPECT_TRUE(driver_.waits.empty());
  EXPECT_EQ(driver_.calls, 1U);
}

TEST_F(Pools, AnotherStreamHasItWhenTheFirstHasComeSoFar) {
  const Address first = allocate(20_MiB, 1);
  free(first, 1);
  driver_.pass(1);
  EXPECT_EQ(allocate(20_MiB, 2), first);
  EXPECT_TRUE(driver_.waits.empty());
}

TEST_F(Pools, AnotherStreamWaitsForItOrGetsOtherMemory) {
  const Address first = allocate(20_MiB, 1);
  free(first, 1);
  const Address other = allocate(20_MiB, 2, Wait::no);
  EXPECT_NE(other, first);
  EXPECT_TRUE(driver_.waits.empty());
  EXPECT_EQ(allocate(20_MiB, 3), first);
  EXPECT_EQ(driver_.waits, (std::set<std::pair<std::uint64_t, std::uint64_t>>{{3, 1}}));
}

TEST_F(Pools, ADestroyedStreamsNameIsNobodys) {
  const Address first = allocate(20_MiB, 1);
  free(first, 1);
  pools_.stream_gone({1});
  EXPECT_NE(allocate(20_MiB, 1, Wait::no), first) << "a new stream of that name knows nothing of the old one's work";
}

TEST_F(Pools, JoinedBlocksAreWaitedForInAllTheirParts) {
  const Address a = allocate(4_MiB, 1);
  const Address b = allocate(4_MiB, 2);
  const Address c = allocate(24_MiB, 3);
  ASSERT_EQ(b.value, a.value + (4_MiB).count());
  ASSERT_NE(c, Address{});
  free(a, 1);
  free(b, 2);
  EXPECT_EQ(allocate(8_MiB, 1), a);
  EXPECT_EQ(driver_.waits, (std::set<std::pair<std::uint64_t, std::uint64_t>>{{1, 2}}));
}

TEST_F(Pools, WhatCannotBeWaitedForKeepsItsOrder) {
  const Address a = allocate(4_MiB, 1);
  const Address b = allocate(4_MiB, 2);
  free(a, 1);
  free(b, 2);
  allocate(24_MiB, 4);
  driver_.wait_fails = true;
  const Address grown = allocate(8_MiB, 1);
  EXPECT_NE(grown, a);
  // Stream 3 may still not have the part that stream 1 freed.
  driver_.pass(2);
  driver_.wait_fails = false;
  EXPECT_NE(allocate(8_MiB, 3, Wait::no), a);
}

TEST_F(Pools, BestFitLeavesTheLargeBlocks) {
  const Address small = allocate(10_MiB, 1);
  const Address large = allocate(40_MiB, 1);
  free(large, 1);
  free(small, 1);
  EXPECT_EQ(allocate(9_MiB, 1), small);
  EXPECT_EQ(allocate(40_MiB, 1), large);
}

TEST_F(Pools, FreesOfNoLiveBlockGetTheDriversCode) {
  const Address block = allocate(4_MiB, 1);
  EXPECT_EQ(free({block.value + 4096}, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(free(block, 1), CUDA_SUCCESS);
  EXPECT_EQ(free(block, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(pools_.free_now(block, true), CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(pools_.holds(block)) << "which keeps it from the driver's own free";
  EXPECT_EQ(driver_.arenas.size(), 1U);
}

TEST_F(Pools, AFreeThatFailsLeavesTheBlockAlive) {
  const Address block = allocate(4_MiB, 1);
  driver_.mark_fails = true;
  EXPECT_EQ(free(block, 1), CUDA_ERROR_INVALID_HANDLE);
  driver_.mark_fails = false;
  driver_.context_fails = true;
  EXPECT_EQ(pools_.free_now(block, true), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(pools_.block_at(block));
  EXPECT_EQ(free(block, 1), CUDA_SUCCESS);
  EXPECT_FALSE(pools_.block_at(block));
}

TEST_F(Pools, FreedInAnotherContextNobodyHasItBeforeThatStreamHasComeSoFar) {
  const Address block = allocate(12_MiB, 1);
  EXPECT_EQ(pools_.free_in_order(block, stream(9, reinterpret_cast<CUcontext>(0x300))), CUDA_SUCCESS);
  EXPECT_EQ(driver_.come[9], 0U) << "nobody waits in a free";
  EXPECT_NE(allocate(12_MiB, 9, Wait::no), block) << "a stream of the same name in this context is another";
  driver_.pass(9);
  EXPECT_EQ(allocate(12_MiB, 2, Wait::no), block);
}

TEST_F(Pools, TrimmingNeverTouchesMemoryInUse) {
  const Address busy = allocate(40_MiB, 1);
  const Address live = allocate(50_MiB, 1);
  const Address idle = allocate(60_MiB, 2);
  free(busy, 1);
  free(idle, 2);
  driver_.pass(2);
  EXPECT_TRUE(pools_.trim(kPool, {}));
  EXPECT_EQ(driver_.arenas.size(), 2U) << "one has a live block, another is still in use by its stream";
  EXPECT_EQ(driver_.waited_for, 0U);
  EXPECT_EQ(pools_.figures(kPool).reserved, 90_MiB);
  EXPECT_EQ(pools_.figures(kPool).used, 50_MiB);
  EXPECT_EQ(pools_.figures(kPool).used_peak, 150_MiB);
  free(live, 1);
  driver_.pass(1);
  EXPECT_TRUE(pools_.trim(kPool, 50_MiB));
  EXPECT_EQ(driver_.reserved, 50_MiB) << "the smallest go first, until no more is kept than was said";
  pools_.trim(kPool, {});
  EXPECT_EQ(driver_.reserved, Bytes());
}

TEST_F(Pools, IdleMemoryBeyondTheThresholdGoesBack) {
  const Address block = allocate(40_MiB, 1);
  pools_.set_threshold(kPool, 100_MiB);
  free(block, 1);
  driver_.pass(1);
  EXPECT_FALSE(pools_.release_idle({0}));
  pools_.set_threshold(kPool, {});
  EXPECT_FALSE(pools_.release_idle({1})) << "another device's";
  EXPECT_TRUE(pools_.release_idle({0}));
  EXPECT_EQ(driver_.reserved, Bytes());
  EXPECT_FALSE(pools_.holds(block));
}

TEST_F(Pools, OutOfRoomItTakesLessThenWhatNobodyUsesThenRefuses) {
  pools_.set_threshold(kPool, Bytes(~std::uint64_t{0}));
  driver_.room = 30_MiB;
  const Address small = allocate(4_MiB, 1);
  EXPECT_TRUE(small) << "an arena for several does not fit, one for this does";
  EXPECT_EQ(driver_.reserved, 4_MiB);
  free(small, 1);
  const Address large = allocate(28_MiB, 2);
  EXPECT_TRUE(large);
  EXPECT_EQ(driver_.waited_for, 1U) << "the small one's last use";
  EXPECT_FALSE(allocate(4_MiB, 2));
  EXPECT_EQ(last_, Answered::out_of_memory);
  free(large, 2);
  EXPECT_EQ(allocate(4_MiB, 2), large);
}

TEST_F(Pools, MoreThanAnyMachineHasIsTheDriversToRefuse) {
  const Address block = allocate(20_MiB, 1);
  free(block, 1);
  for (const std::uint64_t bytes : {~std::uint64_t{0}, ~std::uint64_t{0} - 100, ~std::uint64_t{0} - 0x1fffff,
                                    ~std::uint64_t{0} >> 1U, kBeyondMemory.count()}) {
    EXPECT_FALSE(allocate(Bytes(bytes), 1)) << bytes;
    EXPECT_EQ(last_, Answered::not_ours) << bytes;
  }
  EXPECT_EQ(driver_.calls, 1U);
}

TEST_F(Pools, MemoryOfAStreamThatIsStuckIsKeptForIt) {
  driver_.room = 30_MiB;
  const Address block = allocate(28_MiB, 1);
  free(block, 1);
  driver_.stuck = true;
  EXPECT_FALSE(pools_.release_unused({0}));
  EXPECT_EQ(driver_.reserved, 28_MiB);
  EXPECT_EQ(allocate(28_MiB, 1), block);
  EXPECT_EQ(free(block, 1), CUDA_SUCCESS);
  driver_.stuck = false;
  EXPECT_TRUE(pools_.release_unused({0}));
  EXPECT_EQ(driver_.reserved, Bytes());
}

TEST_F(Pools, ASmallRequestTakesASmallPartOfTheBudget) {
  budget_ = 64_MiB;
  allocate(2_MiB, 1);
  EXPECT_EQ(driver_.reserved, 8_MiB) << "an eighth";
  budget_ = 24_MiB;
  allocate(7_MiB, 1);
  EXPECT_EQ(driver_.reserved, 16_MiB) << "what is asked for, where that is more";
  budget_ = {};
  allocate(7_MiB, 1);
  EXPECT_EQ(driver_.reserved, 24_MiB);
}

TEST_F(Pools, PolicyMayWantPlainMemoryOrTheProgramToHear) {
  driver_.outcome = GrownArena::Outcome::not_ours;
  allocate(4_MiB, 1);
  EXPECT_EQ(last_, Answered::not_ours);
  driver_.outcome = GrownArena::Outcome::full;
  allocate(4_MiB, 1);
  EXPECT_EQ(last_, Answered::not_ours) << "the driver may have plain memory left";
  driver_.outcome = GrownArena::Outcome::final;
  driver_.calls = 0;
  allocate(4_MiB, 1);
  EXPECT_EQ(last_, Answered::out_of_memory);
  EXPECT_EQ(driver_.calls, 1U);
}

TEST_F(Pools, ADestroyedPoolsMemoryLivesUntilItIsFreed) {
  const Address block = allocate(40_MiB, 1);
  pools_.pool_destroyed(kPool);
  EXPECT_FALSE(pools_.serves(kPool, {0}));
  EXPECT_TRUE(pools_.block_at(block));
  // The name of the pool may be another's now.
  pools_.pool_seen(kPool, {{0}, ManagedPools::Service::ours});
  EXPECT_EQ(pools_.figures(kPool).reserved, Bytes());
  EXPECT_EQ(free(block, 1), CUDA_SUCCESS);
  EXPECT_NE(allocate(40_MiB, 1), block);
  driver_.pass(1);
  EXPECT_TRUE(pools_.release_idle({0}));
  EXPECT_EQ(driver_.reserved, 40_MiB);
}

TEST_F(Pools, AContextTakesItsMemoryWithIt) {
  const Address block = allocate(4_MiB, 1);
  auto ending = pools_.begin_context_end(kContext);
  EXPECT_FALSE(pools_.holds(block)) << "its address may be another's before the driver has answered";
  // One that got the context's name right after.
  const Address next = allocate(12_MiB, 1);
  pools_.end_context_end(std::move(ending), CUDA_SUCCESS);
  EXPECT_FALSE(pools_.holds(block));
  EXPECT_EQ(free(block, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(pools_.figures(kPool).reserved, 12_MiB);
  EXPECT_EQ(free(next, 1), CUDA_SUCCESS);
}

TEST_F(Pools, AContextThatTheDriverKeepsHasItsMemory) {
  const Address block = allocate(12_MiB, 1);
  auto ending = pools_.begin_context_end(kContext);
  const Address meanwhile = allocate(16_MiB, 1);
  pools_.end_context_end(std::move(ending), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_TRUE(pools_.holds(block));
  EXPECT_EQ(pools_.figures(kPool).used, 28_MiB);
  EXPECT_EQ(free(block, 1), CUDA_SUCCESS);
  EXPECT_EQ(free(meanwhile, 1), CUDA_SUCCESS);
}

TEST_F(Pools, ABlockIsAsLargeAsWasAsked) {
  const Address block = allocate(5_MiB + Bytes(100), 1);
  const auto found = pools_.block_at({block.value + 5 * 1048576 + 50});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->address, block);
  EXPECT_EQ(found->bytes, 5_MiB + Bytes(100));
  EXPECT_EQ(found->pool, kPool);
  EXPECT_FALSE(pools_.block_at({block.value + 5 * 1048576 + 100}));
}

// Against the rule itself: nobody gets memory that another stream may still be using without having waited for it.
TEST(OrderedHeapRandom, NobodyGetsMemoryInUse) {
  std::mt19937 random(7);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint64_t>(random() % n); };
  for (int round = 0; round < 30; ++round) {
    OrderedHeap heap;
    struct Live {
      Address address;
      Bytes bytes;
    };
    struct Use {
      std::uint64_t begin, end;
      std::shared_ptr<FreeMark> mark;
      StreamKey stream;
    };
    std::vector<Live> live;
    std::vector<Use> uses;  // freed, the stream not known to have come so far
    std::uint64_t next = 0x7f0000000000;
    for (int step = 0; step < 400; ++step) {
      const StreamKey on{below(3) + 1};
      const Bytes bytes = OrderedHeap::rounded(Bytes(2'000'000 + below(9'000'000)));
      switch (below(6)) {
        case 0:
        case 1: {
          const auto taken = heap.take(bytes, on, below(2) == 0 ? Wait::yes : Wait::no);
          if (!taken) {
            const Bytes arena = OrderedHeap::rounded(Bytes(bytes.count() * 2));
            live.push_back({heap.add_and_take({next}, arena, bytes), bytes});
            next += arena.count();
            break;
          }
          const std::uint64_t end = taken->address.value + bytes.count();
          for (const Use& use : uses) {
            if (use.end <= taken->address.value || use.begin >= end || use.mark->done || use.stream == on) continue;
            EXPECT_NE(std::find(taken->after.begin(), taken->after.end(), use.mark), taken->after.end());
          }
          for (const Live& other : live) {
            EXPECT_TRUE(other.address.value >= end ||
                        other.address.value + other.bytes.count() <= taken->address.value);
          }
          if (below(8) == 0) {
            heap.untake(*taken);
          } else {
            live.push_back({taken->address, bytes});
            // What was waited for is behind this stream's work from now on; the next free here says so.
            std::vector<Use> left;
            for (const Use& use : uses) {
              if (use.begin < taken->address.value)
                left.push_back({use.begin, std::min(use.end, taken->address.value), use.mark, use.stream});
              if (use.end > end) left.push_back({std::max(use.begin, end), use.end, use.mark, use.stream});
            }
            uses = std::move(left);
          }
          break;
        }
        case 2:
        case 3: {
          if (live.empty()) break;
          const std::size_t which = below(live.size());
          auto mark = std::make_shared<FreeMark>();
          mark->stream = on;
          ASSERT_TRUE(heap.begin_free(live[which].address));
          ASSERT_FALSE(heap.begin_free(live[which].address));
          heap.end_free(live[which].address, mark);
          uses.push_back({live[which].address.value, live[which].address.value + live[which].bytes.count(), mark, on});
          live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
          break;
        }
        case 4:
          if (!uses.empty()) uses[below(uses.size())].mark->done = true;
          break;
        default:
          for (const auto& arena : heap.remove_empty(Bytes(below(2) * 100'000'000))) {
            for (const Use& use : uses) {
              EXPECT_TRUE(use.mark->done || use.end <= arena.address.value ||
                          use.begin >= arena.address.value + arena.bytes.count());
            }
            for (const Live& other : live) {
              EXPECT_TRUE(other.address.value < arena.address.value ||
                          other.address.value >= arena.address.value + arena.bytes.count());
            }
          }
      }
      ASSERT_EQ(heap.check_invariants(), "") << "round " << round << " step " << step;
    }
  }
}

// For the thread sanitizer: everything at once.
TEST(PoolThreads, AllocateAndFreeSideBySide) {
  PretendedDriver driver;
  driver.room = 400_MiB;
  ManagedPools pools(driver);
  pools.pool_seen(kPool, {{0}, ManagedPools::Service::ours});
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (std::uint64_t number = 1; number <= 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(static_cast<unsigned>(number));
      std::deque<Address> held;
      for (int i = 0; i < 400; ++i) {
        PoolRequest request;
        request.pool = kPool;
        request.stream = stream(number);
        request.bytes = Bytes(2'097'152 + random() % 30'000'000);
        request.budget = 400_MiB;
        const PoolAnswer answer = pools.allocate(request);
        if (answer.outcome == Answered::served) held.push_back(answer.address);
        if (answer.outcome == Answered::out_of_memory) ++refused;
        if (held.size() > 4 || (answer.outcome != Answered::served && !held.empty())) {
          EXPECT_EQ(random() % 5 == 0 ? pools.free_now(held.front(), true)
                                      : pools.free_in_order(held.front(), stream(number)),
                    CUDA_SUCCESS);
          held.pop_front();
        }
        if (i % 50 == 0) pools.trim(kPool, {});
        if (i % 70 == 0) pools.stream_gone({number});
      }
      for (const Address each : held) pools.free_in_order(each, stream(number));
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(pools.figures(kPool).used, Bytes());
  pools.release_unused({0});
  EXPECT_EQ(driver.reserved, Bytes());
  EXPECT_TRUE(driver.arenas.empty());
}

}  // namespace
}  // namespace spillway::shim
