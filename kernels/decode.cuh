// Kernels of batched decoding over a paged key-value cache. Request numbers index the page table; `requests` says which
// request each row of the batch belongs to. No atomics: the same inputs give the same bits. Host twins in
// kernels/twins/.
#pragma once

#include "kernels/arithmetic.hpp"

namespace workload {

inline constexpr int kWarps = 8;              // of paged_attention and the row kernels
inline constexpr int kMaximumHeadSize = 128;  // 4 elements a lane

// out[row] = table[tokens[row]]; a block a row.
__global__ void embedding_gather(const float* table, const int* tokens, float* out, int width) {
  const float* source = table + std::size_t(tokens[blockIdx.x]) * width;
  float* destination = out + std::size_t(blockIdx.x) * width;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += static_cast<int>(blockDim.x)) destination[i] = source[i];
}

// y = x / sqrt(mean(x^2) + 1e-6), a block of kWarps warps a row.
__global__ void rms_normalize(const float* x, float* y, int width) {
  __shared__ float partial[kWarps * 32];
  const float* source = x + std::size_t(blockIdx.x) * width;
  float sum = 0.0F;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kWarps * 32) sum += source[i] * source[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kWarps * 16; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  const float scale = 1.0F / sqrtf(partial[0] / static_cast<float>(width) + 1e-6F);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kWarps * 32) {
    y[std::size_t(blockIdx.x) * width + i] = source[i] * scale;
  }
}

// x += y.
__global__ void add_in_place(float* x, const float* y, std::size_t count) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    x[i] += y[i];
  }
}

// Writes the prompt's keys and values of one request: a block a token.
__global__ void kv_prompt(float* pool, const int* page_table, KvShape shape, int request, std::uint64_t seed) {
  const int position = static_cast<int>(blockIdx.x);
  const std::size_t width = kv_width(shape);
  for (int part = 0; part < 2; ++part) {
    float* row = pool + kv_row(shape, page_table, request, position, part);
    for (std::size_t i = threadIdx.x; i < width; i += blockDim.x) {
      row[i] = prompt_element(seed, request, position, part, width, i);
    }
  }
}

// Writes the newest token's key and value of every row of the batch at its position: a block a row.
__global__ void kv_append(float* pool, const int* page_table, KvShape shape, const int* requests, const int* positions,
                          const float* keys, const float* values) {
  const int request = requests[blockIdx.x];
  const int position = positions[blockIdx.x];
  const std::size_t width = kv_width(shape);
  float* key = pool + kv_row(shape, page_table, request, position, 0);
  float* value = pool + kv_row(shape, page_table, request, position, 1);
  for (std::size_t i = threadIdx.x; i < width; i += blockDim.x) {
    key[i] = keys[std::size_t(blockIdx.x) * width + i];
    value[i] = values[std::size_t(blockIdx.x) * width + i];
  }
}

// One query token against all tokens up to its position. Block (row, head); each warp takes every kWarps-th token with
// a running maximum and sum (so that any context fits), lanes share the head's elements; the warps are merged in order.
__global__ void paged_attention(float* out, const float* queries, const float* pool, const int* page_table,
                                KvShape shape, const int* requests, const int* positions) {
  __shared__ float warp_maximum[kWarps], warp_sum[kWarps], warp_value[kWarps][kMaximumHeadSize];
  const int row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::size_t head_at = std::size_t(head) * shape.head_size;
  const float* query = queries + std::size_t(row) * kv_width(shape) + head_at;
  const float scale = 1.0F / sqrtf(static_cast<float>(shape.head_size));
  float maximum = -INFINITY, sum = 0.0F, value[4] = {};
  for (int token = warp; token <= positions[row]; token += kWarps) {
    const float* key = pool + kv_row(shape, page_table, requests[row], token, 0) + head_at;
    const float* token_value = pool + kv_row(shape, page_table, requests[row], token, 1) + head_at;
    float score = 0.0F;
    for (int i = lane; i < shape.head_size; i += 32) score += query[i] * key[i];
    for (int mask = 16; mask > 0; mask /= 2) score += __shfl_xor_sync(0xFFFFFFFFU, score, mask);
    score *= scale;
    const float larger = fmaxf(maximum, score);
    const float keep = expf(maximum - larger), weight = expf(score - larger);
    sum = sum * keep + weight;
    for (int i = lane, slot = 0; i < shape.head_size; i += 32, ++slot) {
      value[slot] = value[slot] * keep + weight * token_value[i];
    }
    maximum = larger;
  }
  if (lane == 0) warp_maximum[warp] = maximum, warp_sum[warp] = sum;
  for (int i = lane, slot = 0; i < shape.head_size; i += 32, ++slot) warp_value[warp][i] = value[slot];
  __syncthreads();
  float whole_maximum = warp_maximum[0];
  for (int w = 1; w < kWarps; ++w) whole_maximum = fmaxf(whole_maximum, warp_maximum[w]);
  float whole_sum = 0.0F;
  for (int w = 0; w < kWarps; ++w) whole_sum += warp_sum[w] * expf(warp_maximum[w] - whole_maximum);
  for (int i = static_cast<int>(threadIdx.x); i < shape.head_size; i += kWarps * 32) {
    float total = 0.0F;
    for (int w = 0; w < kWarps; ++w) total += warp_value[w][i] * expf(warp_maximum[w] - whole_maximum);
    out[std::size_t(row) * kv_width(shape) + head_at + i] = total / whole_sum;
  }
}

// The index of each row's largest element, the lowest of equals: a block of kWarps warps a row.
__global__ void argmax_rows(const float* logits, int* tokens, float* best, int width) {
  __shared__ float partial[kWarps * 32];
  __shared__ int partial_index[kWarps * 32];
  float largest = -INFINITY;
  int index = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kWarps * 32) {
    const float value = logits[std::size_t(blockIdx.x) * width + i];
    if (value > largest) largest = value, index = i;
  }
  partial[threadIdx.x] = largest;
  partial_index[threadIdx.x] = index;
  __syncthreads();
  for (unsigned half = kWarps * 16; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const unsigned other = threadIdx.x + half;
      const bool better = partial[other] > partial[threadIdx.x] ||
                          (partial[other] == partial[threadIdx.x] && partial_index[other] < partial_index[threadIdx.x]);
      if (better) partial[threadIdx.x] = partial[other], partial_index[threadIdx.x] = partial_index[other];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) tokens[blockIdx.x] = partial_index[0], best[blockIdx.x] = partial[0];
}

}  // namespace workload
