#include "policy/cost_table.hpp"

#include <gtest/gtest.h>

namespace spillway::policy {
namespace {

TEST(CostTable, ReadsBackWhatItWrites) {
  CostTable costs;
  costs.link_in = 23.456789e9;
  costs.move_call = 1.5e-6;
  std::vector<std::string> problems;
  EXPECT_EQ(read_costs(write_costs(costs), problems), costs);
  EXPECT_TRUE(problems.empty());
}

TEST(CostTable, TakesAnySubsetInAnyOrder) {
  std::vector<std::string> problems;
  const CostTable costs = read_costs("{\"hbm\": 2e12, \"link_in\":26e9}", problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(costs.hbm, 2e12);
  EXPECT_EQ(costs.link_in, 26e9);
  EXPECT_EQ(costs.link_out, CostTable{}.link_out);
  EXPECT_EQ(read_costs("{}", problems), CostTable{});
}

TEST(CostTable, NamesEveryMistakeAndKeepsTheDefault) {
  std::vector<std::string> problems;
  const CostTable costs =
      read_costs("{\"link_in\": 0, \"linkin\": 5, \"hbm\": fast, \"move_out\": 1e300, \"move_in\": 1e9}", problems);
  ASSERT_EQ(problems.size(), 4u);
  EXPECT_EQ(problems[0], "link_in: '0' is nothing that a machine can have; write it in bytes/s");
  EXPECT_NE(problems[1].find("'linkin' is no cost"), std::string::npos);
  EXPECT_EQ(costs.link_in, CostTable{}.link_in);
  EXPECT_EQ(costs.move_in, 1e9);
  problems.clear();
  read_costs("link_in = 4", problems);
  EXPECT_EQ(problems.size(), 1u);
}

TEST(CostTable, AgreesWithWhatWasMeasured) {
  const CostTable costs;
  const auto rate = [&costs](Bytes batch) {
    return static_cast<double>((1_GiB).count()) / costs.bring_in(1_GiB, batch) / 1e9;
  };
  EXPECT_NEAR(rate(2_MiB), 17, 5);  // calls of 2 / 8 / 32 / 256 MiB
  EXPECT_NEAR(rate(8_MiB), 33, 5);
  EXPECT_NEAR(rate(32_MiB), 42, 3);
  EXPECT_NEAR(rate(256_MiB), 48, 2);
  EXPECT_NEAR(costs.crossings_worth_streaming_read_only(), 2, 0.5);
  EXPECT_NEAR(costs.crossings_worth_streaming_dirty(), 5, 0.5);
}

}  // namespace
}  // namespace spillway::policy
