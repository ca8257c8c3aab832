#include "examples/mlp_reference.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include "kernels/arithmetic.hpp"

namespace {

// Splits [0, count) among the machine's threads.
template <class Body>
void in_parallel(std::size_t count, Body body) {
  const std::size_t threads =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, std::max<std::size_t>(count / 64, 1));
  std::vector<std::thread> workers;
  for (std::size_t t = 0; t < threads; ++t) {
    workers.emplace_back([=] { body(count * t / threads, count * (t + 1) / threads); });
  }
  for (std::thread& worker : workers) worker.join();
}

std::vector<float> uniform_values(std::size_t count, std::uint64_t seed, float scale) {
  std::vector<float> values(count);
  in_parallel(count, [&values, seed, scale](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) values[i] = workload::uniform(seed, i, scale);
  });
  return values;
}

}  // namespace

std::uint64_t weight_seed(const MlpShape& shape, int layer) {
  return workload::mix(shape.seed * 1000 + 10 + static_cast<std::uint64_t>(layer));
}
std::uint64_t input_seed(const MlpShape& shape) { return workload::mix(shape.seed * 1000 + 1); }
std::uint64_t target_seed(const MlpShape& shape) { return workload::mix(shape.seed * 1000 + 2); }
float weight_scale(const MlpShape& shape) { return std::sqrt(6.0F / static_cast<float>(shape.width)); }
// Falls with the width: Adam moves every weight by about this much, and an output sums over `width` of them.
float learning_rate(const MlpShape& shape) { return 0.1F / static_cast<float>(shape.width); }

MlpReference::MlpReference(const MlpShape& shape)
    : shape_(shape),
      width_(static_cast<std::size_t>(shape.width)),
      batch_(static_cast<std::size_t>(shape.batch)),
      activations_(static_cast<std::size_t>(shape.layers) + 1) {
  for (int layer = 0; layer < shape.layers; ++layer) {
    Layer made;
    made.weight = uniform_values(width_ * width_, weight_seed(shape, layer), weight_scale(shape));
    made.weight_m.assign(width_ * width_, 0.0F);
    made.weight_v.assign(width_ * width_, 0.0F);
    made.bias.assign(width_, 0.0F);
    made.bias_m.assign(width_, 0.0F);
    made.bias_v.assign(width_, 0.0F);
    layers_.push_back(std::move(made));
  }
  activations_[0] = uniform_values(batch_ * width_, input_seed(shape), 1.0F);
  target_ = uniform_values(batch_ * width_, target_seed(shape), 1.0F);
}

void MlpReference::forward(std::size_t layer) {
  const Layer& l = layers_[layer];
  const std::vector<float>& x = activations_[layer];
  std::vector<float>& y = activations_[layer + 1];
  y.resize(batch_ * width_);
  const bool rectify = layer + 1 < layers_.size();
  in_parallel(width_, [&, this](std::size_t begin, std::size_t end) {
    const std::size_t columns = end - begin;
    std::vector<double> sums(batch_ * columns);
    for (std::size_t i = 0; i < width_; ++i) {
      const float* row = l.weight.data() + i * width_ + begin;
      for (std::size_t b = 0; b < batch_; ++b) {
        const double factor = static_cast<double>(x[b * width_ + i]);
        double* sum = sums.data() + b * columns;
#pragma omp simd
        for (std::size_t j = 0; j < columns; ++j) sum[j] += factor * static_cast<double>(row[j]);
      }
    }
    for (std::size_t b = 0; b < batch_; ++b) {
      for (std::size_t j = 0; j < columns; ++j) {
        const double value = sums[b * columns + j] + static_cast<double>(l.bias[begin + j]);
        y[b * width_ + begin + j] = static_cast<float>(rectify ? std::max(value, 0.0) : value);
      }
    }
  });
}

// Kingma and Ba's formula as written, in double; only the stored state is rounded.
void MlpReference::adam(float& weight, double gradient, float& m, float& v) const {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
  const double new_m = kBeta1 * static_cast<double>(m) + (1 - kBeta1) * gradient;
  const double new_v = kBeta2 * static_cast<double>(v) + (1 - kBeta2) * gradient * gradient;
  const double corrected_m = new_m / (1 - std::pow(kBeta1, step_));
  const double corrected_v = new_v / (1 - std::pow(kBeta2, step_));
  weight = static_cast<float>(static_cast<double>(weight) - static_cast<double>(learning_rate(shape_)) * corrected_m /
                                                                (std::sqrt(corrected_v) + kEpsilon));
  m = static_cast<float>(new_m);
  v = static_cast<float>(new_v);
}

// Takes the gradient of the layer's output, leaves that of its input, and updates the layer, row by row of the weights.
void MlpReference::backward(std::size_t layer, std::vector<float>& gradient) {
  Layer& l = layers_[layer];
  const std::vector<float>& x = activations_[layer];
  std::vector<float> input_gradient(batch_ * width_);
  in_parallel(width_, [&, this](std::size_t begin, std::size_t end) {
    std::vector<double> row_gradient(width_);
    for (std::size_t i = begin; i < end; ++i) {
      float* row = l.weight.data() + i * width_;
      std::fill(row_gradient.begin(), row_gradient.end(), 0.0);
      for (std::size_t b = 0; b < batch_; ++b) {
        const float* dy = gradient.data() + b * width_;
        const double factor = static_cast<double>(x[b * width_ + i]);
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::size_t j = 0; j < width_; ++j) {
          sum += static_cast<double>(dy[j]) * static_cast<double>(row[j]);
          row_gradient[j] += factor * static_cast<double>(dy[j]);
        }
        const bool passes = layer == 0 || x[b * width_ + i] > 0.0F;  // x is the ReLU output of the layer before
        input_gradient[b * width_ + i] = passes ? static_cast<float>(sum) : 0.0F;
      }
      for (std::size_t j = 0; j < width_; ++j) {
        adam(row[j], row_gradient[j], l.weight_m[i * width_ + j], l.weight_v[i * width_ + j]);
      }
    }
  });
  for (std::size_t j = 0; j < width_; ++j) {
    double sum = 0;
    for (std::size_t b = 0; b < batch_; ++b) sum += static_cast<double>(gradient[b * width_ + j]);
    adam(l.bias[j], sum, l.bias_m[j], l.bias_v[j]);
  }
  gradient.swap(input_gradient);
}

double MlpReference::step() {
  ++step_;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) forward(layer);
  const std::vector<float>& y = activations_.back();
  const double count = static_cast<double>(y.size());
  std::vector<float> gradient(y.size());
  double squares = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double difference = static_cast<double>(y[i]) - static_cast<double>(target_[i]);
    squares += difference * difference;
    gradient[i] = static_cast<float>(2 * difference / count);
  }
  for (std::size_t layer = layers_.size(); layer-- > 0;) backward(layer, gradient);
  return squares / count;
}
