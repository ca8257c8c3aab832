// Trains a multi-layer perceptron with Adam, in plain CUDA: every tensor its own cudaMalloc, one stream, one GPU.
// The losses and the final weights are checked against a training of the same network on the CPU (mlp_reference.hpp).
#include <algorithm>
#include <cmath>

#include "examples/mlp_reference.hpp"
#include "examples/program.cuh"
#include "kernels/mlp.cuh"

namespace {

using program::Tensor;
using namespace workload;

// Relative difference allowed between a loss and the reference's: sums in float against sums in double differ by about
// 1e-7, and Adam makes more of it where a gradient is near zero, since it moves such a weight a full step either way.
constexpr double kLossTolerance = 1e-5;
// Root mean square of the difference of a layer's weights, in learning rates: one page of 4 KiB lost out of 64 MiB
// gives more than this, rounding a hundredth of it.
constexpr double kWeightTolerance = 0.02;

struct Parameter {
  Tensor<float> value, gradient, m, v;
  explicit Parameter(std::size_t count) : value(count), gradient(count), m(count), v(count) {
    value.zero();
    m.zero();
    v.zero();
  }
};

class Trainer {
 public:
  explicit Trainer(const MlpShape& shape)
      : shape_(shape),
        elements_(static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(shape.width)),
        target_(elements_),
        gradient_(elements_),
        other_gradient_(elements_),
        row_sums_(static_cast<std::size_t>(shape.batch)),
        state_sum_(1) {
    const auto width = static_cast<std::size_t>(shape.width);
    for (int layer = 0; layer < shape.layers; ++layer) {
      weights_.emplace_back(width * width);
      biases_.emplace_back(width);
      fill(weights_.back().value, weight_seed(shape, layer), weight_scale(shape));
    }
    for (int layer = 0; layer <= shape.layers; ++layer) activations_.emplace_back(elements_);
    fill(activations_[0], input_seed(shape), 1.0F);
    fill(target_, target_seed(shape), 1.0F);
  }

  // Forward, backward, update; returns the mean squared error before the update.
  double step() {
    ++step_;
    for (int layer = 0; layer < shape_.layers; ++layer) forward(layer);
    squared_error<<<static_cast<unsigned>(shape_.batch), kBlock>>>(
        activations_.back().get(), target_.get(), gradient_.get(), row_sums_.get(), shape_.batch, shape_.width);
    CHECK_LAUNCH();
    for (int layer = shape_.layers; layer-- > 0;) backward(layer);
    const AdamScalars scalars = adam_scalars(learning_rate(shape_), step_);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      update(weights_[static_cast<std::size_t>(layer)], scalars);
      update(biases_[static_cast<std::size_t>(layer)], scalars);
    }
    double sum = 0;
    for (float row : row_sums_.download()) sum += row;
    CHECK(cudaDeviceSynchronize());
    return sum / static_cast<double>(elements_);
  }

  std::vector<float> weights(int layer) const { return weights_[static_cast<std::size_t>(layer)].value.download(); }

  // One number for all weights and moments: equal only if every bit is.
  unsigned long long state_checksum() {
    state_sum_.zero();
    for (const std::vector<Parameter>* parameters : {&weights_, &biases_}) {
      for (const Parameter& parameter : *parameters) {
        for (const Tensor<float>* tensor : {&parameter.value, &parameter.m, &parameter.v}) {
          checksum<<<blocks_for(tensor->count()), kBlock>>>(reinterpret_cast<const unsigned*>(tensor->get()),
                                                            tensor->count(), state_sum_.get());
          CHECK_LAUNCH();
        }
      }
    }
    return state_sum_.download()[0];
  }

 private:
  static void fill(Tensor<float>& tensor, std::uint64_t seed, float scale) {
    fill_uniform<<<blocks_for(tensor.count()), kBlock>>>(tensor.get(), tensor.count(), seed, scale);
    CHECK_LAUNCH();
  }

  void forward(int layer) {
    const auto at = static_cast<std::size_t>(layer);
    const int batch = shape_.batch, width = shape_.width;
    gemm_nn<<<product_grid(batch, width), kBlock>>>(activations_[at].get(), weights_[at].value.get(),
                                                    activations_[at + 1].get(), batch, width, width);
    CHECK_LAUNCH();
    bias_relu<<<blocks_for(elements_), kBlock>>>(activations_[at + 1].get(), biases_[at].value.get(), batch, width,
                                                 layer + 1 < shape_.layers ? 1 : 0);
    CHECK_LAUNCH();
  }

  void backward(int layer) {
    const auto at = static_cast<std::size_t>(layer);
    const int batch = shape_.batch, width = shape_.width;
    gemm_tn<<<product_grid(width, width), kBlock>>>(activations_[at].get(), gradient_.get(),
                                                    weights_[at].gradient.get(), width, width, batch);
    CHECK_LAUNCH();
    bias_gradient<<<blocks_for(static_cast<std::size_t>(width)), kBlock>>>(gradient_.get(), biases_[at].gradient.get(),
                                                                           batch, width);
    CHECK_LAUNCH();
    if (layer == 0) return;
    gemm_nt<<<product_grid(batch, width), kBlock>>>(gradient_.get(), weights_[at].value.get(), other_gradient_.get(),
                                                    batch, width, width);
    CHECK_LAUNCH();
    relu_gradient<<<blocks_for(elements_), kBlock>>>(other_gradient_.get(), activations_[at].get(), elements_);
    CHECK_LAUNCH();
    std::swap(gradient_, other_gradient_);
  }

