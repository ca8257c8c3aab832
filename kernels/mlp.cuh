// A multi-layer perceptron's kernels: products, bias and ReLU, loss, Adam. Row-major tensors, no atomics on floats: the
// same inputs give the same bits on every run of one device. Every kernel has a host twin of its name in
// kernels/twins/.
#pragma once

#include "kernels/arithmetic.hpp"

namespace workload {

inline constexpr unsigned kBlock = 256;  // threads of every kernel here
inline constexpr int kTile = 64;         // a block makes a 64 x 64 tile of a product, 4 x 4 a thread
inline constexpr int kTileDepth = 16;

inline unsigned blocks_for(std::size_t elements) {
  const std::size_t blocks = (elements + kBlock - 1) / kBlock;
  return static_cast<unsigned>(blocks < 65536 ? blocks : 65536);  // kernels loop over the rest
}

inline dim3 product_grid(int rows, int columns) {
  return {static_cast<unsigned>((columns + kTile - 1) / kTile), static_cast<unsigned>((rows + kTile - 1) / kTile), 1};
}

__device__ inline std::size_t first_element() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::size_t element_stride() { return std::size_t{gridDim.x} * blockDim.x; }

enum class Operand { plain, transposed };

// C[m,n] = op(A) op(B), op(A) being m x k and op(B) k x n.
template <Operand kA, Operand kB>
__device__ inline void product_tile(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[kTileDepth][kTile + 4];
  __shared__ float tile_b[kTileDepth][kTile + 4];
  const int thread = static_cast<int>(threadIdx.x);
  const int row0 = static_cast<int>(blockIdx.y) * kTile;
  const int column0 = static_cast<int>(blockIdx.x) * kTile;
  const int thread_row = (thread / 16) * 4;
  const int thread_column = (thread % 16) * 4;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += kTileDepth) {
    for (int slot = thread; slot < kTile * kTileDepth; slot += static_cast<int>(kBlock)) {
      // Neighbouring threads read neighbouring addresses, whichever way the operand lies.
      const int a_row = kA == Operand::plain ? slot / kTileDepth : slot % kTile;
      const int a_depth = kA == Operand::plain ? slot % kTileDepth : slot / kTile;
      const int b_column = kB == Operand::plain ? slot % kTile : slot / kTileDepth;
      const int b_depth = kB == Operand::plain ? slot / kTile : slot % kTileDepth;
      const int i = row0 + a_row, j = column0 + b_column, ka = k0 + a_depth, kb = k0 + b_depth;
      const bool a_inside = i < m && ka < k, b_inside = j < n && kb < k;
      const std::size_t a_at = kA == Operand::plain ? std::size_t(i) * k + ka : std::size_t(ka) * m + i;
      const std::size_t b_at = kB == Operand::plain ? std::size_t(kb) * n + j : std::size_t(j) * k + kb;
      tile_a[a_depth][a_row] = a_inside ? a[a_at] : 0.0F;
      tile_b[b_depth][b_column] = b_inside ? b[b_at] : 0.0F;
    }
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < kTileDepth; ++depth) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += tile_a[depth][thread_row + i] * tile_b[depth][thread_column + j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = row0 + thread_row + i, column = column0 + thread_column + j;
      if (row < m && column < n) c[std::size_t(row) * n + column] = sum[i][j];
    }
  }
}

// Forward: C[m,n] = A[m,k] B[k,n].
__global__ void gemm_nn(const float* a, const float* b, float* c, int m, int n, int k) {
  product_tile<Operand::plain, Operand::plain>(a, b, c, m, n, k);
}

// Gradient of the inputs: C[m,n] = A[m,k] B[n,k]^T.
__global__ void gemm_nt(const float* a, const float* b, float* c, int m, int n, int k) {
  product_tile<Operand::plain, Operand::transposed>(a, b, c, m, n, k);
}

// Gradient of the weights: C[m,n] = A[k,m]^T B[k,n].
__global__ void gemm_tn(const float* a, const float* b, float* c, int m, int n, int k) {
  product_tile<Operand::transposed, Operand::plain>(a, b, c, m, n, k);
}

__global__ void fill_uniform(float* out, std::size_t count, std::uint64_t seed, float scale) {
  for (std::size_t i = first_element(); i < count; i += element_stride()) out[i] = uniform(seed, i, scale);
}

// y += bias, then ReLU if `rectify` is not 0 (the last layer stays linear).
__global__ void bias_relu(float* y, const float* bias, int rows, int columns, int rectify) {
  const std::size_t count = std::size_t(rows) * columns;
  for (std::size_t i = first_element(); i < count; i += element_stride()) {
    const float sum = y[i] + bias[i % std::size_t(columns)];
    y[i] = rectify != 0 ? relu(sum) : sum;
  }
}

// gradient = 0 where the layer's output is 0.
__global__ void relu_gradient(float* gradient, const float* output, std::size_t count) {
  for (std::size_t i = first_element(); i < count; i += element_stride()) {
    if (output[i] <= 0.0F) gradient[i] = 0.0F;
  }
}

// One thread a column, in row order.
__global__ void bias_gradient(const float* gradient, float* out, int rows, int columns) {
  for (std::size_t column = first_element(); column < std::size_t(columns); column += element_stride()) {
    float sum = 0.0F;
    for (int row = 0; row < rows; ++row) sum += gradient[std::size_t(row) * columns + column];
    out[column] = sum;
  }
}

// Mean squared error over all elements: gradient of y, and each row's sum of squares (a block a row, fixed order).
__global__ void squared_error(const float* y, const float* target, float* gradient, float* row_sums, int rows,
                              int columns) {
  __shared__ float partial[kBlock];
  const std::size_t row = blockIdx.x;
  const float scale = 2.0F / (static_cast<float>(rows) * static_cast<float>(columns));
  float sum = 0.0F;
  for (int column = static_cast<int>(threadIdx.x); column < columns; column += static_cast<int>(kBlock)) {
    const std::size_t at = row * columns + column;
    const float difference = y[at] - target[at];
    gradient[at] = scale * difference;
    sum += difference * difference;
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kBlock / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) row_sums[row] = partial[0];
}

__global__ void adam_step(float* weight, const float* gradient, float* m, float* v, std::size_t count,
                          AdamScalars scalars) {
  for (std::size_t i = first_element(); i < count; i += element_stride()) {
    adam_element(weight[i], gradient[i], m[i], v[i], scalars);
  }
}

// Adds a sum of mixed words to *out: integers, so that the order does not matter and one lost byte shows.
__global__ void checksum(const unsigned* words, std::size_t count, unsigned long long* out) {
  unsigned long long sum = 0;
  for (std::size_t i = first_element(); i < count; i += element_stride()) sum += mix(mix(i) ^ words[i]);
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xFFFFFFFFU, sum, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

}  // namespace workload
