// Programs that never ran: the events that well-known kinds of CUDA programs would make, and what each of their
// launches really touches. For tests of the brain: the truth is known here, and the engine does not see it.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "policy/event.hpp"
#include "policy/shape_costs.hpp"
#include "policy/units.hpp"

namespace spillway::policy::testing {

enum class Role : std::uint8_t { weight, gradient, activation, state, kv, other };

struct Tensor {
  Address address;
  Bytes bytes;
  Role role = Role::other;
};

struct Argument {
  std::uint16_t index = 0;
  Tensor tensor;
  double reads = 1;
  double writes = 0;
};

struct Workload {
  std::vector<Event> events;
  ShapeCosts costs;
  Bytes peak;                                // of driver allocations
  std::vector<LaunchNumber> iteration_ends;  // last launch of each iteration
  std::vector<Tensor> tensors;               // with a role, as they live at the end
  double compute_seconds = 0;
};

// Turns calls into events.
class Writer {
 public:
  Writer() {
    event(DeviceSeen{{0}, {}, 140_GiB, 140_GiB, true, "Virtual"});
    event(HostMemorySeen{400_GiB});
    event(DeviceReserved{{0}, {}, "a context that takes nothing"});
  }

  Address driver_allocate(Bytes bytes) {
    const AllocationId id{++allocations_};
    const Address address{next_address_};
    next_address_ += (bytes.count() + kChunk.count() - 1) / kChunk.count() * kChunk.count();
    event(AllocationRequested{id, {0}, bytes, AllocationKind::linear, {}, {}, false});
    event(AllocationSettled{id, address, bytes, Backing::device, {}});
    ids_[address] = {id, bytes};
    live_ += bytes;
    work.peak = std::max(work.peak, live_);
    return address;
  }
  void driver_free(Address address) {
    const auto [id, bytes] = ids_.at(address);
    event(FreeRequested{id, {}});
    event(Freed{id, {}});
    live_ -= bytes;
    ids_.erase(address);
  }

  void launch(const std::string& function, const std::vector<Argument>& arguments, double seconds,
              std::uint64_t threads = 65536) {
    auto [entry, fresh] =
        functions_.try_emplace(function, FunctionId{static_cast<std::uint32_t>(functions_.size() + 1)});
    if (fresh) event(FunctionSeen{entry->second, function});
    std::string key = function + ":" + std::to_string(threads);
    for (const Argument& a : arguments)
      key += "," + std::to_string(a.index) + "@" + std::to_string(a.tensor.address.value) + "+" +
             std::to_string(a.tensor.bytes.count());
    auto [shape, first] = shapes_.try_emplace(key, LaunchShapeId{static_cast<std::uint32_t>(shapes_.size() + 1)});
    if (first) {
      LaunchShapeSeen seen{shape->second, entry->second, threads, {}};
      ShapeCost cost;
      for (const Argument& a : arguments) {
        seen.arguments.push_back({a.index, a.tensor.address});
        cost.touches.push_back({a.tensor.address, a.tensor.bytes, a.reads, a.writes});
      }
      cost.compute_seconds = seconds;
      work.costs[shape->second] = cost;
      event(seen);
    }
    event(Launched{shape->second, {}});
    ++launches_;
    now_ += 5000;
    device_ = std::max<double>(device_, static_cast<double>(now_)) + seconds * 1e9;
    work.compute_seconds += seconds;
  }
  void copy_in(const Tensor& tensor) { event(Copied{{}, CopyKind::host_to_device, tensor.address, {}, tensor.bytes}); }
  void synchronize() { now_ = std::max(now_, static_cast<std::int64_t>(device_)); }
  void end_iteration() {
    synchronize();
    note_iteration();
  }
  // Of a program that does not wait for it.
  void note_iteration() { work.iteration_ends.push_back({launches_}); }

  Workload work;

 private:
  template <class Body>
  void event(Body body) {
    work.events.push_back({Nanoseconds(now_ += 100), EventBody(std::move(body))});
  }

  std::map<Address, std::pair<AllocationId, Bytes>> ids_;
  std::map<std::string, FunctionId> functions_;
  std::map<std::string, LaunchShapeId> shapes_;
  std::uint32_t allocations_ = 0;
  std::uint64_t next_address_ = 0x7f0000000000;
  std::uint64_t launches_ = 0;
  std::int64_t now_ = 0;
  double device_ = 0;
  Bytes live_;
};

// Behaves as PyTorch's: 2 MiB segments for small tensors, 20 MiB for up to 10 MiB, else one of its own rounded to 2
// MiB; best fit, blocks are split and merged, nothing goes back to the driver.
class CachingAllocator {
 public:
  explicit CachingAllocator(Writer& writer) : writer_(writer) {}

