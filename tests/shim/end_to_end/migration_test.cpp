// The migration lanes against the simulated driver: a call that does not come back, moves that fail, taken back, left.
#include "shim/migration.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "policy/units.hpp"
#include "shim/cuda_driver.hpp"
#include "shim/migration_lane.hpp"

namespace spillway::shim {
namespace {

using namespace std::chrono_literals;
using policy::operator""_MiB;
using policy::MoveOutcome;
using policy::Placement;
using policy::Urgency;

class MigrationTest : public testing::Test {
 protected:
  // `faults` can be set once a process, as the driver reads it at its start; ctest runs each test in one of its own.
  void start(const char* faults) {
    setenv("SPILLWAY_MODE", "off", 1);
    setenv("SPILLWAY_TRACE_PATH", "", 1);
    setenv("SPILLWAY_SIMULATED_MEMORY", "64MiB", 1);
    setenv("SPILLWAY_SIMULATED_FAULTS", faults, 1);
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxCreate_v2(&context_, 0, 0), CUDA_SUCCESS);
    for (CUdeviceptr& memory : memory_) {
      ASSERT_EQ(cuMemAllocManaged(&memory, 4 << 20, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    }
  }
  MigrationReports reports() {
    return {[this](const Move& move, MoveOutcome outcome, policy::DriverResult, policy::Nanoseconds) {
              const std::scoped_lock lock(mutex_);
              finished_.emplace_back(move.decision.value, outcome);
            },
            [](policy::DeviceIndex, policy::DriverResult, policy::Bytes) {},
            [this](const char*, std::chrono::seconds) { ++stuck_; }};
  }
  Move move(std::uint64_t number, std::size_t memory, Placement to, Urgency urgency) const {
    return {{number}, {static_cast<std::uint32_t>(memory + 1)}, {0}, {memory_[memory]}, 4_MiB, to, urgency};
  }
  std::vector<std::pair<std::uint64_t, MoveOutcome>> finished() {
    const std::scoped_lock lock(mutex_);
    return finished_;
  }
  template <class Condition>
  static void wait_for(Condition condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(5ms);
    EXPECT_TRUE(condition());
  }

  CUcontext context_ = nullptr;
  CUdeviceptr memory_[2] = {};
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, MoveOutcome>> finished_;
  std::atomic<int> stuck_{0};
};

// Other processes that start at the same moment must not be charged to this one's budget.
TEST(MemoryOfContext, IsWhatIsGoneUnlessThatIsMoreThanAContextTakes) {
  EXPECT_EQ(memory_of_context(338_MiB), 338_MiB);
  EXPECT_EQ(memory_of_context(524_MiB), 524_MiB);
  EXPECT_EQ(memory_of_context(policy::Bytes()), policy::Bytes());
  EXPECT_EQ(memory_of_context(2000_MiB), 392_MiB);
}

TEST_F(MigrationTest, ACallThatBlocksStallsNobodyElseAndIsReportedOnce) {
  start("cuMemPrefetchAsync_v2:1:delay=1500ms");
  Migration migration(reports(), {50ms, 50ms});
  ASSERT_TRUE(migration.enqueue(move(1, 0, Placement::device, Urgency::background)));
  // Until the report the call is in flight: it took the first prefetch, the one that blocks.
  wait_for([&] {
    migration.look_for_stuck_calls();
    return stuck_ == 1;
  });
  ASSERT_TRUE(migration.enqueue(move(2, 1, Placement::host, Urgency::blocking)));
  EXPECT_TRUE(migration.wait_for_blocking({0}, 1000ms)) << "the other direction waited";
  ASSERT_EQ(finished().size(), 1U);
  EXPECT_EQ(finished()[0].first, 2U);
  // Memory that the driver is still moving is not to be freed: the caller is told.
  EXPECT_FALSE(migration.cancel({1}, 10ms));
  EXPECT_TRUE(migration.cancel({2}, 10ms));
  migration.look_for_stuck_calls();
  EXPECT_EQ(stuck_, 1);
  wait_for([&] { return finished().size() == 2; });
}

TEST_F(MigrationTest, StopLeavesACallThatDoesNotComeBack) {
  start("cuMemPrefetchAsync_v2:1:delay=1500ms");
  static Migration* migration = nullptr;  // never destroyed: a thread is left in it
  migration = new Migration(reports(), {20ms, 20ms});
  ASSERT_TRUE(migration->enqueue(move(1, 0, Placement::device, Urgency::background)));
  wait_for([&] {
    migration->look_for_stuck_calls();
    return stuck_ == 1;
  });
  migration->stop(20ms);
  EXPECT_TRUE(finished().empty());
  wait_for([&] { return finished().size() == 1; });
}

TEST_F(MigrationTest, FailedMovesAreReportedAndQueuedOnesTakenBack) {
  start("cuMemPrefetchAsync_v2:1:delay=300ms,cuMemPrefetchAsync_v2:2:999");
  Migration migration(reports(), {10s, 10s});
  ASSERT_TRUE(migration.enqueue(move(1, 0, Placement::device, Urgency::background)));
  ASSERT_TRUE(migration.enqueue(move(2, 0, Placement::device, Urgency::background)));
  ASSERT_TRUE(migration.enqueue(move(3, 1, Placement::device, Urgency::background)));
  EXPECT_TRUE(migration.cancel({2}, 1000ms));
  wait_for([&] { return finished().size() == 3; });
  EXPECT_EQ(finished()[0], (std::pair<std::uint64_t, MoveOutcome>{3, MoveOutcome::cancelled}));
  EXPECT_EQ(finished()[1], (std::pair<std::uint64_t, MoveOutcome>{1, MoveOutcome::done}));
  EXPECT_EQ(finished()[2], (std::pair<std::uint64_t, MoveOutcome>{2, MoveOutcome::failed}));
}

TEST_F(MigrationTest, AContextThatIsNotMadeIsReported) {
  start("cuCtxCreate_v2:2:delay=1500ms");  // the first is the test's own
  Migration migration(reports(), {50ms, 50ms});
  migration.prepare({0}, 1ms);
  wait_for([&] {
    migration.look_for_stuck_calls();
    return stuck_ == 1;
  });
}

// It takes device memory, for which somebody has to have found room.
TEST_F(MigrationTest, NoContextIsMadeInPassing) {
  start("");
  Migration migration(reports(), {10s, 10s});
  int called = 0;
  std::thread([&] {  // which has no context current
    EXPECT_FALSE(migration.with_context({0}, "an advice", [&] { ++called; }));
    EXPECT_EQ(called, 0);
    migration.prepare({0}, 2000ms);
    EXPECT_TRUE(migration.with_context({0}, "an advice", [&] { ++called; }));
    EXPECT_EQ(called, 1);
  })
      .join();
}

TEST_F(MigrationTest, AnAdviceOrALookThatIsStuckIsReportedByAnIdleLane) {
  start("");
  Migration migration(reports(), {20ms, 20ms});
  migration.prepare({0}, 2000ms);
  const int before = stuck_;
  migration.with_context({0}, "an advice", [&] { wait_for([&] { return stuck_ > before; }); });
  const int advices = stuck_;
  migration.watch("a look", [&] { wait_for([&] { return stuck_ > advices; }); });
}

TEST_F(MigrationTest, NobodyWaitsForAMoveThatIsStuckNorForWhatIsBehindIt) {
  start("cuMemPrefetchAsync_v2:1:delay=1500ms");
  Migration migration(reports(), {50ms, 10s});
  ASSERT_TRUE(migration.enqueue(move(1, 0, Placement::device, Urgency::background)));
  ASSERT_TRUE(migration.enqueue(move(2, 1, Placement::device, Urgency::blocking)));
  // Long before the call comes back, which would end the wait too.
  EXPECT_FALSE(migration.wait_for_blocking({0}, 60s));
  EXPECT_TRUE(finished().empty());
  EXPECT_EQ(stuck_, 1);
  // The next one does not wait at all, and it is not said again.
  EXPECT_FALSE(migration.wait_for_blocking({0}, 60s));
  EXPECT_TRUE(finished().empty());
  EXPECT_EQ(stuck_, 1);
  wait_for([&] { return finished().size() == 2; });
  EXPECT_TRUE(migration.wait_for_blocking({0}, 60s)) << "it came back, and its lane serves again";
}

TEST_F(MigrationTest, NobodyWaitsForTheMovesOfAnotherDevice) {
  start("cuMemPrefetchAsync_v2:1:delay=1500ms");
  Migration migration(reports(), {10s, 10s});
  ASSERT_TRUE(migration.enqueue(move(1, 0, Placement::device, Urgency::blocking)));
  EXPECT_TRUE(migration.wait_for_blocking({1}, 0ms));
  EXPECT_FALSE(migration.wait_for_blocking({0}, 0ms));
  EXPECT_TRUE(migration.wait_for_blocking({0}, 10s));
}

}  // namespace
}  // namespace spillway::shim
