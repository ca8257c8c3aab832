// Random allocation, launches, copies, fills, graphs, streams and frees for a while; every result is checked against
// what the host computes. An ordinary CUDA program: knows nothing of Spillway, runs on a GPU and on the simulated
// device.
#include <array>
#include <chrono>
#include <fstream>
#include <random>

#include "examples/program.cuh"
#include "kernels/mlp.cuh"

namespace {

using workload::blocks_for;
using workload::fill_uniform;
using workload::kBlock;
using workload::uniform;

constexpr std::size_t kMebi = std::size_t{1} << 20;
constexpr float kScale = 2.0F;

// What a tensor holds: element i is uniform(seed, i), or zero.
struct Content {
  bool zero = true;
  std::uint64_t seed = 0;
  float at(std::size_t index) const { return zero ? 0.0F : uniform(seed, index, kScale); }
};

struct Block {
  program::Tensor<float> tensor;
  Content content;
  std::size_t stream = 0;  // all its work goes there
};

// What was done, by kind.
enum Kind : std::size_t { kAllocate, kFill, kUpload, kCopy, kZero, kGraph, kVerify, kFree, kKinds };
constexpr std::array<const char*, kKinds> kKindNames = {"allocate", "fill",  "upload", "copy",
                                                        "zero",     "graph", "verify", "free"};

struct Limits {
  std::size_t live_bytes = 0, most_bytes = 0;  // of all blocks, of one
};

class Soak {
 public:
  Soak(std::uint64_t seed, Limits limits) : random_(seed), limits_(limits), streams_(3) {
    for (cudaStream_t& stream : streams_) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~Soak() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  Soak(const Soak&) = delete;
  Soak& operator=(const Soak&) = delete;

  // One random operation.
  void step() {
    const std::size_t what = pick(100);
    if (what < 14 || blocks_.empty())
      allocate();
    else if (what < 44)
      fill(blocks_[pick(blocks_.size())]);
    else if (what < 50)
      upload(blocks_[pick(blocks_.size())]);
    else if (what < 62)
      copy();
    else if (what < 68)
      zero(blocks_[pick(blocks_.size())]);
    else if (what < 76)
      graph();
    else if (what < 96)
      verify(blocks_[pick(blocks_.size())]);
    else
      drop(pick(blocks_.size()));
    ++operations;
  }
  void verify_all() {
    for (Block& block : blocks_) verify(block);
  }

  std::array<std::size_t, kKinds> done{};
  std::size_t operations = 0, verified_bytes = 0, live = 0, live_peak = 0;

 private:
  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }

  void allocate() {
    // Most are small, most bytes are in large ones; sizes are no multiples of anything.
    const std::size_t ceiling = pick(3) == 0 ? limits_.most_bytes : limits_.most_bytes / 16;
    const std::size_t bytes = 4 * (1 + pick(ceiling / 4));
    while (!blocks_.empty() && live + bytes > limits_.live_bytes) drop(pick(blocks_.size()));
    blocks_.push_back({program::Tensor<float>(bytes / 4), {}, pick(streams_.size())});
    live += bytes;
    live_peak = std::max(live_peak, live);
    ++done[kAllocate];
    if (pick(2) == 0)
      fill(blocks_.back());
    else
      zero(blocks_.back());
  }

  void drop(std::size_t index) {
    ++done[kFree];
    verify(blocks_[index]);
    live -= blocks_[index].tensor.bytes();
    std::swap(blocks_[index], blocks_.back());
    blocks_.pop_back();
  }

  void fill(Block& block) {
    ++done[kFill];
    block.content = {false, random_()};
    launch(block);
  }
  void launch(const Block& block) {
    fill_uniform<<<blocks_for(block.tensor.count()), kBlock, 0, streams_[block.stream]>>>(
        block.tensor.get(), block.tensor.count(), block.content.seed, kScale);
    CHECK_LAUNCH();
  }

  // A whole block from host memory; a small one, as the host computes it.
  void upload(Block& block) {
    if (block.tensor.bytes() > 4 * kMebi) return;
    ++done[kUpload];
    block.content = {false, random_()};
    host_.resize(block.tensor.count());
    for (std::size_t i = 0; i < host_.size(); ++i) host_[i] = block.content.at(i);
    CHECK(cudaMemcpyAsync(block.tensor.get(), host_.data(), block.tensor.bytes(), cudaMemcpyHostToDevice,
                          streams_[block.stream]));
    CHECK(cudaStreamSynchronize(streams_[block.stream]));
  }

  void zero(Block& block) {
    ++done[kZero];
    block.content = {};
    CHECK(cudaMemsetAsync(block.tensor.get(), 0, block.tensor.bytes(), streams_[block.stream]));
  }

  // Over the whole of the smaller one, into one of the same stream.
  void copy() {
    Block& from = blocks_[pick(blocks_.size())];
    Block& to = blocks_[pick(blocks_.size())];
    if (&from == &to || from.stream != to.stream || from.tensor.count() < to.tensor.count()) return;
    ++done[kCopy];
    CHECK(cudaMemcpyAsync(to.tensor.get(), from.tensor.get(), to.tensor.bytes(), cudaMemcpyDeviceToDevice,
                          streams_[to.stream]));
    to.content = from.content;
  }

