// The twins of the perceptron's kernels against the plainest loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/arithmetic.hpp"
#include "tests/kernels/launch.hpp"

namespace spillway::kernels {
namespace {

using workload::AdamScalars;

constexpr const char* kGemmNn = "_ZN8workload7gemm_nnEPKfS1_Pfiii";
constexpr const char* kGemmNt = "_ZN8workload7gemm_ntEPKfS1_Pfiii";
constexpr const char* kGemmTn = "_ZN8workload7gemm_tnEPKfS1_Pfiii";
constexpr const char* kAdam = "_ZN8workload9adam_stepEPfPKfS0_S0_mNS_11AdamScalarsE";

std::vector<float> values(std::size_t count, std::uint64_t seed) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = workload::uniform(seed, i, 1.0F);
  return out;
}

std::size_t at(int row, int columns, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column);
}

struct Size {
  int m, n, k;
};

class Product : public testing::TestWithParam<Size> {
 protected:
  using Element = std::function<float(int, int)>;
  void compare(const char* name, const Element& a_at, const Element& b_at) {
    const auto [m, n, k] = GetParam();
    std::vector<float> c(at(m, n, 0), 7.0F);  // what was there before must not matter
    launch(name, {}, static_cast<const float*>(a_.data()), static_cast<const float*>(b_.data()), c.data(), m, n, k);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int depth = 0; depth < k; ++depth) {
          const double product = static_cast<double>(a_at(i, depth)) * static_cast<double>(b_at(depth, j));
          sum += product;
          size += std::fabs(product);
        }
        ASSERT_NEAR(static_cast<double>(c[at(i, n, j)]), sum, 1e-6 * size + 1e-12) << name << " " << i << "," << j;
      }
    }
  }
  std::vector<float> a_ = values(at(GetParam().m, GetParam().k, 0), 1),
                     b_ = values(at(GetParam().k, GetParam().n, 0), 2);
};

TEST_P(Product, Plain) {
  const auto [m, n, k] = GetParam();
  compare(
      kGemmNn, [&, k = k](int i, int d) { return a_[at(i, k, d)]; },
      [&, n = n](int d, int j) { return b_[at(d, n, j)]; });
}
TEST_P(Product, SecondTransposed) {
  const auto [m, n, k] = GetParam();
  compare(
      kGemmNt, [&, k = k](int i, int d) { return a_[at(i, k, d)]; },
      [&, k = k](int d, int j) { return b_[at(j, k, d)]; });
}
TEST_P(Product, FirstTransposed) {
  const auto [m, n, k] = GetParam();
  compare(
      kGemmTn, [&, m = m](int i, int d) { return a_[at(d, m, i)]; },
      [&, n = n](int d, int j) { return b_[at(d, n, j)]; });
}

// Sizes around the loops' blocks of 4, 16 and 512, and none of them a multiple.
INSTANTIATE_TEST_SUITE_P(Sizes, Product,
                         testing::Values(Size{1, 1, 1}, Size{3, 5, 7}, Size{16, 16, 16}, Size{17, 513, 33},
                                         Size{64, 600, 19}, Size{5, 3, 130}));

TEST(Product, DeclaresWhatItTouches) {
  const float a = 0, b = 0;
  float c = 0;
  const auto touched = accesses(kGemmNn, {}, &a, &b, &c, 128, 100, 50);
  ASSERT_EQ(touched.size(), 3U);
  EXPECT_EQ(touched[0].bytes, 128U * 50 * 4);
  EXPECT_FLOAT_EQ(touched[0].passes, 2.0F);  // two tiles of 64 columns
  EXPECT_EQ(touched[1].bytes, 50U * 100 * 4);
  EXPECT_FLOAT_EQ(touched[1].passes, 2.0F);  // two tiles of 64 rows
  EXPECT_EQ(touched[2].address, reinterpret_cast<std::uintptr_t>(&c));
  EXPECT_EQ(touched[2].bytes, 128U * 100 * 4);
  EXPECT_TRUE(touched[2].writes);
  EXPECT_FALSE(touched[0].writes || touched[1].writes);
}

