// Host twins of kernels/decode.cuh. The grid says how many rows the batch has, as it does for the CUDA kernels.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/arithmetic.hpp"
#include "kernels/twins/twin.hpp"

namespace spillway::kernels {
namespace {

using workload::KvShape;

std::size_t size(int count) { return static_cast<std::size_t>(count); }
std::size_t rows_of(const LaunchGeometry& geometry) { return geometry.grid.x; }

void run_embedding_gather(const LaunchGeometry& geometry, const float* table, const int* tokens, float* out,
                          int width) {
  for (std::size_t row = 0; row < rows_of(geometry); ++row) {
    std::memcpy(out + row * size(width), table + size(tokens[row]) * size(width), size(width) * sizeof(float));
  }
}
void touch_embedding_gather(Touched& touched, const float* table, const int* tokens, float* out, int width) {
  const std::size_t rows = rows_of(touched.geometry());
  touched.reads(tokens, rows);
  for (std::size_t row = 0; row < rows; ++row) touched.reads(table + size(tokens[row]) * size(width), size(width));
  touched.writes(out, rows * size(width));
}

void run_rms_normalize(const LaunchGeometry& geometry, const float* x, float* y, int width) {
  for (std::size_t row = 0; row < rows_of(geometry); ++row) {
    const float* source = x + row * size(width);
    float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < width; ++i) sum += source[i] * source[i];
    const float scale = 1.0F / sqrtf(sum / static_cast<float>(width) + 1e-6F);
    for (int i = 0; i < width; ++i) y[row * size(width) + size(i)] = source[i] * scale;
  }
}
void touch_rms_normalize(Touched& touched, const float* x, float* y, int width) {
  touched.reads(x, rows_of(touched.geometry()) * size(width));
  touched.writes(y, rows_of(touched.geometry()) * size(width));
}

void run_add_in_place(const LaunchGeometry&, float* x, const float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] += y[i];
}
void touch_add_in_place(Touched& touched, float* x, const float* y, std::size_t count) {
  touched.writes(x, count);
  touched.reads(y, count);
}

void run_kv_prompt(const LaunchGeometry& geometry, float* pool, const int* page_table, KvShape shape, int request,
                   std::uint64_t seed) {
  const std::size_t width = kv_width(shape);
  for (int position = 0; position < static_cast<int>(geometry.grid.x); ++position) {
    for (int part = 0; part < 2; ++part) {
      float* row = pool + kv_row(shape, page_table, request, position, part);
      for (std::size_t i = 0; i < width; ++i) {
        row[i] = workload::prompt_element(seed, request, position, part, width, i);
      }
    }
  }
}

const int* table_row(const int* page_table, const KvShape& shape, int request) {
  return page_table + size(request) * size(shape.pages_per_request);
}

// The pages that hold `tokens` tokens of a request, each run of neighbouring pages as one stretch.
void touch_pages(Touched& touched, const float* pool, const int* page_table, const KvShape& shape, int request,
                 int tokens, bool writes) {
  const int* pages = table_row(page_table, shape, request);
  const int count = (tokens + shape.page_tokens - 1) / shape.page_tokens;
  touched.reads(pages, size(count));
  for (int first = 0; first < count;) {
    int last = first + 1;
    while (last < count && pages[last] == pages[last - 1] + 1) ++last;
    const float* begin = pool + size(pages[first]) * kv_page_elements(shape);
    const std::size_t elements = size(last - first) * kv_page_elements(shape);
    if (writes)
      touched.writes(begin, elements);
    else
      touched.reads(begin, elements);
    first = last;
  }
}

void touch_kv_prompt(Touched& touched, float* pool, const int* page_table, KvShape shape, int request, std::uint64_t) {
  touch_pages(touched, pool, page_table, shape, request, static_cast<int>(touched.geometry().grid.x), true);
}

void run_kv_append(const LaunchGeometry& geometry, float* pool, const int* page_table, KvShape shape,
                   const int* requests, const int* positions, const float* keys, const float* values) {
  const std::size_t width = kv_width(shape);
  for (std::size_t row = 0; row < rows_of(geometry); ++row) {
    const float* const parts[] = {keys, values};
    for (int part = 0; part < 2; ++part) {
      std::memcpy(pool + kv_row(shape, page_table, requests[row], positions[row], part), parts[part] + row * width,
                  width * sizeof(float));
    }
  }
}
void touch_kv_append(Touched& touched, float* pool, const int* page_table, KvShape shape, const int* requests,
                     const int* positions, const float* keys, const float* values) {
  const std::size_t rows = rows_of(touched.geometry()), width = kv_width(shape);
  touched.reads(requests, rows);
  touched.reads(positions, rows);
  touched.reads(keys, rows * width);
  touched.reads(values, rows * width);
  for (std::size_t row = 0; row < rows; ++row) {
    touched.reads(table_row(page_table, shape, requests[row]) + positions[row] / shape.page_tokens, 1);
    for (int part = 0; part < 2; ++part) {
      touched.writes(pool + kv_row(shape, page_table, requests[row], positions[row], part), width);
    }
  }
}

