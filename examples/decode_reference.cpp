#include "examples/decode_reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/arithmetic.hpp"

namespace {

std::uint64_t stream(const DecoderShape& shape, std::uint64_t number) {
  return workload::mix(shape.seed * 100000 + number);
}

std::vector<float> uniform_values(std::size_t count, std::uint64_t seed, float scale) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = workload::uniform(seed, i, scale);
  return values;
}

std::vector<double> normalized(const std::vector<double>& x) {
  double squares = 0;
  for (double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale;
  return y;
}

void append(std::vector<float>& rows, const std::vector<double>& row) {
  for (double value : row) rows.push_back(static_cast<float>(value));
}

}  // namespace

std::uint64_t matrix_seed(const DecoderShape& shape, int layer, Matrix matrix) {
  return stream(shape, 100 + static_cast<std::uint64_t>(layer) * 8 + static_cast<std::uint64_t>(matrix));
}
// Queries are four times larger than the rest: attention then picks out a few tokens, and one wrong key shows.
float matrix_scale(const DecoderShape& shape, Matrix matrix) {
  return (matrix == Matrix::query ? 4.0F : 1.0F) * std::sqrt(3.0F / static_cast<float>(shape.width()));
}
std::uint64_t embedding_seed(const DecoderShape& shape) { return stream(shape, 1); }
std::uint64_t vocabulary_seed(const DecoderShape& shape) { return stream(shape, 2); }
float vocabulary_scale(const DecoderShape& shape) { return std::sqrt(3.0F / static_cast<float>(shape.width())); }
std::uint64_t prompt_seed(const DecoderShape& shape, int layer) {
  return stream(shape, 50000 + static_cast<std::uint64_t>(layer));
}
int first_token(const DecoderShape& shape, int request) {
  return static_cast<int>(workload::mix(stream(shape, 3) ^ static_cast<std::uint64_t>(request)) %
                          static_cast<std::uint64_t>(shape.vocabulary));
}

DecodeReference::DecodeReference(const DecoderShape& shape)
    : shape_(shape), width_(static_cast<std::size_t>(shape.width())) {
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (Matrix matrix : {Matrix::query, Matrix::key, Matrix::value, Matrix::output}) {
      matrices_.push_back(
          uniform_values(width_ * width_, matrix_seed(shape, layer, matrix), matrix_scale(shape, matrix)));
    }
  }
  const std::size_t entries = static_cast<std::size_t>(shape.vocabulary) * width_;
  embedding_ = uniform_values(entries, embedding_seed(shape), 1.0F);
  vocabulary_ = uniform_values(entries, vocabulary_seed(shape), vocabulary_scale(shape));
}

DecodeReference::Values DecodeReference::product(const Values& x, const std::vector<float>& matrix) const {
  Values y(width_, 0.0);
  for (std::size_t i = 0; i < width_; ++i) {
    const float* row = matrix.data() + i * width_;
#pragma omp simd
    for (std::size_t j = 0; j < width_; ++j) y[j] += x[i] * static_cast<double>(row[j]);
  }
  return y;
}

DecodeReference::Values DecodeReference::attend(const Values& query, const Cache& cache) const {
  const std::size_t tokens = cache.keys.size() / width_, head_size = static_cast<std::size_t>(shape_.head_size);
  Values out(width_, 0.0), scores(tokens);
  for (std::size_t head = 0; head < width_; head += head_size) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t token = 0; token < tokens; ++token) {
      const float* key = cache.keys.data() + token * width_ + head;
      double score = 0;
#pragma omp simd reduction(+ : score)
      for (std::size_t i = 0; i < head_size; ++i) score += query[head + i] * static_cast<double>(key[i]);
      scores[token] = score / std::sqrt(static_cast<double>(head_size));
      largest = std::max(largest, scores[token]);
    }
    double sum = 0;
    for (std::size_t token = 0; token < tokens; ++token) {
      const double weight = std::exp(scores[token] - largest);
      const float* value = cache.values.data() + token * width_ + head;
      sum += weight;
      for (std::size_t i = 0; i < head_size; ++i) out[head + i] += weight * static_cast<double>(value[i]);
    }
    for (std::size_t i = 0; i < head_size; ++i) out[head + i] /= sum;
  }
  return out;
}

// One token through all layers; returns its logits.
DecodeReference::Values DecodeReference::decode(int token, std::vector<Cache>& caches) const {
  const float* entry = embedding_.data() + static_cast<std::size_t>(token) * width_;
  Values x(entry, entry + width_);
  for (std::size_t layer = 0; layer < caches.size(); ++layer) {
    const Values h = normalized(x);
    append(caches[layer].keys, product(h, matrices_[layer * 4 + 1]));
    append(caches[layer].values, product(h, matrices_[layer * 4 + 2]));
    const Values mixed = product(attend(product(h, matrices_[layer * 4]), caches[layer]), matrices_[layer * 4 + 3]);
    for (std::size_t i = 0; i < width_; ++i) x[i] += mixed[i];
  }
  const Values h = normalized(x);
  Values logits(static_cast<std::size_t>(shape_.vocabulary));
  for (std::size_t entry_index = 0; entry_index < logits.size(); ++entry_index) {
    const float* row = vocabulary_.data() + entry_index * width_;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < width_; ++i) sum += h[i] * static_cast<double>(row[i]);
    logits[entry_index] = sum;
  }
  return logits;
}

std::vector<DecodeReference::Cache> DecodeReference::prompt(int request) const {
  std::vector<Cache> caches(static_cast<std::size_t>(shape_.layers));
  const std::size_t prompt_elements = static_cast<std::size_t>(shape_.context) * width_;
  for (int layer = 0; layer < shape_.layers; ++layer) {
    Cache& cache = caches[static_cast<std::size_t>(layer)];
    const std::size_t capacity = prompt_elements + static_cast<std::size_t>(shape_.steps) * width_;
    cache.keys.reserve(capacity);
    cache.values.reserve(capacity);
    for (int position = 0; position < shape_.context; ++position) {
      for (std::size_t i = 0; i < width_; ++i) {
        cache.keys.push_back(workload::prompt_element(prompt_seed(shape_, layer), request, position, 0, width_, i));
        cache.values.push_back(workload::prompt_element(prompt_seed(shape_, layer), request, position, 1, width_, i));
      }
    }
  }
  return caches;
}

double DecodeReference::worst_difference(int request, const std::vector<int>& tokens,
                                         const std::vector<float>& logits) const {
  std::vector<Cache> caches = prompt(request);
  double worst = 0;
  int token = first_token(shape_, request);
  for (std::size_t step = 0; step < tokens.size(); ++step) {
    const Values expected = decode(token, caches);
    token = tokens[step];
    if (token < 0 || token >= shape_.vocabulary || std::isnan(logits[step]))
      return std::numeric_limits<double>::infinity();
    const double chosen = expected[static_cast<std::size_t>(token)];
    const double largest = *std::max_element(expected.begin(), expected.end());
    worst = std::max({worst, std::fabs(static_cast<double>(logits[step]) - chosen), largest - chosen});
  }
  return worst;
}