  Tensor allocate(Bytes bytes, Role role) {
    const std::uint64_t size = std::max<std::uint64_t>((bytes.count() + 511) / 512 * 512, 512);
    const bool small = size <= kSmall;
    auto best = blocks_.end();
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      if (block->second.used || block->second.small != small || block->second.bytes < size) continue;
      if (best == blocks_.end() || block->second.bytes < best->second.bytes) best = block;
    }
    if (best == blocks_.end()) {
      const std::uint64_t segment = small               ? 2 << 20
                                    : size < (10 << 20) ? 20 << 20
                                                        : (size + (2 << 20) - 1) / (2 << 20) * (2 << 20);
      const Address address = writer_.driver_allocate(Bytes(segment));
      best = blocks_.emplace(address.value, Block{segment, address.value, false, small}).first;
    }
    const std::uint64_t rest = best->second.bytes - size;
    if (rest >= (small ? 512 : kSmall + 1)) {
      blocks_.emplace(best->first + size, Block{rest, best->second.segment, false, small});
      best->second.bytes = size;
    }
    best->second.used = true;
    return {{best->first}, bytes, role};
  }

  void free(const Tensor& tensor) {
    auto block = blocks_.find(tensor.address.value);
    block->second.used = false;
    const auto merge = [this](auto left, auto right) {
      if (left->second.used || right->second.used || left->second.segment != right->second.segment) return false;
      left->second.bytes += right->second.bytes;
      blocks_.erase(right);
      return true;
    };
    if (const auto next = std::next(block); next != blocks_.end()) merge(block, next);
    if (block != blocks_.begin()) merge(std::prev(block), block);
  }

 private:
  static constexpr std::uint64_t kSmall = 1 << 20;
  struct Block {
    std::uint64_t bytes;
    std::uint64_t segment;
    bool used;
    bool small;
  };
  Writer& writer_;
  std::map<std::uint64_t, Block> blocks_;  // by address
};

enum class Adam : std::uint8_t { fused, foreach };

struct GptOptions {
  int layers = 8;
  std::uint64_t width = 1024;
  std::uint64_t tokens = 4096;
  std::uint64_t vocabulary = 8192;
  int iterations = 60;
  Adam adam = Adam::fused;
  int micro_steps = 1;     // gradient accumulation
  int evaluate_every = 0;  // iterations; an evaluation is forward only
};

class GptTraining {
 public:
  explicit GptTraining(GptOptions options) : o_(options), pool_(writer_) {}

  Workload run() {
    const std::uint64_t d = o_.width;
    add_weight(o_.vocabulary * d);
    for (int layer = 0; layer < o_.layers; ++layer) {
      add_weight(3 * d * d);
      add_weight(d * d);
      add_weight(4 * d * d);
      add_weight(4 * d * d);
    }
    for (int step = 0; step < o_.iterations; ++step) {
      for (int micro = 0; micro < o_.micro_steps; ++micro) {
        Saved saved = forward();
        backward(saved);
      }
      optimize(step == 0);
      writer_.end_iteration();
      if (o_.evaluate_every > 0 && step % o_.evaluate_every == o_.evaluate_every - 1) {
        for (int i = 0; i < 3; ++i) release(forward());
        writer_.synchronize();
      }
    }
    for (const auto* list : {&weights_, &gradients_, &first_, &second_}) {
      writer_.work.tensors.insert(writer_.work.tensors.end(), list->begin(), list->end());
    }
    return std::move(writer_.work);
  }

 private:
  using Saved = std::vector<Tensor>;

  void add_weight(std::uint64_t count) { weights_.push_back(pool_.allocate(Bytes(count * 4), Role::weight)); }
  Tensor activation(std::uint64_t columns) { return pool_.allocate(Bytes(o_.tokens * columns * 2), Role::activation); }
  double gemm_seconds(const Tensor& weight) const {
    return 2.0 * static_cast<double>(o_.tokens) * static_cast<double>(weight.bytes.count() / 4) / 400e12;
  }
  static double memory_seconds(Bytes bytes) { return static_cast<double>(bytes.count()) / 3e12; }

