// What the small CUDA programs of the compatibility matrix share: checked calls, and the line that a row ends in.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

namespace compatibility {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kOutOfMemoryExit = 3;

// A string as JSON has it; what the programs print holds no control characters.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + '"';
}

[[noreturn]] inline void end_with_error(const char* row, const std::string& error, bool out_of_memory) {
  std::printf("RESULT {\"row\": %s, \"error\": %s, \"out_of_memory\": %s}\n", quoted(row).c_str(),
              quoted(error).c_str(), out_of_memory ? "true" : "false");
  std::fflush(stdout);
  std::exit(out_of_memory ? kOutOfMemoryExit : 1);
}

// Ends the program with the row's error where a call of the runtime failed.
inline void check(const char* row, cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  end_with_error(row, std::string(what) + ": " + cudaGetErrorName(code), code == cudaErrorMemoryAllocation);
}

// `values` have to be the same bare and under Spillway.
inline int print_result(const char* row, const std::vector<double>& values, std::size_t peak_bytes, const char* path) {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  std::printf("RESULT {\"row\": %s, \"values\": [", quoted(row).c_str());
  for (std::size_t i = 0; i < values.size(); ++i) std::printf("%s%.17g", i == 0 ? "" : ", ", values[i]);
  std::printf("], \"peak_bytes\": %zu, \"path\": %s, \"version\": \"CUDA runtime %d.%d\"}\n", peak_bytes,
              quoted(path).c_str(), runtime / 1000, runtime % 1000 / 10);
  return 0;
}

// Blocks of 32-bit words that are mixed with each other: what any of the allocating programs does with its memory.
constexpr std::size_t kBlocks = 24;
constexpr std::size_t kBlockBytes = 64 * kMiB;
constexpr std::size_t kWords = kBlockBytes / sizeof(unsigned);

static __global__ void fill_words(unsigned* words, std::size_t count, unsigned seed) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x) {
    words[i] = static_cast<unsigned>(i) * 2654435761u + seed;
  }
}

static __global__ void mix_words(const unsigned* from, unsigned* to, std::size_t count) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x) {
    to[i] = to[i] * 3u + from[i];
  }
}

static __global__ void add_words(const unsigned* words, std::size_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += std::size_t{gridDim.x} * blockDim.x)
    mine += words[i];
  atomicAdd(sum, mine);
}

// Fills the blocks, mixes each into the next a few times, and returns the sum of some of them.
inline std::vector<double> work_on(const char* row, const std::vector<unsigned*>& blocks, std::size_t words,
                                   cudaStream_t stream) {
  constexpr int kPasses = 6, kGrid = 1024, kThreads = 256;
  unsigned long long* sum = nullptr;
  check(row, cudaMalloc(&sum, sizeof *sum), "cudaMalloc");
  for (std::size_t i = 0; i < blocks.size(); ++i)
    fill_words<<<kGrid, kThreads, 0, stream>>>(blocks[i], words, static_cast<unsigned>(i));
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      mix_words<<<kGrid, kThreads, 0, stream>>>(blocks[i], blocks[(i + 1) % blocks.size()], words);
    }
  }
  std::vector<double> values;
  for (std::size_t i = 0; i < blocks.size(); i += 4) {
    check(row, cudaMemsetAsync(sum, 0, sizeof *sum, stream), "cudaMemsetAsync");
    add_words<<<kGrid, kThreads, 0, stream>>>(blocks[i], words, sum);
    unsigned long long value = 0;
    check(row, cudaMemcpyAsync(&value, sum, sizeof value, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(row, cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    values.push_back(static_cast<double>(value));
  }
  check(row, cudaGetLastError(), "a launch");
  cudaFree(sum);
  return values;
}

}  // namespace compatibility
