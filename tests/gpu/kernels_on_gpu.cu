// Every kernel on the GPU against its host twin, on the same data: integers exactly, floats within rounding. Exit code
// 0 if all agree. Needs a GPU; tests/gpu/kernels.sh runs it.
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "examples/program.cuh"
#include "kernels/calibration.hpp"
#include "kernels/decode.cuh"
#include "kernels/mlp.cuh"
#include "tests/kernels/launch.hpp"

namespace {

using namespace workload;
using program::Tensor;

// Largest difference allowed, in parts of the largest value of the buffer: sums of some thousands of floats.
constexpr double kTolerance = 1e-5;
int failures = 0;
std::set<std::string> covered;

// The same contents on both sides.
template <class T>
struct Both {
  std::vector<T> host;
  Tensor<T> device;
  explicit Both(std::vector<T> values) : host(std::move(values)), device(host.size()) { device.upload(host); }
};

Both<float> random_floats(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = uniform(seed, i, 1.0F);
  return Both<float>(std::move(values));
}

Both<unsigned long long> random_words(std::size_t count) {
  std::vector<unsigned long long> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = mix(i);
  return Both<unsigned long long>(std::move(values));
}

template <class T>
T* on_device(Both<T>& both) {
  return both.device.get();
}
template <class T>
T* on_host(Both<T>& both) {
  return both.host.data();
}
template <class T>
T on_device(const T& value) requires std::is_trivially_copyable_v<T> {
  return value;
}
template <class T>
T on_host(const T& value) requires std::is_trivially_copyable_v<T> {
  return value;
}

void report(const char* name, bool good, double worst) {
  std::printf("%s %s (worst difference %.2g)\n", good ? "PASS" : "FAIL", name, worst);
  if (!good) ++failures;
}

// Worst difference of a buffer, relative to its largest value; 0 or 1 for integers.
template <class T>
double difference(Both<T>& both) {
  const std::vector<T> device = both.device.download();
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < device.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      const double off = std::fabs(static_cast<double>(device[i]) - static_cast<double>(both.host[i]));
      worst = std::max(worst, std::isnan(off) ? HUGE_VAL : off);
      largest = std::max(largest, std::fabs(static_cast<double>(both.host[i])));
    } else if (device[i] != both.host[i]) {
      return 1;
    }
  }
  return worst / largest;
}
template <class T>
double difference(const T&) {
  return 0;
}

template <class... Parameter, class... Argument>
void compare(void (*kernel)(Parameter...), dim3 grid, unsigned block, Argument&&... argument) {
  const char* name = nullptr;
  CHECK(cudaFuncGetName(&name, reinterpret_cast<const void*>(kernel)));
  covered.insert(name);
  kernel<<<grid, block>>>(static_cast<Parameter>(on_device(argument))...);
  CHECK_LAUNCH();
  CHECK(cudaDeviceSynchronize());
  spillway::kernels::launch(name, {grid.x, grid.y, grid.z}, static_cast<Parameter>(on_host(argument))...);
  double worst = 0;
  ((worst = std::max(worst, difference(argument))), ...);
  report(name, worst <= kTolerance, worst);
}

void compare_perceptron() {
  const int m = 70, n = 130, k = 600;  // none a multiple of the tile
  Both<float> a = random_floats(std::size_t(m) * k, 1), b = random_floats(std::size_t(k) * n, 2),
              c = random_floats(std::size_t(m) * n, 3);
  compare(gemm_nn, product_grid(m, n), kBlock, a, b, c, m, n, k);
  compare(gemm_nt, product_grid(m, n), kBlock, a, b, c, m, n, k);
  compare(gemm_tn, product_grid(m, n), kBlock, a, b, c, m, n, k);
  Both<float> y = random_floats(std::size_t(m) * n, 4), bias = random_floats(n, 5), sums = random_floats(m, 6);
  compare(bias_relu, blocks_for(y.host.size()), kBlock, y, bias, m, n, 1);
  compare(squared_error, dim3(m), kBlock, y, c, a, sums, m, n);
  compare(relu_gradient, blocks_for(y.host.size()), kBlock, c, y, y.host.size());
  compare(bias_gradient, blocks_for(n), kBlock, c, bias, m, n);
  Both<float> w = random_floats(100001, 7), g = random_floats(100001, 8), moment = random_floats(100001, 9);
  Both<float> second(std::vector<float>(100001, 0.25F));
  compare(adam_step, blocks_for(w.host.size()), kBlock, w, g, moment, second, w.host.size(), adam_scalars(1e-2F, 3));
  compare(fill_uniform, blocks_for(w.host.size()), kBlock, w, w.host.size(), std::uint64_t{11}, 0.5F);
  std::vector<unsigned> numbers(12345);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<unsigned>(mix(i));
  Both<unsigned> words(std::move(numbers));
  Both<unsigned long long> sum(std::vector<unsigned long long>{5});
  compare(checksum, blocks_for(words.host.size()), kBlock, words, words.host.size(), sum);
}