  // x @ w: the fp32 weight is cast first, as autocast does.
  Tensor linear(const Tensor& x, const Tensor& weight, std::uint64_t columns) {
    const Tensor cast = pool_.allocate(Bytes(weight.bytes.count() / 2), Role::other);
    writer_.launch("cast_kernel", {{0, cast, 0, 1}, {1, weight, 1, 0}}, memory_seconds(weight.bytes));
    const Tensor y = activation(columns);
    const double again = std::max(1.0, static_cast<double>(o_.tokens) / 256);
    writer_.launch("sm90_xmma_gemm_bf16", {{0, x, 4, 0}, {1, cast, std::min(again, 16.0), 0}, {2, y, 0, 1}},
                   gemm_seconds(weight), o_.tokens / 128 * (columns / 128 + 1) * 384);
    pool_.free(cast);
    return y;
  }

  Saved forward() {
    const std::uint64_t d = o_.width;
    Saved saved;
    Tensor x = activation(d);
    writer_.launch("embedding_kernel", {{0, x, 0, 1}, {1, weights_[0], 0.1, 0}}, memory_seconds(x.bytes));
    saved.push_back(x);
    for (int layer = 0; layer < o_.layers; ++layer) {
      const std::size_t at = 1 + static_cast<std::size_t>(layer) * 4;
      const Tensor qkv = linear(x, weights_[at], 3 * d);
      const Tensor heads = activation(d);
      writer_.launch("flash_fwd_kernel", {{0, qkv, 1, 0}, {1, heads, 0, 1}}, memory_seconds(qkv.bytes) * 4);
      const Tensor projected = linear(heads, weights_[at + 1], d);
      writer_.launch("residual_kernel", {{0, projected, 1, 1}, {1, x, 1, 0}}, memory_seconds(x.bytes) * 3);
      const Tensor hidden = linear(projected, weights_[at + 2], 4 * d);
      const Tensor gelu = activation(4 * d);
      writer_.launch("gelu_kernel", {{0, gelu, 0, 1}, {1, hidden, 1, 0}}, memory_seconds(hidden.bytes) * 2);
      const Tensor out = linear(gelu, weights_[at + 3], d);
      for (const Tensor& t : {qkv, heads, projected, hidden, gelu, out}) saved.push_back(t);
      x = out;
    }
    return saved;
  }

  void release(const Saved& saved) {
    for (const Tensor& tensor : saved) pool_.free(tensor);
  }

  void backward(Saved& saved) {
    const std::uint64_t d = o_.width;
    if (gradients_.empty()) {
      for (const Tensor& weight : weights_) gradients_.push_back(pool_.allocate(weight.bytes, Role::gradient));
    }
    Tensor dy = activation(d);
    writer_.launch("loss_kernel", {{0, dy, 0, 1}, {1, saved.back(), 1, 0}}, memory_seconds(dy.bytes) * 2);
    for (int layer = o_.layers - 1; layer >= 0; --layer) {
      const std::size_t at = 1 + static_cast<std::size_t>(layer) * 4;
      const std::size_t base = 1 + static_cast<std::size_t>(layer) * 6;
      dy = linear_backward(dy, saved[base + 4], at + 3, 4 * d);  // through the second matrix
      dy = elementwise_backward("gelu_backward", dy, saved[base + 3]);
      dy = linear_backward(dy, saved[base + 2], at + 2, d);
      dy = elementwise_backward("residual_backward", dy, saved[base + 2]);
      dy = linear_backward(dy, saved[base + 1], at + 1, d);
      const Tensor dqkv = activation(3 * d);
      writer_.launch("flash_bwd_kernel", {{0, dqkv, 0, 1}, {1, dy, 1, 0}, {2, saved[base], 1, 0}},
                     memory_seconds(dqkv.bytes) * 8);
      pool_.free(dy);
      dy = linear_backward(dqkv, saved[base - 1], at, d);
      for (std::size_t i = 0; i < 6; ++i) pool_.free(saved[base + i]);
    }
    writer_.launch("embedding_backward", {{0, gradients_[0], 0.1, 0.1}, {1, dy, 1, 0}}, memory_seconds(dy.bytes));
    pool_.free(dy);
    pool_.free(saved[0]);
    saved.clear();
  }

  Tensor elementwise_backward(const char* name, const Tensor& dy, const Tensor& kept) {
    const Tensor dx = pool_.allocate(dy.bytes, Role::activation);
    writer_.launch(name, {{0, dx, 0, 1}, {1, dy, 1, 0}, {2, kept, 1, 0}}, memory_seconds(dy.bytes) * 3);
    pool_.free(dy);
    return dx;
  }

