// How long launches take while memory moves: phases in which one or the other half of the buffers is hot, so that
// whoever manages memory has to exchange them, and small launches all the while. Writes when each began
// (CLOCK_MONOTONIC) and how long the call took, as binary pairs of 64-bit nanoseconds. An ordinary CUDA program.
#include <time.h>

#include <algorithm>

#include "examples/program.cuh"
#include "kernels/mlp.cuh"

namespace {

using workload::blocks_for;
using workload::checksum;
using workload::fill_uniform;
using workload::kBlock;

std::int64_t nanoseconds() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
}

struct Sample {
  std::int64_t began, took;
};

}  // namespace

int main(int argc, char** argv) {
  program::name = "launch_latency";
  long long buffers = 12, size = 512, phases = 4, rounds = 120, small = 24;
  std::string path;
  program::Flags flags("measures what launches cost while memory is exchanged");
  flags.number("--buffers", &buffers, 2, 1024, "buffers; a phase uses one half of them");
  flags.number("--size", &size, 2, 1 << 16, "MiB of a buffer");
  flags.number("--phases", &phases, 1, 1000, "how often the halves change");
  flags.number("--rounds", &rounds, 1, 1000000, "rounds over the hot half in a phase");
  flags.number("--small", &small, 1, 1000, "small launches between two large ones");
  flags.text("--samples", &path, "FILE: pairs of begin and duration, 64-bit nanoseconds");
  flags.parse(argc, argv);

  std::vector<program::Tensor<float>> memory;
  for (long long i = 0; i < buffers; ++i) {
    memory.emplace_back(static_cast<std::size_t>(size) << 18U);
    fill_uniform<<<blocks_for(memory.back().count()), kBlock>>>(memory.back().get(), memory.back().count(),
                                                                static_cast<std::uint64_t>(i), 1.0F);
    CHECK_LAUNCH();
  }
  program::Tensor<float> little(1024);
  program::Tensor<unsigned long long> sums(static_cast<std::size_t>(buffers));
  sums.zero();
  CHECK(cudaDeviceSynchronize());
  std::vector<Sample> samples;
  samples.reserve(static_cast<std::size_t>(phases * rounds * (buffers / 2) * small));
  std::vector<unsigned long long> first(static_cast<std::size_t>(buffers)), counts(static_cast<std::size_t>(buffers));
  for (long long phase = 0; phase < phases; ++phase) {
    const auto begin = static_cast<std::size_t>(phase % 2 == 0 ? 0 : buffers / 2);
    for (long long round = 0; round < rounds; ++round) {
      for (std::size_t i = begin; i < begin + static_cast<std::size_t>(buffers / 2); ++i) {
        checksum<<<blocks_for(memory[i].count()), kBlock>>>(reinterpret_cast<const unsigned*>(memory[i].get()),
                                                            memory[i].count(), sums.get() + i);
        CHECK_LAUNCH();
        ++counts[i];
        // The queue is empty when they are measured: a full one would be waited for.
        CHECK(cudaDeviceSynchronize());
        for (long long n = 0; n < small; ++n) {
          const std::int64_t began = nanoseconds();
          fill_uniform<<<1, kBlock>>>(little.get(), little.count(), 1, 1.0F);
          samples.push_back({began, nanoseconds() - began});
        }
        CHECK_LAUNCH();
        CHECK(cudaDeviceSynchronize());
      }
    }
  }
  // Every pass adds the same number.
  const std::vector<unsigned long long> added = sums.download();
  sums.zero();
  for (std::size_t i = 0; i < memory.size(); ++i) {
    checksum<<<blocks_for(memory[i].count()), kBlock>>>(reinterpret_cast<const unsigned*>(memory[i].get()),
                                                        memory[i].count(), sums.get() + i);
    CHECK_LAUNCH();
  }
  first = sums.download();
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (added[i] == first[i] * counts[i]) continue;
    std::fprintf(stderr, "%s: buffer %zu changed: %llu is not %llu times %llu\n", program::name, i, added[i], counts[i],
                 first[i]);
    return 1;
  }
  if (!path.empty()) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) program::Flags::fail("--samples %s cannot be written", path.c_str());
    std::fwrite(samples.data(), sizeof(Sample), samples.size(), file);
    std::fclose(file);
  }
  std::vector<std::int64_t> took;
  for (const Sample& sample : samples) took.push_back(sample.took);
  std::sort(took.begin(), took.end());
  std::printf("%zu small launches: median %.1f us, p99 %.1f us; sums verified\n", took.size(),
              static_cast<double>(took[took.size() / 2]) / 1e3,
              static_cast<double>(took[took.size() * 99 / 100]) / 1e3);
  return 0;
}
