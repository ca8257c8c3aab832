// Host twins of kernels/mlp.cuh. Loops are laid out for the vectoriser and the caches: the demo runs on these.
#include <algorithm>
#include <cstring>

#include "kernels/arithmetic.hpp"
#include "kernels/twins/twin.hpp"

namespace spillway::kernels {
namespace {

using workload::AdamScalars;

constexpr int kTile = 64;          // of the CUDA kernel: how often a block row or column reads an operand again
constexpr int kColumnBlock = 512;  // columns of a product kept in the first-level cache

std::size_t area(int rows, int columns) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }
float tiles(int extent) { return static_cast<float>((extent + kTile - 1) / kTile); }

// c[0..width) += sum over r of factor[r] * row_r, four rows at a time: one load and store of c for four products.
void add_scaled_rows(float* c, const float* rows, std::size_t row_stride, const float* factors, int count, int width) {
  int r = 0;
  for (; r + 4 <= count; r += 4) {
    const float* row0 = rows + static_cast<std::size_t>(r) * row_stride;
    const float *row1 = row0 + row_stride, *row2 = row1 + row_stride, *row3 = row2 + row_stride;
    const float f0 = factors[r], f1 = factors[r + 1], f2 = factors[r + 2], f3 = factors[r + 3];
#pragma omp simd
    for (int j = 0; j < width; ++j) c[j] += f0 * row0[j] + f1 * row1[j] + f2 * row2[j] + f3 * row3[j];
  }
  for (; r < count; ++r) {
    const float* row = rows + static_cast<std::size_t>(r) * row_stride;
    const float factor = factors[r];
#pragma omp simd
    for (int j = 0; j < width; ++j) c[j] += factor * row[j];
  }
}

void run_gemm_nn(const LaunchGeometry&, const float* a, const float* b, float* c, int m, int n, int k) {
  constexpr int kDepth = 16;  // rows of b that stay in the cache while all rows of c use them
  std::memset(c, 0, area(m, n) * sizeof(float));
  for (int j0 = 0; j0 < n; j0 += kColumnBlock) {
    const int width = std::min(kColumnBlock, n - j0);
    for (int k0 = 0; k0 < k; k0 += kDepth) {
      const int depth = std::min(kDepth, k - k0);
      for (int i = 0; i < m; ++i) {
        add_scaled_rows(c + area(i, n) + j0, b + area(k0, n) + j0, static_cast<std::size_t>(n), a + area(i, k) + k0,
                        depth, width);
      }
    }
  }
}

void run_gemm_nt(const LaunchGeometry&, const float* a, const float* b, float* c, int m, int n, int k) {
  for (int j = 0; j < n; ++j) {
    const float* b_row = b + area(j, k);
    for (int i = 0; i < m; ++i) {
      const float* a_row = a + area(i, k);
      float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
      for (int at = 0; at < k; ++at) sum += a_row[at] * b_row[at];
      c[area(i, n) + static_cast<std::size_t>(j)] = sum;
    }
  }
}

void run_gemm_tn(const LaunchGeometry&, const float* a, const float* b, float* c, int m, int n, int k) {
  std::vector<float> column(static_cast<std::size_t>(k));
  for (int i = 0; i < m; ++i) {
    for (int at = 0; at < k; ++at) column[static_cast<std::size_t>(at)] = a[area(at, m) + static_cast<std::size_t>(i)];
    for (int j0 = 0; j0 < n; j0 += kColumnBlock) {
      const int width = std::min(kColumnBlock, n - j0);
      float* row = c + area(i, n) + j0;
      std::memset(row, 0, static_cast<std::size_t>(width) * sizeof(float));
      add_scaled_rows(row, b + j0, static_cast<std::size_t>(n), column.data(), k, width);
    }
  }
}

void touch_gemm(Touched& touched, const float* a, const float* b, float* c, int m, int n, int k) {
  touched.reads(a, area(m, k), tiles(n));
  touched.reads(b, area(k, n), tiles(m));
  touched.writes(c, area(m, n));
}

void run_fill_uniform(const LaunchGeometry&, float* out, std::size_t count, std::uint64_t seed, float scale) {
  for (std::size_t i = 0; i < count; ++i) out[i] = workload::uniform(seed, i, scale);
}
void touch_fill_uniform(Touched& touched, float* out, std::size_t count, std::uint64_t, float) {
  touched.writes(out, count);
}

void run_bias_relu(const LaunchGeometry&, float* y, const float* bias, int rows, int columns, int rectify) {
  for (int row = 0; row < rows; ++row) {
    float* out = y + area(row, columns);
    for (int j = 0; j < columns; ++j) {
      const float sum = out[j] + bias[j];
      out[j] = rectify != 0 ? workload::relu(sum) : sum;
    }
  }
}
void touch_bias_relu(Touched& touched, float* y, const float* bias, int rows, int columns, int) {
  touched.writes(y, area(rows, columns));
  touched.reads(bias, static_cast<std::size_t>(columns));
}

void run_relu_gradient(const LaunchGeometry&, float* gradient, const float* output, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) gradient[i] = output[i] <= 0.0F ? 0.0F : gradient[i];
}
void touch_relu_gradient(Touched& touched, float* gradient, const float* output, std::size_t count) {
  touched.writes(gradient, count);
  touched.reads(output, count);
}