  Tensor linear_backward(const Tensor& dy, const Tensor& x, std::size_t weight, std::uint64_t columns) {
    const Tensor& w = weights_[weight];
    writer_.launch("sm90_xmma_wgrad_bf16", {{0, dy, 4, 0}, {1, x, 4, 0}, {2, gradients_[weight], 1, 1}},
                   gemm_seconds(w));
    const Tensor cast = pool_.allocate(Bytes(w.bytes.count() / 2), Role::other);
    writer_.launch("cast_kernel", {{0, cast, 0, 1}, {1, w, 1, 0}}, memory_seconds(w.bytes));
    const Tensor dx = activation(columns);
    writer_.launch("sm90_xmma_dgrad_bf16", {{0, dy, 4, 0}, {1, cast, 16, 0}, {2, dx, 0, 1}}, gemm_seconds(w));
    pool_.free(cast);
    pool_.free(dy);
    return dx;
  }

  void optimize(bool first) {
    if (first) {
      for (const Tensor& weight : weights_) {
        first_.push_back(pool_.allocate(weight.bytes, Role::state));
        second_.push_back(pool_.allocate(weight.bytes, Role::state));
      }
    }
    constexpr std::size_t kGroup = 12;
    for (std::size_t begin = 0; begin < weights_.size(); begin += kGroup) {
      const std::size_t end = std::min(weights_.size(), begin + kGroup);
      if (o_.adam == Adam::fused) {
        update("FusedAdamMathFunctor", begin, end,
               {{&weights_, 1, 1}, {&gradients_, 1, 0}, {&first_, 1, 1}, {&second_, 1, 1}});
      } else {
        update("multi_tensor_apply_lerp", begin, end, {{&first_, 1, 1}, {&gradients_, 1, 0}});
        update("multi_tensor_apply_addcmul", begin, end, {{&second_, 1, 1}, {&gradients_, 1, 0}});
        std::vector<Tensor> roots;
        for (std::size_t i = begin; i < end; ++i) roots.push_back(pool_.allocate(weights_[i].bytes, Role::other));
        update_roots("multi_tensor_apply_sqrt", begin, end, roots, second_, 0, 1);
        update_roots("multi_tensor_apply_addcdiv", begin, end, roots, first_, 1, 0);
        for (const Tensor& root : roots) pool_.free(root);
      }
    }
  }

  struct List {
    const std::vector<Tensor>* tensors;
    double reads, writes;
  };
  void update(const std::string& name, std::size_t begin, std::size_t end, const std::vector<List>& lists) {
    std::vector<Argument> arguments;
    Bytes bytes;
    for (const List& list : lists) {
      for (std::size_t i = begin; i < end; ++i) {
        arguments.push_back({1, (*list.tensors)[i], list.reads, list.writes});
        bytes += (*list.tensors)[i].bytes;
      }
    }
    writer_.launch(name, arguments, memory_seconds(bytes) * 1.7);
  }
  void update_roots(const std::string& name, std::size_t begin, std::size_t end, const std::vector<Tensor>& roots,
                    const std::vector<Tensor>& states, double root_reads, double root_writes) {
    std::vector<Argument> arguments;
    Bytes bytes;
    for (std::size_t i = begin; i < end; ++i) {
      arguments.push_back({1, roots[i - begin], root_reads, root_writes});
      arguments.push_back({1, states[i], 1, 0});
      bytes += roots[i - begin].bytes + states[i].bytes;
      if (root_reads > 0) arguments.push_back({1, weights_[i], 1, 1});
    }
    writer_.launch(name, arguments, memory_seconds(bytes) * 1.5);
  }

  GptOptions o_;
  Writer writer_;
  CachingAllocator pool_;
  std::vector<Tensor> weights_, gradients_, first_, second_;
};

struct DecodeOptions {
  int layers = 16;
  std::uint64_t width = 2048;
  int tokens = 100;
  Bytes kv_per_layer = 24_MiB;  // each of K and V, allocated at once (a static cache)
  bool one_pool = false;        // everything cut from one allocation
};