  static void update(Parameter& parameter, const AdamScalars& scalars) {
    adam_step<<<blocks_for(parameter.value.count()), kBlock>>>(parameter.value.get(), parameter.gradient.get(),
                                                               parameter.m.get(), parameter.v.get(),
                                                               parameter.value.count(), scalars);
    CHECK_LAUNCH();
  }

  MlpShape shape_;
  std::size_t elements_;  // of one activation
  unsigned step_ = 0;
  std::vector<Parameter> weights_, biases_;
  std::vector<Tensor<float>> activations_;
  Tensor<float> target_, gradient_, other_gradient_, row_sums_;
  Tensor<unsigned long long> state_sum_;
};

// Root mean square difference of the worst layer, in learning rates.
double worst_weight_difference(const Trainer& trainer, const MlpReference& reference, const MlpShape& shape) {
  double worst = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::vector<float> ours = trainer.weights(layer);
    const std::vector<float>& theirs = reference.weights(layer);
    double squares = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const double difference = static_cast<double>(ours[i]) - static_cast<double>(theirs[i]);
      squares += difference * difference;
    }
    const double difference = std::sqrt(squares / static_cast<double>(ours.size())) / learning_rate(shape);
    worst = std::max(worst, std::isnan(difference) ? HUGE_VAL : difference);
  }
  return worst;
}

void write_losses(std::FILE* file, const std::vector<double>& losses, unsigned long long state) {
  for (double loss : losses) std::fprintf(file, "%.17g\n", loss);
  std::fprintf(file, "state %016llx\n", state);
}

// Trains the reference for as many steps as are to be verified; true if everything agrees.
bool verified(const Trainer& trainer, const MlpShape& shape, const std::vector<double>& losses, std::size_t steps) {
  MlpReference reference(shape);
  bool good = true;
  double worst = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    const double expected = reference.step();
    const double difference = std::fabs(losses[step] - expected) / std::fabs(expected);
    worst = std::max(worst, difference);
    if (!(difference <= kLossTolerance)) {
      std::fprintf(stderr,
                   "%s: step %zu: loss %.9g, but the CPU reference has %.9g (relative difference %.2g, allowed %.2g)\n",
                   program::name, step + 1, losses[step], expected, difference, kLossTolerance);
      good = false;
    }
  }
  std::printf("worst loss difference from the CPU reference: %.2g relative (allowed %.2g), %zu of %zu steps\n", worst,
              kLossTolerance, steps, losses.size());
  if (steps == losses.size()) {
    const double weights = worst_weight_difference(trainer, reference, shape);
    std::printf("worst weight difference of a layer: %.2g learning rates, root mean square (allowed %.2g)\n", weights,
                kWeightTolerance);
    if (!(weights <= kWeightTolerance)) {
      std::fprintf(stderr, "%s: the weights differ from the CPU reference's\n", program::name);
      good = false;
    }
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  program::name = "train_adam";
  long long layers = 4, width = 1024, batch = 16, steps = 4, seed = 1, verify = 8;
  std::string losses_path;
  program::Flags flags(
      "trains a multi-layer perceptron with Adam and checks it against the CPU; uses 16 bytes of device memory a "
      "weight");
  flags.number("--layers", &layers, 1, 4096, "layers, each width x width");
  flags.number("--width", &width, 1, 32768, "inputs and outputs of every layer");
  flags.number("--batch", &batch, 1, 65535, "examples a step");
  flags.number("--steps", &steps, 1, 1000000, "training steps");
  flags.number("--seed", &seed, 0, 1000000000, "seed of weights and data");
  flags.number("--verify", &verify, -1, 1000000,
               "how many steps to check against the CPU, -1 for all: rounding drifts apart over many");
  flags.text("--losses", &losses_path, "FILE: writes every loss in full precision, and a check-sum of the final state");
  flags.parse(argc, argv);
  program::OutputFile losses_file("--losses", losses_path);
  const MlpShape shape{static_cast<int>(layers), static_cast<int>(width), static_cast<int>(batch),
                       static_cast<std::uint64_t>(seed)};

  const auto setup = std::chrono::steady_clock::now();
  Trainer trainer(shape);
  CHECK(cudaDeviceSynchronize());
  std::printf("%lld layers of %lld x %lld: %.1f MiB allocated, set up in %.2f s\n", layers, width, width,
              program::mebibytes(program::bytes_allocated), program::seconds_since(setup));
  std::vector<double> losses, times;
  for (long long step = 1; step <= steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    losses.push_back(trainer.step());
    times.push_back(program::seconds_since(start));
    std::printf("step %lld loss %.9g\n", step, losses.back());
    std::fflush(stdout);
  }
  std::sort(times.begin(), times.end());
  std::printf("median step: %.2f ms\n", times[times.size() / 2] * 1e3);
  const unsigned long long state = trainer.state_checksum();
  std::printf("state check-sum %016llx\n", state);
  if (losses_file.wanted()) write_losses(losses_file.get(), losses, state);
  losses_file.close();

  const std::size_t checked = verify < 0 ? losses.size() : std::min(losses.size(), static_cast<std::size_t>(verify));
  if (checked == 0) {
    std::printf("losses not verified, as asked\n");
    return 0;
  }
  if (!verified(trainer, shape, losses, checked)) return 1;
  std::printf("losses verified\n");
  return 0;
}
