// The twins of the decoding kernels: pages in any order give what a plain cache gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/arithmetic.hpp"
#include "tests/kernels/launch.hpp"

namespace spillway::kernels {
namespace {

using workload::KvShape;

constexpr const char* kPrompt = "_ZN8workload9kv_promptEPfPKiNS_7KvShapeEim";
constexpr const char* kAppend = "_ZN8workload9kv_appendEPfPKiNS_7KvShapeES2_S2_PKfS5_";
constexpr const char* kAttention = "_ZN8workload15paged_attentionEPfPKfS2_PKiNS_7KvShapeES4_S4_";

// Two requests whose pages are mixed up; 10 tokens of prompt each, pages of 4.
class PagedCache : public testing::Test {
 protected:
  PagedCache() {
    for (int request = 0; request < 2; ++request) {
      launch(kPrompt, {10}, pool_.data(), table(), shape_, request, std::uint64_t{9});
    }
  }
  const int* table() const { return table_.data(); }
  const KvShape shape_{.heads = 2, .head_size = 6, .page_tokens = 4, .pages_per_request = 3};
  const std::vector<int> table_{5, 0, 3, 1, 4, 2};
  std::vector<float> pool_ = std::vector<float>(6 * workload::kv_page_elements(shape_), std::nanf(""));
};

TEST_F(PagedCache, PromptAndAppendedTokensLandInTheirPages) {
  const std::vector<int> requests{1}, positions{10};
  std::vector<float> key(12), value(12);
  std::iota(key.begin(), key.end(), 100.0F);
  std::iota(value.begin(), value.end(), 200.0F);
  launch(kAppend, {1}, pool_.data(), table(), shape_, requests.data(), positions.data(),
         static_cast<const float*>(key.data()), static_cast<const float*>(value.data()));
  // Position 10 of request 1 is token 2 of its third page, page 2 of the pool; keys first, then values.
  const std::size_t page = 2 * workload::kv_page_elements(shape_);
  EXPECT_EQ(pool_[page + 2 * 12], 100.0F);
  EXPECT_EQ(pool_[page + 4 * 12 + 2 * 12 + 11], 211.0F);
  // Position 5 of request 0 is token 1 of its second page, page 0.
  EXPECT_EQ(pool_[12 + 3], workload::prompt_element(9, 0, 5, 0, 12, 3));
}

TEST_F(PagedCache, AttentionIsTheSoftmaxWeightedSum) {
  const std::vector<int> requests{1, 0}, positions{9, 6};
  std::vector<float> queries(24), out(24, 7.0F);
  for (std::size_t i = 0; i < queries.size(); ++i) queries[i] = workload::uniform(4, i, 3.0F);
  launch(kAttention, {2, 2}, out.data(), static_cast<const float*>(queries.data()),
         static_cast<const float*>(pool_.data()), table(), shape_, requests.data(), positions.data());
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t head = 0; head < 2; ++head) {
      std::vector<double> sums(6);
      double whole = 0;
      for (int token = 0; token <= positions[row]; ++token) {
        const auto element = [&](int part, std::size_t i) {
          return static_cast<double>(workload::prompt_element(9, requests[row], token, part, 12, head * 6 + i));
        };
        double score = 0;
        for (std::size_t i = 0; i < 6; ++i)
          score += static_cast<double>(queries[row * 12 + head * 6 + i]) * element(0, i);
        const double weight = std::exp(score / std::sqrt(6.0));
        whole += weight;
        for (std::size_t i = 0; i < 6; ++i) sums[i] += weight * element(1, i);
      }
      for (std::size_t i = 0; i < 6; ++i) {
        EXPECT_NEAR(static_cast<double>(out[row * 12 + head * 6 + i]), sums[i] / whole, 1e-6)
            << row << " " << head << " " << i;
      }
    }
  }
}

TEST_F(PagedCache, AttentionTouchesThePagesOfItsRequestsOnly) {
  const std::vector<int> requests{0}, positions{6};  // 7 tokens: pages 5 and 0 of the pool
  const std::vector<float> queries(12);
  std::vector<float> out(12);
  const auto touched =
      accesses(kAttention, {1, 2}, out.data(), static_cast<const float*>(queries.data()),
               static_cast<const float*>(pool_.data()), table(), shape_, requests.data(), positions.data());
  const std::size_t page_bytes = workload::kv_page_elements(shape_) * sizeof(float);
  std::vector<std::size_t> pages;
  for (const Access& access : touched) {
    const auto begin = reinterpret_cast<std::uintptr_t>(pool_.data());
    if (access.address < begin || access.address >= begin + 6 * page_bytes) continue;
    EXPECT_EQ(access.bytes, page_bytes);
    EXPECT_FALSE(access.writes);
    pages.push_back((access.address - begin) / page_bytes);
  }
  EXPECT_EQ(pages, (std::vector<std::size_t>{5, 0}));
}

TEST(Rows, EmbeddingNormalizeAddAndArgmax) {
  const std::vector<float> table{1, 2, 3, 4, 5, 6};
  const std::vector<int> tokens{2, 0};
  std::vector<float> x(4), y(4);
  launch("_ZN8workload16embedding_gatherEPKfPKiPfi", {2}, table.data(), tokens.data(), x.data(), 2);
  EXPECT_EQ(x, (std::vector<float>{5, 6, 1, 2}));
  launch("_ZN8workload13rms_normalizeEPKfPfi", {2}, static_cast<const float*>(x.data()), y.data(), 2);
  EXPECT_NEAR(static_cast<double>(y[0]), 5 / std::sqrt(30.5), 1e-6);
  EXPECT_NEAR(static_cast<double>(y[3]), 2 / std::sqrt(2.5), 1e-6);
  launch("_ZN8workload12add_in_placeEPfPKfm", {1}, x.data(), static_cast<const float*>(x.data()), std::size_t{4});
  EXPECT_EQ(x, (std::vector<float>{10, 12, 2, 4}));
  const std::vector<float> logits{1, 7, 7, 0, -3, -2, -5, -2};
  std::vector<int> best_token(2);
  std::vector<float> best(2);
  launch("_ZN8workload11argmax_rowsEPKfPiPfi", {2}, logits.data(), best_token.data(), best.data(), 4);
  EXPECT_EQ(best_token, (std::vector<int>{1, 1}));  // the lowest of equals
  EXPECT_EQ(best, (std::vector<float>{7, -2}));
}

}  // namespace
}  // namespace spillway::kernels
