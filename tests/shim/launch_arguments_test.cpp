#include "shim/launch_arguments.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "shim/cuda_driver.hpp"

namespace spillway::shim {
namespace {

using policy::operator""_MiB;

constexpr std::uint64_t kInside = 0x7f00'0000'0000;

FunctionRecord function_of(std::vector<ParameterLayout> parameters) {
  FunctionRecord function;
  function.layout_known = true;
  function.words = words_of(parameters);
  return function;
}

class LaunchArguments : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(table->insert({kInside}, 4_MiB, {1}), AddressTable::Outcome::done); }

  std::vector<std::pair<std::uint16_t, std::uint64_t>> read(const FunctionRecord& function, void** parameters,
                                                            void** extra = nullptr) {
    std::array<Touch, 64> touches{};
    const PointersFound found = read_pointers(function, *table, parameters, extra, touches.data(), touches.size());
    flags = found.flags;
    std::vector<std::pair<std::uint16_t, std::uint64_t>> result;
    for (std::size_t i = 0; i < found.count; ++i) result.emplace_back(touches[i].argument(), touches[i].address());
    return result;
  }

  std::unique_ptr<AddressTable> table = std::make_unique<AddressTable>();
  std::uint8_t flags = 0;
};

using Found = std::vector<std::pair<std::uint16_t, std::uint64_t>>;

TEST(WordsOf, OnlyWholeAlignedWordsInsideAParameter) {
  // pointer, int, int, 3-int struct (12 bytes at 16), struct of 20 bytes at 32, one byte
  const auto words = words_of(std::vector<ParameterLayout>{{0, 8}, {8, 4}, {12, 4}, {16, 12}, {32, 20}, {52, 1}});
  std::vector<std::array<std::uint32_t, 3>> seen;
  for (const ArgumentWord& word : words) seen.push_back({word.parameter, word.within, word.offset});
  EXPECT_EQ(seen, (std::vector<std::array<std::uint32_t, 3>>{{0, 0, 0}, {3, 0, 16}, {4, 0, 32}, {4, 8, 40}}));
}

TEST(WordsOf, AStructThatBeginsOffAWordIsReadFromItsFirstWord) {
  const auto words = words_of(std::vector<ParameterLayout>{{0, 4}, {4, 16}});
  ASSERT_EQ(words.size(), 1U);
  EXPECT_EQ(words[0].within, 4);
  EXPECT_EQ(words[0].offset, 8U);
}

TEST_F(LaunchArguments, ReadsPointersAndStructsByValue) {
  struct {
    std::uint64_t pointer;
    std::uint32_t count;
    std::uint64_t pair[3];
  } arguments{kInside + 64, 5, {1, kInside + 128, kInside + (5 << 20)}};
  void* parameters[] = {&arguments.pointer, &arguments.count, arguments.pair};
  const auto function = function_of({{0, 8}, {8, 4}, {16, 24}});
  EXPECT_EQ(read(function, parameters), (Found{{0, kInside + 64}, {2, kInside + 128}}));
  EXPECT_EQ(flags, 0);
}

TEST_F(LaunchArguments, ReadsThePackedBufferWithinItsSize) {
  struct {
    std::uint64_t words[4];
  } packed{{kInside, 7, kInside + 8, kInside + 16}};
  std::size_t bytes = 24;  // the last word is beyond what the program states
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  const auto function = function_of({{0, 8}, {8, 8}, {16, 8}, {24, 8}});
  EXPECT_EQ(read(function, nullptr, extra), (Found{{0, kInside}, {2, kInside + 8}}));
  bytes = 23;
  EXPECT_EQ(read(function, nullptr, extra), (Found{{0, kInside}}));
}

TEST_F(LaunchArguments, MalformedExtraIsNotRead) {
  const auto function = function_of({{0, 8}});
  std::uint64_t word = kInside;
  std::size_t bytes = 8;
  void* no_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &word, CU_LAUNCH_PARAM_END};
  void* unknown[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &word, reinterpret_cast<void*>(0x55), &bytes, CU_LAUNCH_PARAM_END};
  void* null_size[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &word, CU_LAUNCH_PARAM_BUFFER_SIZE, nullptr,
                       CU_LAUNCH_PARAM_END};
  EXPECT_TRUE(read(function, nullptr, no_size).empty());
  EXPECT_TRUE(read(function, nullptr, unknown).empty());
  EXPECT_TRUE(read(function, nullptr, null_size).empty());
  EXPECT_TRUE(read(function, nullptr, nullptr).empty());
}

TEST_F(LaunchArguments, UnknownLayoutIsNotRead) {
  FunctionRecord function;
  void* parameters[] = {reinterpret_cast<void*>(8)};  // reading it would crash
  EXPECT_TRUE(read(function, parameters).empty());
  EXPECT_EQ(flags, kArgumentsUnknown);
}

TEST_F(LaunchArguments, NullParametersAndUnalignedOnesAreFine) {
  std::array<std::byte, 16> memory{};
  const std::uint64_t pointer = kInside + 3;
  std::memcpy(&memory[3], &pointer, 8);
  void* parameters[] = {nullptr, &memory[3]};
  EXPECT_EQ(read(function_of({{0, 8}, {8, 8}}), parameters), (Found{{1, kInside + 3}}));
}

TEST_F(LaunchArguments, MoreThanThereIsRoomForIsCutAndSaid) {
  std::vector<std::uint64_t> words(65, kInside);
  void* parameters[] = {words.data()};
  EXPECT_EQ(read(function_of({{0, 65 * 8}}), parameters).size(), 64U);
  EXPECT_EQ(flags, kTouchesCut);
}

}  // namespace
}  // namespace spillway::shim