  // Captures fills of up to four blocks of one stream, and launches the graph twice.
  void graph() {
    const std::size_t stream = pick(streams_.size());
    std::vector<Block*> chosen;
    for (Block& block : blocks_) {
      if (block.stream == stream && chosen.size() < 4 && pick(3) == 0) chosen.push_back(&block);
    }
    if (chosen.empty()) return;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaStreamBeginCapture(streams_[stream], cudaStreamCaptureModeThreadLocal));
    for (Block* block : chosen) fill(*block);
    CHECK(cudaStreamEndCapture(streams_[stream], &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int turn = 0; turn < 2; ++turn) CHECK(cudaGraphLaunch(executable, streams_[stream]));
    CHECK(cudaStreamSynchronize(streams_[stream]));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
    ++done[kGraph];
  }

  // A stretch of up to 1 MiB anywhere, and the last element.
  void verify(const Block& block) {
    ++done[kVerify];
    const std::size_t count = block.tensor.count();
    const std::size_t length = std::min<std::size_t>(count, kMebi / 4);
    check(block, pick(count - length + 1), length);
    check(block, count - 1, 1);
  }
  void check(const Block& block, std::size_t first, std::size_t length) {
    host_.resize(length);
    CHECK(cudaMemcpyAsync(host_.data(), block.tensor.get() + first, length * sizeof(float), cudaMemcpyDeviceToHost,
                          streams_[block.stream]));
    CHECK(cudaStreamSynchronize(streams_[block.stream]));
    for (std::size_t i = 0; i < length; ++i) {
      const float expected = block.content.at(first + i);
      if (host_[i] == expected) continue;
      std::fprintf(stderr, "%s: element %zu of a block of %zu is %.9g, should be %.9g (operation %zu)\n", program::name,
                   first + i, block.tensor.count(), static_cast<double>(host_[i]), static_cast<double>(expected),
                   operations);
      std::exit(1);
    }
    verified_bytes += length * sizeof(float);
  }

  std::mt19937_64 random_;
  Limits limits_;
  std::vector<cudaStream_t> streams_;
  std::vector<Block> blocks_;
  std::vector<float> host_;
};

void write_json(const std::string& path, const Soak& soak, double seconds, bool ended) {
  std::ofstream file(path);
  file << "{\"ended\": " << (ended ? "true" : "false") << ", \"seconds\": " << seconds
       << ", \"operations\": " << soak.operations;
  for (std::size_t kind = 0; kind < kKinds; ++kind) file << ", \"" << kKindNames[kind] << "\": " << soak.done[kind];
  file << ", \"live_peak_bytes\": " << soak.live_peak << ", \"compared_bytes\": " << soak.verified_bytes << "}\n";
  if (!file.flush()) program::Flags::fail("--json %s cannot be written", path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  program::name = "soak";
  long long seconds = 600, operations = 0, live = 1024, largest = 256, seed = 1;
  long long every = 10;
  std::string json;
  program::Flags flags("allocates, launches, copies, captures and frees at random, and checks every result");
  flags.number("--seconds", &seconds, 1, 86400, "how long");
  flags.number("--operations", &operations, 0, 1000000000, "how many instead, 0 for as long as --seconds says");
  flags.number("--live", &live, 1, 1 << 20, "MiB that are live at a time, at most");
  flags.number("--largest", &largest, 1, 1 << 16, "MiB of the largest block");
  flags.number("--seed", &seed, 0, 1000000000, "seed of everything");
  flags.number("--progress", &every, 1, 86400, "seconds between lines that say how far it is");
  flags.text("--json", &json, "FILE: what was done, by kind; written with each line");
  flags.parse(argc, argv);
  if (largest > live) program::Flags::fail("--largest %lld must be at most --live %lld", largest, live);
  const auto start = std::chrono::steady_clock::now();
  Soak soak(static_cast<std::uint64_t>(seed),
            {static_cast<std::size_t>(live) * kMebi, static_cast<std::size_t>(largest) * kMebi});
  const auto more = [&] {
    return operations > 0 ? soak.operations < static_cast<std::size_t>(operations)
                          : program::seconds_since(start) < static_cast<double>(seconds);
  };
  double said = 0;
  while (more()) {
    soak.step();
    if (program::seconds_since(start) - said < static_cast<double>(every)) continue;
    said = program::seconds_since(start);
    std::printf("progress: %.0f s, %zu operations, %.1f MiB live, %.1f MiB compared\n", said, soak.operations,
                program::mebibytes(soak.live), program::mebibytes(soak.verified_bytes));
    std::fflush(stdout);
    if (!json.empty()) write_json(json, soak, said, false);
  }
  soak.verify_all();
  CHECK(cudaDeviceSynchronize());
  const double took = program::seconds_since(start);
  if (!json.empty()) write_json(json, soak, took, true);
  std::printf(
      "%zu operations, %zu allocations, %zu graphs in %.1f s; live at most %.1f MiB; %.1f MiB compared: all right\n",
      soak.operations, soak.done[kAllocate], soak.done[kGraph], took, program::mebibytes(soak.live_peak),
      program::mebibytes(soak.verified_bytes));
  return 0;
}