// One head of one row: scores, softmax, weighted sum.
void attend(float* out, const float* query, const float* pool, const int* page_table, const KvShape& shape, int request,
            int tokens, std::size_t head_at, std::vector<float>& scores) {
  const std::size_t head_size = size(shape.head_size);
  const float scale = 1.0F / sqrtf(static_cast<float>(shape.head_size));
  scores.resize(size(tokens));
  float maximum = -std::numeric_limits<float>::infinity();
  for (int token = 0; token < tokens; ++token) {
    const float* key = pool + kv_row(shape, page_table, request, token, 0) + head_at;
    float score = 0.0F;
#pragma omp simd reduction(+ : score)
    for (std::size_t i = 0; i < head_size; ++i) score += query[i] * key[i];
    scores[size(token)] = score * scale;
    maximum = std::max(maximum, score * scale);
  }
  float sum = 0.0F;
  std::fill(out, out + head_size, 0.0F);
  for (int token = 0; token < tokens; ++token) {
    const float weight = expf(scores[size(token)] - maximum);
    const float* value = pool + kv_row(shape, page_table, request, token, 1) + head_at;
    sum += weight;
    for (std::size_t i = 0; i < head_size; ++i) out[i] += weight * value[i];
  }
  for (std::size_t i = 0; i < head_size; ++i) out[i] /= sum;
}

void run_paged_attention(const LaunchGeometry& geometry, float* out, const float* queries, const float* pool,
                         const int* page_table, KvShape shape, const int* requests, const int* positions) {
  std::vector<float> scores;
  for (std::size_t row = 0; row < rows_of(geometry); ++row) {
    for (int head = 0; head < shape.heads; ++head) {
      const std::size_t head_at = size(head) * size(shape.head_size);
      const std::size_t at = row * kv_width(shape) + head_at;
      attend(out + at, queries + at, pool, page_table, shape, requests[row], positions[row] + 1, head_at, scores);
    }
  }
}
void touch_paged_attention(Touched& touched, float* out, const float* queries, const float* pool, const int* page_table,
                           KvShape shape, const int* requests, const int* positions) {
  const std::size_t rows = rows_of(touched.geometry()), width = kv_width(shape);
  touched.reads(requests, rows);
  touched.reads(positions, rows);
  touched.reads(queries, rows * width);
  for (std::size_t row = 0; row < rows; ++row) {
    touch_pages(touched, pool, page_table, shape, requests[row], positions[row] + 1, false);
  }
  touched.writes(out, rows * width);
}

void run_argmax_rows(const LaunchGeometry& geometry, const float* logits, int* tokens, float* best, int width) {
  for (std::size_t row = 0; row < rows_of(geometry); ++row) {
    const float* begin = logits + row * size(width);
    const float* largest = std::max_element(begin, begin + width);
    tokens[row] = static_cast<int>(largest - begin);
    best[row] = *largest;
  }
}
void touch_argmax_rows(Touched& touched, const float* logits, int* tokens, float* best, int width) {
  const std::size_t rows = rows_of(touched.geometry());
  touched.reads(logits, rows * size(width));
  touched.writes(tokens, rows);
  touched.writes(best, rows);
}

}  // namespace

std::vector<HostTwin> decode_twins() {
  return {
      make_twin<&run_embedding_gather, &touch_embedding_gather>("_ZN8workload16embedding_gatherEPKfPKiPfi", 1),
      make_twin<&run_rms_normalize, &touch_rms_normalize>("_ZN8workload13rms_normalizeEPKfPfi", 8),
      make_twin<&run_add_in_place, &touch_add_in_place>("_ZN8workload12add_in_placeEPfPKfm", 1),
      make_twin<&run_kv_prompt, &touch_kv_prompt>("_ZN8workload9kv_promptEPfPKiNS_7KvShapeEim", 16),
      make_twin<&run_kv_append, &touch_kv_append>("_ZN8workload9kv_appendEPfPKiNS_7KvShapeES2_S2_PKfS5_", 1),
      make_twin<&run_paged_attention, &touch_paged_attention>(
          "_ZN8workload15paged_attentionEPfPKfS2_PKiNS_7KvShapeES4_S4_", 4096),
      make_twin<&run_argmax_rows, &touch_argmax_rows>("_ZN8workload11argmax_rowsEPKfPiPfi", 8),
  };
}

}  // namespace spillway::kernels
