#include "policy/cost_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace spillway::policy {
namespace {

using ::testing::HasSubstr;

const ProbedDevice kDevice{"00112233445566778899aabbccddeeff", "A card with a \"name\"", "13.0"};

CostFile sample() {
  CostFile file{kDevice, "0.1.0", "2026-11-30T10:00:00Z", {}};
  file.costs.link_in = 23.456789e9;
  file.costs.launch = 2.5e-6;
  return file;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(CostFile, ReadsBackWhatItWrites) {
  std::string why;
  const auto costs = read_cost_file(write_cost_file(sample()), kDevice, why);
  ASSERT_TRUE(costs) << why;
  EXPECT_EQ(*costs, sample().costs);
}

TEST(CostFile, CostsThatAreNotThereAreBuiltIn) {
  std::string why;
  const std::string text = replaced(write_cost_file(sample()), "link_in", "# link_in");
  const auto costs = read_cost_file(text, kDevice, why);
  ASSERT_TRUE(costs) << why;
  EXPECT_EQ(costs->link_in, CostTable{}.link_in);
  EXPECT_EQ(costs->launch, 2.5e-6);
}

TEST(CostFile, OneMistakeAndTheWholeFileIsLeftAlone) {
  const std::string good = write_cost_file(sample());
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "it is not a file of `spillway probe`"},
      {"\x7f"
       "ELF\x02\x01",
       "line 1"},
      {good.substr(0, good.size() / 2) + "\n= ", "line "},
      {replaced(good, "format = 1", "format = 2"), "its format is of another version"},
      {replaced(good, "0011", "ff11"), "it is of another device, \"ff112233"},
      {replaced(good, "\"13.0\"", "\"12.4\""), "it was measured with driver \"12.4\", and this is \"13.0\""},
      {replaced(good, "[costs]", "[prices]"), "it has no [costs]"},
      {replaced(good, "link_in =", "linkin ="), "\"linkin\" is no cost"},
      {replaced(good, "link_in = 2", "link_in = -2"), "link_in is \"-23456789000\", not a number of bytes/s that"},
      {replaced(good, "link_in = 2", "link_in = 1e300 # 2"), "link_in is \"1e+300\""},
      {replaced(good, "link_in = 2", "link_in = nan # 2"), "link_in is \"nan\""},
      {replaced(good, "launch = ", "launch = 60 # "), "launch is \"60\", not a number of s that a machine can have"},
      {replaced(good, "launch = ", "launch = \"fast\" # "), "launch is \"fast\""},
  };
  for (const auto& [text, expected] : bad) {
    std::string why;
    EXPECT_FALSE(read_cost_file(text, kDevice, why)) << text;
    EXPECT_THAT(why, HasSubstr(expected));
    EXPECT_THAT(why, HasSubstr("measure anew with `spillway probe`"));
    EXPECT_EQ(why.find('\n'), std::string::npos);
  }
}

TEST(CostFile, LiesInTheUsersCacheFolder) {
  EXPECT_EQ(cost_folder("/cache", "/home/a"), "/cache/spillway");
  EXPECT_EQ(cost_folder("", "/home/a"), "/home/a/.cache/spillway");
  EXPECT_EQ(cost_folder("relative", nullptr), "");
  EXPECT_EQ(cost_folder(nullptr, nullptr), "");
  EXPECT_EQ(cost_file_name(kDevice.uuid), "costs-00112233445566778899aabbccddeeff.toml");
}

}  // namespace
}  // namespace spillway::policy