// One request, token by token: each weight crosses once a token, the KV cache is read as far as it is filled.
inline Workload llama_decode(const DecodeOptions& o) {
  Writer writer;
  const std::uint64_t d = o.width;
  std::uint64_t pool_used = 0;
  Address pool;
  const std::vector<std::uint64_t> sizes{3 * d * d * 2, d * d * 2, 2 * 3 * d * d * 2, 3 * d * d * 2};
  std::uint64_t total = 64 << 20;
  for (const std::uint64_t size : sizes) total += static_cast<std::uint64_t>(o.layers) * size;
  total += static_cast<std::uint64_t>(o.layers) * 2 * o.kv_per_layer.count();
  if (o.one_pool) pool = writer.driver_allocate(Bytes(total));
  const auto make = [&](Bytes bytes, Role role) {
    Tensor tensor{{}, bytes, role};
    if (o.one_pool) {
      tensor.address = pool + Bytes(pool_used);
      pool_used += (bytes.count() + 511) / 512 * 512;
    } else {
      tensor.address = writer.driver_allocate(bytes);
    }
    return tensor;
  };
  std::vector<std::vector<Tensor>> weights;
  std::vector<Tensor> keys, values;
  for (int layer = 0; layer < o.layers; ++layer) {
    weights.emplace_back();
    for (const std::uint64_t size : sizes) weights.back().push_back(make(Bytes(size), Role::weight));
    for (const Tensor& weight : weights.back()) writer.copy_in(weight);
  }
  for (int layer = 0; layer < o.layers; ++layer) {
    keys.push_back(make(o.kv_per_layer, Role::kv));
    values.push_back(make(o.kv_per_layer, Role::kv));
  }
  const Tensor x = make(2_MiB, Role::other), y = make(2_MiB, Role::other);
  const auto seconds = [](Bytes bytes) { return static_cast<double>(bytes.count()) / 3.5e12; };
  for (int token = 0; token < o.tokens; ++token) {
    for (int layer = 0; layer < o.layers; ++layer) {
      const auto at = static_cast<std::size_t>(layer);
      writer.launch("rms_norm", {{0, y, 0, 1}, {1, x, 1, 0}}, 2e-6, 2048);
      for (const Tensor& weight : {weights[at][0]}) {
        writer.launch("gemv_bf16", {{0, weight, 1, 0}, {1, y, 1, 0}, {2, x, 0, 1}}, seconds(weight.bytes), 8192);
      }
      const Bytes filled(o.kv_per_layer.count() * static_cast<std::uint64_t>(token + 8) /
                         static_cast<std::uint64_t>(o.tokens + 8));
      Tensor k = keys[at], v = values[at];
      k.bytes = v.bytes = 4_KiB;
      writer.launch("reshape_and_cache_kv_cache", {{0, x, 1, 0}, {1, k, 0, 1}, {2, v, 0, 1}}, 2e-6, 512);
      k.bytes = v.bytes = filled;
      writer.launch("flash_attention_decode", {{0, x, 1, 0}, {1, k, 1, 0}, {2, v, 1, 0}, {3, y, 0, 1}},
                    seconds(filled + filled), 4096);
      for (std::size_t i = 1; i < 4; ++i) {
        writer.launch("gemv_bf16", {{0, weights[at][i], 1, 0}, {1, y, 1, 0}, {2, x, 0, 1}},
                      seconds(weights[at][i].bytes), 8192 * (i + 1));
      }
    }
    writer.end_iteration();
  }
  for (const auto& layer : weights) writer.work.tensors.insert(writer.work.tensors.end(), layer.begin(), layer.end());
  writer.work.tensors.insert(writer.work.tensors.end(), keys.begin(), keys.end());
  writer.work.tensors.insert(writer.work.tensors.end(), values.begin(), values.end());
  return std::move(writer.work);
}

// An MLP with Adam kernels of its own and one cudaMalloc per tensor, each update one launch.
inline Workload mlp_adam(int layers = 24, Bytes weight_bytes = 32_MiB, int iterations = 60) {
  Writer writer;
  std::vector<Tensor> weights, gradients, first, second, activations;
  const auto make = [&](Role role) { return Tensor{writer.driver_allocate(weight_bytes), weight_bytes, role}; };
  for (int i = 0; i < layers; ++i) {
    weights.push_back(make(Role::weight));
    gradients.push_back(make(Role::gradient));
    first.push_back(make(Role::state));
    second.push_back(make(Role::state));
    activations.push_back(Tensor{writer.driver_allocate(8_MiB), 8_MiB, Role::activation});
  }
  const auto n = static_cast<std::size_t>(layers);
  for (int step = 0; step < iterations; ++step) {
    for (std::size_t i = 0; i + 1 < n; ++i) {
      writer.launch("mlp_forward", {{0, activations[i], 1, 0}, {1, weights[i], 1, 0}, {2, activations[i + 1], 0, 1}},
                    1e-4);
    }
    for (std::size_t i = n - 1; i > 0; --i) {
      writer.launch("mlp_backward_weight",
                    {{0, activations[i], 1, 0}, {1, activations[i - 1], 1, 0}, {2, gradients[i], 0, 1}}, 1e-4);
      writer.launch("mlp_backward_data",
                    {{0, activations[i], 1, 0}, {1, weights[i], 1, 0}, {2, activations[i - 1], 0, 1}}, 1e-4);
    }
    for (std::size_t i = 0; i < n; ++i) {
      writer.launch("update_rule",
                    {{0, weights[i], 1, 1}, {1, gradients[i], 1, 0}, {2, first[i], 1, 1}, {3, second[i], 1, 1}}, 8e-5);
    }
    writer.end_iteration();
  }
  for (const auto* list : {&weights, &gradients, &first, &second}) {
    writer.work.tensors.insert(writer.work.tensors.end(), list->begin(), list->end());
  }
  return std::move(writer.work);
}

