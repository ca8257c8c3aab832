#include <gtest/gtest.h>

#include "kernels/arithmetic.hpp"
#include "kernels/calibration.hpp"
#include "tests/kernels/launch.hpp"

namespace spillway::kernels {
namespace {

using Words = std::vector<std::uint64_t>;

std::uint64_t address(const Words& words) { return reinterpret_cast<std::uintptr_t>(words.data()); }

// Launches by the plain header, as the probe does.
template <class Parameters>
void run(Parameters parameters) {
  const auto arguments = parameters.arguments();
  ASSERT_EQ(find_twin(Parameters::kName).parameter_sizes.size(), arguments.size());
  find_twin(Parameters::kName).run({}, arguments.data());
}

template <class Parameters>
std::vector<Access> touched(Parameters parameters) {
  const auto arguments = parameters.arguments();
  std::vector<Access> out;
  find_twin(Parameters::kName).accesses({}, arguments.data(), out);
  return out;
}

Words numbers(std::size_t count) {
  Words words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = workload::mix(i);
  return words;
}

std::uint64_t fold(const Words& words) {
  std::uint64_t value = 0;
  for (const std::uint64_t word : words) value ^= word;
  return value;
}

TEST(Calibration, ReadWriteAndCopy) {
  Words source = numbers(64), destination(64), sink(1, 3);
  run(StreamRead{.source = address(source), .vectors = 32, .sink = address(sink)});
  EXPECT_EQ(sink[0], 3 ^ fold(source));
  run(StreamWrite{.destination = address(destination), .vectors = 31, .value = 1000});
  EXPECT_EQ(destination[2 * 30], 1000U ^ 30U);
  EXPECT_EQ(destination[2 * 30 + 1], 1030U);
  EXPECT_EQ(destination[2 * 31], 0U);
  run(StreamCopy{.destination = address(destination), .source = address(source), .vectors = 32});
  EXPECT_EQ(destination, source);
}

TEST(Calibration, GatherReadsTheRowsItDeclares) {
  const Words source = numbers(2 * 8 * 100);
  Words sink(1);
  const Gather gather{
      .source = address(source), .rows = 100, .vectors_per_row = 8, .reads = 5, .seed = 7, .sink = address(sink)};
  run(gather);
  std::uint64_t expected = 0;
  std::size_t rows = 0;
  for (const Access& access : touched(gather)) {
    if (access.writes) continue;
    ++rows;
    EXPECT_EQ(access.bytes, 8U * 16);
    ASSERT_EQ((access.address - address(source)) % (8 * 16), 0U);
    for (std::size_t i = 0; i < 16; ++i) expected ^= source[(access.address - address(source)) / 8 + i];
  }
  EXPECT_EQ(rows, 5U);
  EXPECT_EQ(sink[0], expected);
}

TEST(Calibration, TiledRereadCountsItsPasses) {
  const Words source = numbers(128);
  for (const std::uint64_t passes : {1U, 2U, 3U}) {
    Words sink(1);
    const TiledReread reread{
        .source = address(source), .vectors = 64, .vectors_per_tile = 10, .passes = passes, .sink = address(sink)};
    run(reread);
    EXPECT_EQ(sink[0], passes % 2 == 1 ? fold(source) : 0U);
    EXPECT_FLOAT_EQ(touched(reread)[0].passes, static_cast<float>(passes));
  }
}

TEST(PageChecksums, OneChangedBitChangesItsPageOnly) {
  Words source = numbers(2 * 700);  // pages of 256 vectors: two whole, one short
  const auto sums = [&source] {
    Words out(4, 77);
    run(PageChecksums{.source = address(source), .vectors = 700, .vectors_per_page = 256, .checksums = address(out)});
    return out;
  };
  const Words before = sums();
  source[2 * 300 + 1] ^= 1U << 20;
  const Words after = sums();
  EXPECT_EQ(before[0], after[0]);
  EXPECT_NE(before[1], after[1]);
  EXPECT_EQ(before[2], after[2]);
  EXPECT_EQ(after[3], 77U);  // no fourth page
  std::swap(source[0], source[2]);
  EXPECT_NE(sums()[0], before[0]);  // the order counts
}

}  // namespace
}  // namespace spillway::kernels