TEST(Adam, FollowsTheFormulaForSeveralSteps) {
  constexpr std::size_t kCount = 1001;
  std::vector<float> weight = values(kCount, 3), m(kCount), v(kCount);
  std::vector<double> w64(weight.begin(), weight.end()), m64(kCount), v64(kCount);
  for (unsigned step = 1; step <= 5; ++step) {
    const std::vector<float> gradient = values(kCount, 10 + step);
    const AdamScalars scalars = workload::adam_scalars(1e-2F, step);
    launch(kAdam, {}, weight.data(), static_cast<const float*>(gradient.data()), m.data(), v.data(), kCount, scalars);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double g = static_cast<double>(gradient[i]);
      m64[i] = 0.9 * m64[i] + 0.1 * g;
      v64[i] = 0.999 * v64[i] + 0.001 * g * g;
      w64[i] -= 0.01 * (m64[i] / (1 - std::pow(0.9, step))) / (std::sqrt(v64[i] / (1 - std::pow(0.999, step))) + 1e-8);
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(static_cast<double>(weight[i]), w64[i], 2e-6) << i;
    ASSERT_NEAR(static_cast<double>(m[i]), m64[i], 1e-6) << i;
    ASSERT_NEAR(static_cast<double>(v[i]), v64[i], 1e-6) << i;
  }
}

TEST(Adam, ParametersLieWhereTheAbiPutsThem) {
  const HostTwin& twin = find_twin(kAdam);
  const std::vector<std::size_t> sizes(twin.parameter_sizes.begin(), twin.parameter_sizes.end());
  const std::vector<std::size_t> offsets(twin.parameter_offsets.begin(), twin.parameter_offsets.end());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{8, 8, 8, 8, 8, 24}));
  EXPECT_EQ(offsets, (std::vector<std::size_t>{0, 8, 16, 24, 32, 40}));
  // An eight-byte parameter after a four-byte one is aligned.
  const HostTwin& prompt = find_twin("_ZN8workload9kv_promptEPfPKiNS_7KvShapeEim");
  EXPECT_EQ(prompt.parameter_offsets[3], 32U);
  EXPECT_EQ(prompt.parameter_offsets[4], 40U);
}

TEST(Elementwise, BiasReluLossAndGradients) {
  const int rows = 3, columns = 4;
  std::vector<float> y{1, -2, 3, -4, 0, 0, 0, 0, -1, -1, -1, -1};
  const std::vector<float> bias{0.5F, 1, -5, 5};
  std::vector<float> linear = y;
  launch("_ZN8workload9bias_reluEPfPKfiii", {}, linear.data(), bias.data(), rows, columns, 0);
  launch("_ZN8workload9bias_reluEPfPKfiii", {}, y.data(), bias.data(), rows, columns, 1);
  EXPECT_EQ(linear, (std::vector<float>{1.5F, -1, -2, 1, 0.5F, 1, -5, 5, -0.5F, 0, -6, 4}));
  EXPECT_EQ(y, (std::vector<float>{1.5F, 0, 0, 1, 0.5F, 1, 0, 5, 0, 0, 0, 4}));

  const std::vector<float> target(12, 1.0F);
  std::vector<float> gradient(12), sums(3);
  launch("_ZN8workload13squared_errorEPKfS1_PfS2_ii", {3}, y.data(), target.data(), gradient.data(), sums.data(), rows,
         columns);
  EXPECT_EQ(sums, (std::vector<float>{2.25F, 17.25F, 12}));
  EXPECT_FLOAT_EQ(gradient[0], 0.5F * 2 / 12);

  launch("_ZN8workload13relu_gradientEPfPKfm", {}, gradient.data(), y.data(), std::size_t{12});
  EXPECT_EQ(gradient[1], 0.0F);
  EXPECT_FLOAT_EQ(gradient[11], 3.0F * 2 / 12);

  std::vector<float> bias_gradient(4, 9.0F);
  launch("_ZN8workload13bias_gradientEPKfPfii", {}, gradient.data(), bias_gradient.data(), rows, columns);
  EXPECT_FLOAT_EQ(bias_gradient[3], gradient[3] + gradient[7] + gradient[11]);
}

TEST(Checksum, ChangesWithEveryBitAndAddsUp) {
  std::vector<unsigned> words(1000, 0);
  unsigned long long before = 5, after = 5, swapped = 5;
  const auto sum = [&](unsigned long long* out) {
    launch("_ZN8workload8checksumEPKjmPy", {}, static_cast<const unsigned*>(words.data()), words.size(), out);
  };
  sum(&before);
  words[500] = 1;
  sum(&after);
  std::swap(words[500], words[501]);
  sum(&swapped);
  EXPECT_NE(before, after);
  EXPECT_NE(after, swapped);
}

}  // namespace
}  // namespace spillway::kernels