// The MLP with Adam again, by a program that asks the driver for each activation and frees it in the same step.
inline Workload mlp_without_pool(int layers = 24, Bytes weight_bytes = 32_MiB, int iterations = 60) {
  Writer writer;
  std::vector<Tensor> weights, gradients, first, second;
  const auto make = [&](Role role) { return Tensor{writer.driver_allocate(weight_bytes), weight_bytes, role}; };
  for (int i = 0; i < layers; ++i) {
    weights.push_back(make(Role::weight));
    gradients.push_back(make(Role::gradient));
    first.push_back(make(Role::state));
    second.push_back(make(Role::state));
  }
  const auto n = static_cast<std::size_t>(layers);
  for (int step = 0; step < iterations; ++step) {
    std::vector<Tensor> activations;
    for (std::size_t i = 0; i < n; ++i) {
      activations.push_back({writer.driver_allocate(24_MiB), 24_MiB, Role::activation});
      if (i > 0)
        writer.launch("mlp_forward", {{0, activations[i - 1], 4, 0}, {1, weights[i], 1, 0}, {2, activations[i], 0, 1}},
                      1e-4);
    }
    for (std::size_t i = n - 1; i > 0; --i) {
      writer.launch("mlp_backward_weight",
                    {{0, activations[i], 4, 0}, {1, activations[i - 1], 4, 0}, {2, gradients[i], 0, 1}}, 1e-4);
      writer.launch("mlp_backward_data",
                    {{0, activations[i], 4, 0}, {1, weights[i], 1, 0}, {2, activations[i - 1], 0, 1}}, 1e-4);
    }
    for (const Tensor& activation : activations) writer.driver_free(activation.address);
    for (std::size_t i = 0; i < n; ++i) {
      writer.launch("update_rule",
                    {{0, weights[i], 1, 1}, {1, gradients[i], 1, 0}, {2, first[i], 1, 1}, {3, second[i], 1, 1}}, 8e-5);
    }
    writer.end_iteration();
  }
  for (const auto* list : {&weights, &gradients, &first, &second}) {
    writer.work.tensors.insert(writer.work.tensors.end(), list->begin(), list->end());
  }
  return std::move(writer.work);
}

// Look-ups in tables far larger than what one step touches, beside a dense part that fits.
inline Workload sparse_embedding(int tables = 4, Bytes table_bytes = 512_MiB, int iterations = 160) {
  Writer writer;
  std::vector<Tensor> all, dense;
  for (int i = 0; i < tables; ++i) all.push_back({writer.driver_allocate(table_bytes), table_bytes, Role::other});
  for (int i = 0; i < 16; ++i) dense.push_back({writer.driver_allocate(32_MiB), 32_MiB, Role::weight});
  const Tensor rows{writer.driver_allocate(16_MiB), 16_MiB, Role::activation};
  for (int step = 0; step < iterations; ++step) {
    for (const Tensor& table : all) {
      writer.launch("embedding_lookup", {{0, table, 0.02, 0}, {1, rows, 0, 1}}, 3e-5);
    }
    for (const Tensor& weight : dense) writer.launch("dense_layer", {{0, rows, 1, 1}, {1, weight, 1, 0}}, 6e-5);
    writer.end_iteration();
  }
  writer.work.tensors = all;
  writer.work.tensors.insert(writer.work.tensors.end(), dense.begin(), dense.end());
  return std::move(writer.work);
}

}  // namespace spillway::policy::testing
