// The same training on the CPU, by other means: sums in double, loops in another order, all threads of the machine.
// Keeps its own weights and moments (12 bytes a parameter of host memory); gradients are used as soon as they are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

struct MlpShape {
  int layers = 0;
  int width = 0;
  int batch = 0;
  std::uint64_t seed = 0;
};

// Streams of the generator, the same for the program and its reference.
std::uint64_t weight_seed(const MlpShape& shape, int layer);
std::uint64_t input_seed(const MlpShape& shape);
std::uint64_t target_seed(const MlpShape& shape);
float weight_scale(const MlpShape& shape);
float learning_rate(const MlpShape& shape);

class MlpReference {
 public:
  explicit MlpReference(const MlpShape& shape);
  // One training step; returns the loss before the update.
  double step();
  // Weights of one layer, width x width, inputs first.
  [[nodiscard]] const std::vector<float>& weights(int layer) const {
    return layers_[static_cast<std::size_t>(layer)].weight;
  }

 private:
  struct Layer {
    std::vector<float> weight, weight_m, weight_v;
    std::vector<float> bias, bias_m, bias_v;
  };
  void forward(std::size_t layer);
  void backward(std::size_t layer, std::vector<float>& gradient);
  void adam(float& weight, double gradient, float& m, float& v) const;

  MlpShape shape_;
  std::size_t width_;
  std::size_t batch_;
  int step_ = 0;
  std::vector<Layer> layers_;
  std::vector<std::vector<float>> activations_;  // [layer][batch x width]; 0 is the input
  std::vector<float> target_;
};