void run_bias_gradient(const LaunchGeometry&, const float* gradient, float* out, int rows, int columns) {
  std::fill(out, out + columns, 0.0F);
  for (int row = 0; row < rows; ++row) {
    const float* source = gradient + area(row, columns);
    for (int j = 0; j < columns; ++j) out[j] += source[j];
  }
}
void touch_bias_gradient(Touched& touched, const float* gradient, float* out, int rows, int columns) {
  touched.reads(gradient, area(rows, columns));
  touched.writes(out, static_cast<std::size_t>(columns));
}

void run_squared_error(const LaunchGeometry&, const float* y, const float* target, float* gradient, float* row_sums,
                       int rows, int columns) {
  const float scale = 2.0F / (static_cast<float>(rows) * static_cast<float>(columns));
  for (int row = 0; row < rows; ++row) {
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int j = 0; j < columns; ++j) {
      const std::size_t at = area(row, columns) + static_cast<std::size_t>(j);
      const float difference = y[at] - target[at];
      gradient[at] = scale * difference;
      sum += difference * difference;
    }
    row_sums[row] = sum;
  }
}
void touch_squared_error(Touched& touched, const float* y, const float* target, float* gradient, float* row_sums,
                         int rows, int columns) {
  touched.reads(y, area(rows, columns));
  touched.reads(target, area(rows, columns));
  touched.writes(gradient, area(rows, columns));
  touched.writes(row_sums, static_cast<std::size_t>(rows));
}

void run_adam_step(const LaunchGeometry&, float* weight, const float* gradient, float* m, float* v, std::size_t count,
                   AdamScalars scalars) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) workload::adam_element(weight[i], gradient[i], m[i], v[i], scalars);
}
void touch_adam_step(Touched& touched, float* weight, const float* gradient, float* m, float* v, std::size_t count,
                     AdamScalars) {
  touched.writes(weight, count);
  touched.reads(gradient, count);
  touched.writes(m, count);
  touched.writes(v, count);
}

void run_checksum(const LaunchGeometry&, const unsigned* words, std::size_t count, unsigned long long* out) {
  unsigned long long sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += workload::mix(workload::mix(i) ^ words[i]);
  *out += sum;
}
void touch_checksum(Touched& touched, const unsigned* words, std::size_t count, unsigned long long* out) {
  touched.reads(words, count);
  touched.writes(out, 1);
}

}  // namespace

std::vector<HostTwin> mlp_twins() {
  constexpr double kProduct = 2.0 * 16 * 2048;  // 4 x 4 sums a thread, at a depth of 2,048
  return {
      make_twin<&run_gemm_nn, &touch_gemm>("_ZN8workload7gemm_nnEPKfS1_Pfiii", kProduct),
      make_twin<&run_gemm_nt, &touch_gemm>("_ZN8workload7gemm_ntEPKfS1_Pfiii", kProduct),
      make_twin<&run_gemm_tn, &touch_gemm>("_ZN8workload7gemm_tnEPKfS1_Pfiii", kProduct),
      make_twin<&run_fill_uniform, &touch_fill_uniform>("_ZN8workload12fill_uniformEPfmmf", 8),
      make_twin<&run_bias_relu, &touch_bias_relu>("_ZN8workload9bias_reluEPfPKfiii", 2),
      make_twin<&run_relu_gradient, &touch_relu_gradient>("_ZN8workload13relu_gradientEPfPKfm", 1),
      make_twin<&run_bias_gradient, &touch_bias_gradient>("_ZN8workload13bias_gradientEPKfPfii", 32),
      make_twin<&run_squared_error, &touch_squared_error>("_ZN8workload13squared_errorEPKfS1_PfS2_ii", 16),
      make_twin<&run_adam_step, &touch_adam_step>("_ZN8workload9adam_stepEPfPKfS0_S0_mNS_11AdamScalarsE", 14),
      make_twin<&run_checksum, &touch_checksum>("_ZN8workload8checksumEPKjmPy", 8),
  };
}

}  // namespace spillway::kernels
