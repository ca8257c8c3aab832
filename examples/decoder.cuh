// A small decoder on the GPU and the paged key-value cache of all its requests: weights, pools, page table, and one
// step for a batch of requests. One stream; not for use by several threads.
#pragma once

#include <algorithm>
#include <vector>

#include "examples/decode_reference.hpp"
#include "examples/program.cuh"
#include "kernels/decode.cuh"
#include "kernels/mlp.cuh"

namespace workload {

struct Request {
  long long deadline = 0;  // in scheduler rounds
  bool running = false;    // in the round before this one
  int pages = 0;           // in its row of the page table
  int next_token = 0;
  std::vector<int> tokens;    // decoded so far
  std::vector<float> logits;  // of each decoded token
};

class Decoder {
 public:
  Decoder(const DecoderShape& shape, int requests, int resident, int page_tokens)
      : shape_(shape),
        kv_{shape.heads, shape.head_size, page_tokens, (shape.context + shape.steps + page_tokens - 1) / page_tokens},
        requests_(static_cast<std::size_t>(requests)),
        table_(static_cast<std::size_t>(requests) * static_cast<std::size_t>(kv_.pages_per_request), 0),
        device_table_(table_.size()),
        width_(static_cast<std::size_t>(shape.width())),
        embedding_(static_cast<std::size_t>(shape.vocabulary) * width_),
        vocabulary_(embedding_.count()),
        rows_(static_cast<std::size_t>(resident)),
        batch_requests_(rows_),
        batch_positions_(rows_),
        batch_tokens_(rows_),
        best_(rows_),
        logits_(rows_ * static_cast<std::size_t>(shape.vocabulary)) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (Matrix matrix : {Matrix::query, Matrix::key, Matrix::value, Matrix::output}) {
        matrices_.emplace_back(width_ * width_);
        fill(matrices_.back(), matrix_seed(shape, layer, matrix), matrix_scale(shape, matrix));
      }
      pools_.emplace_back(table_.size() * kv_page_elements(kv_));
      pools_.back().zero();
    }
    fill(embedding_, embedding_seed(shape), 1.0F);
    fill(vocabulary_, vocabulary_seed(shape), vocabulary_scale(shape));
    for (int i = 0; i < 6; ++i) scratch_.emplace_back(rows_ * width_);
    for (int request = 0; request < requests; ++request) admit(request);
  }

  std::vector<Request>& requests() { return requests_; }

  // Decodes one token for each request named (at most `resident` of them).
  void step(const std::vector<int>& batch) {
    std::vector<int> positions, tokens;
    for (int number : batch) {
      const Request& request = requests_[static_cast<std::size_t>(number)];
      positions.push_back(shape_.context + static_cast<int>(request.tokens.size()));
      tokens.push_back(request.next_token);
      grow(number, positions.back() + 1);
    }
    if (table_changed_) device_table_.upload(table_);
    table_changed_ = false;
    batch_requests_.upload(batch);
    batch_positions_.upload(positions);
    batch_tokens_.upload(tokens);
    forward(static_cast<int>(batch.size()));
    const std::vector<int> chosen = batch_tokens_.download(batch.size());
    const std::vector<float> best = best_.download(batch.size());
    for (std::size_t row = 0; row < batch.size(); ++row) {
      Request& request = requests_[static_cast<std::size_t>(batch[row])];
      request.next_token = chosen[row];
      request.tokens.push_back(chosen[row]);
      request.logits.push_back(best[row]);
    }
  }

  // One number for all keys and values: equal only if every bit is.
  unsigned long long cache_checksum() const {
    program::Tensor<unsigned long long> sum(1);
    sum.zero();
    for (const program::Tensor<float>& pool : pools_) {
      checksum<<<blocks_for(pool.count()), kBlock>>>(reinterpret_cast<const unsigned*>(pool.get()), pool.count(),
                                                     sum.get());
      CHECK_LAUNCH();
    }
    return sum.download()[0];
  }

 private:
  static void fill(program::Tensor<float>& tensor, std::uint64_t seed, float scale) {
    fill_uniform<<<blocks_for(tensor.count()), kBlock>>>(tensor.get(), tensor.count(), seed, scale);
    CHECK_LAUNCH();
  }

  // Gives a request pages enough for `tokens` tokens, the next ones that were never used.
  void grow(int number, int tokens) {
    Request& request = requests_[static_cast<std::size_t>(number)];
    while (request.pages * kv_.page_tokens < tokens) {
      table_[static_cast<std::size_t>(number) * static_cast<std::size_t>(kv_.pages_per_request) +
             static_cast<std::size_t>(request.pages++)] = next_page_++;
      table_changed_ = true;
    }
  }

  void admit(int number) {
    grow(number, shape_.context);
    device_table_.upload(table_);
    requests_[static_cast<std::size_t>(number)].next_token = first_token(shape_, number);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      kv_prompt<<<static_cast<unsigned>(shape_.context), kBlock>>>(
          pools_[static_cast<std::size_t>(layer)].get(), device_table_.get(), kv_, number, prompt_seed(shape_, layer));
      CHECK_LAUNCH();
    }
  }

  void project(const program::Tensor<float>& x, std::size_t layer, Matrix matrix, const program::Tensor<float>& y,
               int rows) {
    const int width = shape_.width();
    gemm_nn<<<product_grid(rows, width), kBlock>>>(
        x.get(), matrices_[layer * 4 + static_cast<std::size_t>(matrix)].get(), y.get(), rows, width, width);
    CHECK_LAUNCH();
  }

  void forward(int rows) {
    const auto blocks = static_cast<unsigned>(rows);
    const std::size_t elements = static_cast<std::size_t>(rows) * width_;
    program::Tensor<float>&x = scratch_[0], &h = scratch_[1], &q = scratch_[2], &k = scratch_[3], &v = scratch_[4],
    &mixed = scratch_[5];
    embedding_gather<<<blocks, kBlock>>>(embedding_.get(), batch_tokens_.get(), x.get(), shape_.width());
    CHECK_LAUNCH();
    for (std::size_t layer = 0; layer < pools_.size(); ++layer) {
      rms_normalize<<<blocks, kWarps * 32>>>(x.get(), h.get(), shape_.width());
      CHECK_LAUNCH();
      project(h, layer, Matrix::query, q, rows);
      project(h, layer, Matrix::key, k, rows);
      project(h, layer, Matrix::value, v, rows);
      kv_append<<<blocks, kBlock>>>(pools_[layer].get(), device_table_.get(), kv_, batch_requests_.get(),
                                    batch_positions_.get(), k.get(), v.get());
      CHECK_LAUNCH();
      paged_attention<<<dim3(blocks, static_cast<unsigned>(shape_.heads)), kWarps * 32>>>(
          mixed.get(), q.get(), pools_[layer].get(), device_table_.get(), kv_, batch_requests_.get(),
          batch_positions_.get());
      CHECK_LAUNCH();
      project(mixed, layer, Matrix::output, h, rows);
      add_in_place<<<blocks_for(elements), kBlock>>>(x.get(), h.get(), elements);
      CHECK_LAUNCH();
    }
    rms_normalize<<<blocks, kWarps * 32>>>(x.get(), h.get(), shape_.width());
    CHECK_LAUNCH();
    gemm_nt<<<product_grid(rows, shape_.vocabulary), kBlock>>>(h.get(), vocabulary_.get(), logits_.get(), rows,
                                                               shape_.vocabulary, shape_.width());
    CHECK_LAUNCH();
    argmax_rows<<<blocks, kWarps * 32>>>(logits_.get(), batch_tokens_.get(), best_.get(), shape_.vocabulary);
    CHECK_LAUNCH();
  }

  DecoderShape shape_;
  KvShape kv_;
  std::vector<Request> requests_;
  std::vector<int> table_;  // [request][page of the request] -> page of the pools
  bool table_changed_ = false;
  int next_page_ = 0;
  program::Tensor<int> device_table_;
  std::size_t width_;
  std::vector<program::Tensor<float>> matrices_, pools_, scratch_;
  program::Tensor<float> embedding_, vocabulary_;
  std::size_t rows_;
  program::Tensor<int> batch_requests_, batch_positions_, batch_tokens_;
  program::Tensor<float> best_, logits_;
};

}  // namespace workload