void compare_decoding() {
  const KvShape shape{.heads = 3, .head_size = 72, .page_tokens = 5, .pages_per_request = 9};
  const int width = static_cast<int>(kv_width(shape)), context = 41;
  std::vector<int> pages(2 * 9);
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<int>(i * 7 % pages.size());  // any order
  Both<int> table(pages), requests(std::vector<int>{1, 0}), positions(std::vector<int>{context, context});
  Both<float> pool(std::vector<float>(pages.size() * kv_page_elements(shape), 0.0F));
  for (int request = 0; request < 2; ++request)
    compare(kv_prompt, dim3(context), kBlock, pool, table, shape, request, std::uint64_t{5});
  Both<float> x = random_floats(2 * width, 1), keys = random_floats(2 * width, 2), values = random_floats(2 * width, 3);
  compare(kv_append, dim3(2), kBlock, pool, table, shape, requests, positions, keys, values);
  Both<float> out = random_floats(2 * width, 4);
  compare(paged_attention, dim3(2, shape.heads), kWarps * 32, out, x, pool, table, shape, requests, positions);
  compare(rms_normalize, dim3(2), kWarps * 32, out, x, width);
  compare(add_in_place, dim3(1), kBlock, x, out, x.host.size());
  Both<float> vocabulary = random_floats(1000, 6);
  Both<int> tokens(std::vector<int>{3, 9});
  compare(embedding_gather, dim3(2), kBlock, vocabulary, tokens, out, 100);
  Both<float> best = random_floats(2, 7);
  compare(argmax_rows, dim3(2), kWarps * 32, vocabulary, tokens, best, 500);
}

// A calibration kernel, loaded as the probe loads it; `output` is what it writes.
template <class Parameters>
void compare_calibration(cudaLibrary_t library, Parameters device, Parameters host, Both<unsigned long long>& output) {
  cudaKernel_t kernel = nullptr;
  CHECK(cudaLibraryGetKernel(&kernel, library, Parameters::kName));
  covered.insert(Parameters::kName);
  auto arguments = device.arguments();
  CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(37), dim3(spillway::kernels::kBlockThreads),
                         arguments.data(), 0, nullptr));
  CHECK(cudaDeviceSynchronize());
  auto host_arguments = host.arguments();
  spillway::kernels::find_twin(Parameters::kName).run({}, host_arguments.data());
  const double worst = difference(output);
  report(Parameters::kName, worst == 0, worst);
}

std::uint64_t device_address(const Both<unsigned long long>& both) {
  return reinterpret_cast<std::uintptr_t>(both.device.get());
}
std::uint64_t host_address(const Both<unsigned long long>& both) {
  return reinterpret_cast<std::uintptr_t>(both.host.data());
}

void compare_calibrations() {
  using namespace spillway::kernels;
  cudaLibrary_t library = nullptr;
  CHECK(cudaLibraryLoadData(&library, calibration_image().data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  constexpr std::uint64_t kVectors = 100003;
  Both<unsigned long long> source = random_words(2 * kVectors), other = random_words(2 * kVectors),
                           sink = random_words(1), sums = random_words(400);
  const std::uint64_t ds = device_address(source), hs = host_address(source), d_sink = device_address(sink),
                      h_sink = host_address(sink);
  compare_calibration(library, StreamRead{ds, kVectors, d_sink}, StreamRead{hs, kVectors, h_sink}, sink);
  compare_calibration(library, StreamWrite{device_address(other), kVectors, 77},
                      StreamWrite{host_address(other), kVectors, 77}, other);
  compare_calibration(library, StreamCopy{device_address(other), ds, kVectors},
                      StreamCopy{host_address(other), hs, kVectors}, other);
  compare_calibration(library, Gather{ds, 1000, 64, 5000, 3, d_sink}, Gather{hs, 1000, 64, 5000, 3, h_sink}, sink);
  compare_calibration(library, TiledReread{ds, kVectors, 512, 3, d_sink}, TiledReread{hs, kVectors, 512, 3, h_sink},
                      sink);
  compare_calibration(library, PageChecksums{ds, kVectors, 256, device_address(sums)},
                      PageChecksums{hs, kVectors, 256, host_address(sums)}, sums);
  CHECK(cudaLibraryUnload(library));
}

}  // namespace

int main() {
  program::name = "kernels_on_gpu";
  compare_perceptron();
  compare_decoding();
  compare_calibrations();
  const spillway::kernels::HostTwin* first = nullptr;
  const std::size_t count = spillway::kernels::spillway_host_twins(&first);
  for (std::size_t i = 0; i < count; ++i) {
    if (!covered.contains(first[i].name)) report(first[i].name, false, HUGE_VAL);
  }
  std::printf("%zu kernels, %d failures\n", covered.size(), failures);
  return failures == 0 ? 0 : 1;
}
