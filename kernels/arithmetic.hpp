// The arithmetic of every kernel, one element at a time: the CUDA kernel and its host twin both call these, so that
// they can differ by the order of a sum only. Plain C++ and CUDA alike; no state, any thread.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define WORKLOAD_FUNCTION __host__ __device__ inline
#else
#define WORKLOAD_FUNCTION inline
#endif

namespace workload {

// A counter-based generator (the finalizer of splitmix64): the n-th number needs no predecessor, so that the device
// fills a tensor in parallel and a reference on the host reads any element of it.
WORKLOAD_FUNCTION std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

// Element `index` of the stream `seed`, uniform in [-scale, scale). 24 bits, so that host and device agree exactly.
WORKLOAD_FUNCTION float uniform(std::uint64_t seed, std::uint64_t index, float scale) {
  const auto bits = static_cast<std::int32_t>(mix(seed ^ mix(index)) >> 40) - (1 << 23);
  return scale * (static_cast<float>(bits) * (1.0F / static_cast<float>(1 << 23)));
}

// What one Adam step needs besides the tensors; the bias corrections are computed once on the host, in double.
struct AdamScalars {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float correction1 = 1.0F;       // 1 - beta1^t
  float root_correction2 = 1.0F;  // sqrt(1 - beta2^t)
};

inline AdamScalars adam_scalars(float learning_rate, unsigned step_from_one) {
  AdamScalars scalars;
  scalars.learning_rate = learning_rate;
  const auto t = static_cast<double>(step_from_one);
  scalars.correction1 = static_cast<float>(1.0 - std::pow(static_cast<double>(scalars.beta1), t));
  scalars.root_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(static_cast<double>(scalars.beta2), t)));
  return scalars;
}

WORKLOAD_FUNCTION void adam_element(float& weight, float gradient, float& m, float& v, const AdamScalars& scalars) {
  m = scalars.beta1 * m + (1.0F - scalars.beta1) * gradient;
  v = scalars.beta2 * v + (1.0F - scalars.beta2) * gradient * gradient;
  const float denominator = sqrtf(v) / scalars.root_correction2 + scalars.epsilon;
  weight -= (scalars.learning_rate / scalars.correction1) * m / denominator;
}

WORKLOAD_FUNCTION float relu(float value) { return value > 0.0F ? value : 0.0F; }

// Layout of one layer's paged key-value pool: [page][key 0, value 1][token in page][head][element].
struct KvShape {
  std::int32_t heads = 0;
  std::int32_t head_size = 0;
  std::int32_t page_tokens = 0;
  std::int32_t pages_per_request = 0;  // row length of the page table
};

WORKLOAD_FUNCTION std::size_t kv_width(const KvShape& shape) {
  return static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(shape.head_size);
}

WORKLOAD_FUNCTION std::size_t kv_page_elements(const KvShape& shape) {
  return 2 * static_cast<std::size_t>(shape.page_tokens) * kv_width(shape);
}

// Where the key (part 0) or value (part 1) row of a token starts in the pool.
WORKLOAD_FUNCTION std::size_t kv_row(const KvShape& shape, const std::int32_t* page_table, std::int32_t request,
                                     std::int32_t position, std::int32_t part) {
  const std::int32_t page =
      page_table[static_cast<std::size_t>(request) * static_cast<std::size_t>(shape.pages_per_request) +
                 static_cast<std::size_t>(position / shape.page_tokens)];
  const auto token = static_cast<std::size_t>(position % shape.page_tokens);
  return static_cast<std::size_t>(page) * kv_page_elements(shape) +
         (static_cast<std::size_t>(part) * static_cast<std::size_t>(shape.page_tokens) + token) * kv_width(shape);
}

// A prompt's keys and values are made up: they depend on who asks and where, never on the page they live in.
WORKLOAD_FUNCTION float prompt_element(std::uint64_t seed, std::int32_t request, std::int32_t position,
                                       std::int32_t part, std::size_t width, std::size_t element) {
  const std::uint64_t stream = mix(seed ^ (static_cast<std::uint64_t>(request) << 32));
  const std::uint64_t row = static_cast<std::uint64_t>(position) * 2 + static_cast<std::uint64_t>(part);
  return uniform(stream, row * width + element, 1.0F);
}

}  // namespace workload
