#include "policy/device_model.hpp"

#include <gtest/gtest.h>

#include <map>

namespace spillway::policy {
namespace {

class Model {
 public:
  std::map<std::uint64_t, LaunchLoad> loads;
  std::map<std::uint64_t, double> ends;    // of moves
  std::map<std::uint64_t, double> passed;  // marks, by launch
  DeviceModel model{CostTable{},
                    {[this](LaunchNumber n) { return loads[n.value]; },
                     [this](DecisionId id, Seconds at) { ends[id.value] = at.count(); },
                     [this](LaunchNumber n, Seconds at) { passed[n.value] = at.count(); }}};
  void move(std::uint64_t id, Bytes bytes, MoveJob::Way way, LaunchNumber after = {}, bool front = false) {
    MoveJob job;
    job.decision = {id};
    job.bytes = bytes;
    job.way = way;
    job.after = after;
    job.front = front;
    model.move(job, Seconds(0));
  }
};

TEST(DeviceModel, LaunchesRunOneAfterAnotherNotBeforeTheyAreEnqueued) {
  Model m;
  m.loads[1].compute_seconds = 0.010;
  m.loads[2].compute_seconds = 0.010;
  m.model.launch({1}, Seconds(0.001));
  m.model.launch({2}, Seconds(0.002));
  EXPECT_NEAR(m.model.finish().count(), 0.021, 1e-9);
  EXPECT_NEAR(m.model.totals().stall_seconds, 0, 1e-9);
}

TEST(DeviceModel, RemoteBytesTakeTheLinksTimeOrHideBehindCompute) {
  Model m;
  m.loads[1] = {0.001, 51e9 * 0.02, 0, 0, 0};
  m.loads[2] = {0.100, 51e9 * 0.02, 0, 0, 0};
  m.loads[3] = {0.001, 41e9 * 0.02, 41e9 * 0.02, 0, 0};
  for (std::uint64_t i = 1; i <= 3; ++i) m.model.launch({i}, Seconds(0));
  EXPECT_NEAR(m.model.finish().count(), 0.02 + 0.1 + 0.02, 1e-6);
  EXPECT_NEAR(m.model.totals().stall_seconds, 0.019 + 0.019, 1e-6);
}

TEST(DeviceModel, MovesBothWaysRunAtOnceAndOneLaneInTurn) {
  Model m;
  const CostTable costs;
  m.move(1, 256_MiB, MoveJob::Way::in);
  m.move(2, 256_MiB, MoveJob::Way::in);
  m.move(3, 256_MiB, MoveJob::Way::out);
  m.model.finish();
  const double in = costs.bring_in(256_MiB, 256_MiB);
  EXPECT_NEAR(m.ends[1], in, 1e-9);
  EXPECT_NEAR(m.ends[2], 2 * in, 1e-9);
  EXPECT_NEAR(m.ends[3], static_cast<double>((256_MiB).count()) / costs.move_out, 1e-9);
}

TEST(DeviceModel, MovesCrawlWhileLaunchesUseHostPagesInPlace) {
  Model m;
  const CostTable costs;
  m.loads[1] = {0, costs.link_in * 0.03, 0, 0, 0};
  m.loads[2] = {0.02, costs.link_in * 0.01, 0, 0, 0};
  m.move(1, 32_MiB, MoveJob::Way::in);
  m.move(2, 32_MiB, MoveJob::Way::out);
  m.move(3, 32_MiB, MoveJob::Way::in);
  m.move(4, 1_GiB, MoveJob::Way::populate);
  m.model.launch({1}, Seconds(0));
  m.model.launch({2}, Seconds(0));
  m.model.finish();
  const auto bytes = static_cast<double>((32_MiB).count());
  EXPECT_NEAR(m.model.launches_end().count(), 0.05, 1e-6) << "launches are as fast as without";
  EXPECT_NEAR(m.ends[1], bytes / costs.move_beside_in_place, 1e-6) << "the launch has all of the link";
  EXPECT_NEAR(m.ends[2], m.ends[1], 1e-6);
  const double alone = costs.bring_in(32_MiB, 32_MiB);
  const double crawl = alone / m.ends[1];
  const double left = alone - (0.03 - m.ends[1]) * crawl;
  EXPECT_NEAR(m.ends[3], 0.03 + left / (1 - 0.5 * (1 - crawl)), 1e-6) << "and then half of it";
  const double populate = static_cast<double>((1_GiB).count()) / costs.populate;
  EXPECT_NEAR(m.ends[4] - m.ends[3], populate, 1e-6) << "what fills memory needs no link";
}

TEST(DeviceModel, AMoveWaitsForItsLaunchAndOthersGoFirst) {
  Model m;
  m.loads[1].compute_seconds = 0.5;
  m.move(1, 2_MiB, MoveJob::Way::out, {1});
  m.move(2, 2_MiB, MoveJob::Way::out);
  m.model.advance(Seconds(0.1));
  EXPECT_FALSE(m.ends.contains(1));
  EXPECT_TRUE(m.ends.contains(2));
  m.model.launch({1}, Seconds(0.1));
  m.model.finish();
  EXPECT_GT(m.ends[1], 0.6);
}

TEST(DeviceModel, AMarkIsPassedWhenItsLaunchIsDoneWhateverMoves) {
  Model m;
  m.loads[1].compute_seconds = m.loads[2].compute_seconds = 1;
  m.move(9, 1_GiB * 200, MoveJob::Way::in);
  m.model.mark({1}, Seconds(0));
  m.model.mark({2}, Seconds(0));
  m.model.launch({1}, Seconds(0));
  m.model.launch({2}, Seconds(0));
  m.model.advance(Seconds(1.5));
  EXPECT_NEAR(m.passed.at(1), 1, 1e-9);
  EXPECT_FALSE(m.passed.contains(2));
  m.model.advance(Seconds(2.5));
  EXPECT_NEAR(m.passed.at(2), 2, 1e-9);
  EXPECT_TRUE(m.ends.empty()) << "the move goes on";
}

TEST(DeviceModel, BlockingMovesGoFirstAndCancelledOnesNever) {
  Model m;
  m.move(1, 1_GiB, MoveJob::Way::out);
  m.move(2, 2_MiB, MoveJob::Way::out, {}, true);
  const Seconds at = m.model.wait_for_move({2}, Seconds(0));
  EXPECT_LT(at.count(), 0.001);
  m.move(3, 2_MiB, MoveJob::Way::out);
  EXPECT_TRUE(m.model.cancel({3}));
  EXPECT_FALSE(m.model.cancel({3}));
  m.model.finish();
  EXPECT_FALSE(m.ends.contains(3));
}

TEST(DeviceModel, FaultsStopALaunch) {
  Model m;
  m.loads[1] = {0.001, 0, 0, 8e9 * 0.01, 18e9 * 0.01};
  m.model.launch({1}, Seconds(0));
  EXPECT_NEAR(m.model.finish().count(), 0.021, 1e-6);
}

TEST(DeviceModel, TheProgramCanWaitForTheQueue) {
  Model m;
  for (std::uint64_t i = 1; i <= 10; ++i) m.loads[i].compute_seconds = 0.01, m.model.launch({i}, Seconds(0));
  EXPECT_NEAR(m.model.wait_for_queue(4, Seconds(0)).count(), 0.05, 1e-9);
  EXPECT_EQ(m.model.queued(), 4u);
}

}  // namespace
}  // namespace spillway::policy
