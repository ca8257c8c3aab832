// The same decoder on the CPU, one request at a time, in double, without pages: what the program's tokens are checked
// against. The program's own tokens are fed in (a near tie of two logits must not derail the rest of the comparison).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

struct DecoderShape {
  int layers = 0;
  int heads = 0;
  int head_size = 0;
  int vocabulary = 0;
  int context = 0;  // tokens of every prompt, whose keys and values are given
  int steps = 0;    // tokens to decode per request
  std::uint64_t seed = 0;
  [[nodiscard]] int width() const { return heads * head_size; }
};

enum class Matrix : int { query = 0, key = 1, value = 2, output = 3 };

// Streams and scales of the generator, the same for the program and its reference.
std::uint64_t matrix_seed(const DecoderShape& shape, int layer, Matrix matrix);
float matrix_scale(const DecoderShape& shape, Matrix matrix);
std::uint64_t embedding_seed(const DecoderShape& shape);
std::uint64_t vocabulary_seed(const DecoderShape& shape);
float vocabulary_scale(const DecoderShape& shape);
std::uint64_t prompt_seed(const DecoderShape& shape, int layer);
int first_token(const DecoderShape& shape, int request);

class DecodeReference {
 public:
  explicit DecodeReference(const DecoderShape& shape);
  // How far the program's greedy choices for one request are from the reference's: the largest of
  // |its logit - the reference's for that token| and (largest reference logit - the reference's for that token), of as
  // many tokens as it has decoded.
  [[nodiscard]] double worst_difference(int request, const std::vector<int>& tokens,
                                        const std::vector<float>& logits) const;

 private:
  using Values = std::vector<double>;
  struct Cache {
    std::vector<float> keys, values;  // [token][width]
  };
  [[nodiscard]] Values product(const Values& x, const std::vector<float>& matrix) const;
  [[nodiscard]] Values attend(const Values& query, const Cache& cache) const;
  [[nodiscard]] Values decode(int token, std::vector<Cache>& caches) const;
  [[nodiscard]] std::vector<Cache> prompt(int request) const;

  DecoderShape shape_;
  std::size_t width_;
  std::vector<std::vector<float>> matrices_;  // [layer x 4 + matrix]
  std::vector<float> embedding_, vocabulary_;
};
