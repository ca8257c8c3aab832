// A program whose parts of memory are used in turn, many times each, so that what its launches name is worth streaming
// ahead of use. It reads next to nothing of it, as the simulated kernel takes the host's time.
//   turns_probe SCENARIO ITERATIONS
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/shim/end_to_end/telemetry_probe.hpp"

namespace spillway::probe {
namespace {

constexpr std::size_t kBytes = 4 * kMiB;
constexpr std::size_t kGroups = 8;
constexpr std::size_t kOfAGroup = 2;
constexpr unsigned kUses = 50;
constexpr int kElements = 256;

// Who waits between uses: the program, or the stream of a program that enqueues an iteration at once.
enum class Pace { program, stream };

class Turns {
 public:
  explicit Turns(Pace pace = Pace::program) : pace_(pace), work_(1), buffers_(kGroups * kOfAGroup) {
    for (CUdeviceptr& buffer : buffers_) {
      cuMemAlloc_v2(&buffer, kBytes);
      cuMemsetD8_v2(buffer, 0, kBytes);
    }
    cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  }
  // Launches as if the whole buffer was worked on. `use`: no two of an iteration look alike, else a few would be one.
  void launch(CUdeviceptr data, CUstream stream, unsigned use = 0) const {
    int elements = kElements;
    void* parameters[] = {&data, &elements};
    const CUresult code =
        cuLaunchKernel(reinterpret_cast<CUfunction>(work_.device().add_one), kBytes / sizeof(float) / 256 + use, 1, 1,
                       256, 1, 1, 0, stream, parameters, nullptr);
    if (code != CUDA_SUCCESS) say("launch", code);
  }
  void group(std::size_t number) const {
    const CUdeviceptr* const buffers = &buffers_[number * kOfAGroup];
    for (unsigned use = 0; use < kUses; ++use) {
      for (std::size_t i = 0; i < kOfAGroup; ++i) launch(buffers[i], stream_, use);
      if (use % 2 != 0) continue;
      if (pace_ == Pace::program) wait(buffers);
      if (pace_ == Pace::stream) {
        cuLaunchHostFunc(
            stream_, [](void* of) { wait(static_cast<const CUdeviceptr*>(of)); }, const_cast<CUdeviceptr*>(buffers));
      }
    }
  }
  void iteration() const {
    for (std::size_t number = 0; number < kGroups; ++number) group(number);
    cuStreamSynchronize(stream_);
  }
  void report() const {
    float total = 0;
    for (const CUdeviceptr buffer : buffers_) {
      float value = -1;
      cuMemcpyDtoH_v2(&value, buffer, sizeof value);
      total += value;
    }
    std::printf("sum %.0f\nerror %d\n", static_cast<double>(total), cuCtxSynchronize());
  }
  [[nodiscard]] std::vector<int> places() const {
    std::vector<int> all;
    for (const CUdeviceptr buffer : buffers_) all.push_back(spillway_simulated_residency(buffer + kBytes / 2));
    return all;
  }
  [[nodiscard]] CUcontext context() const { return work_.device().context; }
  [[nodiscard]] CUdeviceptr first() const { return buffers_.front(); }

 private:
  // What is on the host takes longer, so that streaming is kept.
  static void wait(const CUdeviceptr* buffers) {
    std::chrono::microseconds takes(10);
    for (std::size_t i = 0; i < kOfAGroup; ++i) {
      if (spillway_simulated_residency(buffers[i] + kBytes / 2) == 2) takes += std::chrono::microseconds(100);
    }
    std::this_thread::sleep_for(takes);
  }

  Pace pace_;
  Workload work_;
  std::vector<CUdeviceptr> buffers_;
  CUstream stream_ = nullptr;
};

void run(int iterations, Pace pace) {
  const Turns turns(pace);
  for (int i = 0; i < iterations; ++i) turns.iteration();
  turns.report();
}

// Captures beside the work, one after the other.
void captures(int iterations) {
  const Turns turns;
  CUstream stream = nullptr;
  std::uint64_t nodes = 0;
  std::uint64_t refused = 0;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < iterations; ++i) {
    turns.iteration();
    CUgraph graph = nullptr;
    std::size_t count = 0;
    std::thread([&] {
      cuCtxSetCurrent(turns.context());
      const auto mode = i % 2 == 0 ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
      refused += cuStreamBeginCapture_v2(stream, mode) != CUDA_SUCCESS ? 1U : 0U;
      for (int n = 0; n < 3; ++n) turns.launch(turns.first(), stream);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));  // the policy thread looks meanwhile
      refused += cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS ? 1U : 0U;
      refused += cuGraphGetNodes(graph, nullptr, &count) != CUDA_SUCCESS ? 1U : 0U;
      cuGraphDestroy(graph);
    }).join();
    nodes += count;
  }
  say("nodes", nodes);
  say("refused", refused);
  turns.report();
}

// Contexts end with all that is in them, launches that have only just been made included.
void contexts(int iterations) {
  static auto* const kept = new std::vector<Turns*>;  // their memory and streams end with the context, not with them
  for (int round = 0; round < 3; ++round) {
    auto* turns = kept->emplace_back(new Turns);
    for (int i = 0; i < iterations; ++i) turns->iteration();
    turns->report();
    turns->group(0);
    say("destroy", cuCtxDestroy_v2(turns->context()));
  }
}

void forks(int iterations) {
  const Turns turns;
  int ended = 0;
  for (int i = 0; i < iterations; ++i) {
    turns.iteration();
    if (i % 8 != 0) continue;
    const pid_t child = fork();
    if (child == 0) i % 16 == 0 ? std::exit(5) : _exit(5);
    int status = 0;
    waitpid(child, &status, 0);
    ended += WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 1 : 0;
  }
  std::printf("children %d\n", ended);
  turns.report();
}

// Ends amid turns, with moves on their way: memory has changed places in some iterations one after the other, and has
// just done so again.
void ends(int iterations) {
  const auto* turns = new Turns;
  std::vector<int> before = turns->places();
  int turning = 0;
  for (int i = 0; i < iterations; ++i) {
    int changes = 0;
    for (std::size_t number = 0; number < kGroups; ++number) {
      turns->group(number);
      const std::vector<int> now = turns->places();
      for (std::size_t buffer = 0; buffer < now.size(); ++buffer) changes += now[buffer] != before[buffer] ? 1 : 0;
      if (turning >= 3 && now != before) {
        std::printf("turning\n");
        std::exit(7);
      }
      before = now;
    }
    turning = changes >= 3 ? turning + 1 : 0;
  }
}

void exits(int iterations) {
  const auto* turns = new Turns;
  for (int i = 0; i < iterations; ++i) turns->iteration();
  std::thread([turns] {
    cuCtxSetCurrent(turns->context());
    for (;;) turns->iteration();
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::exit(6);
}

}  // namespace
}  // namespace spillway::probe

int main(int argc, char** argv) {
  using namespace spillway::probe;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string scenario = argc > 1 ? argv[1] : "";
  const int iterations = argc > 2 ? std::atoi(argv[2]) : 10;
  if (scenario == "run") run(iterations, Pace::program);
  if (scenario == "at_once") run(iterations, Pace::stream);
  if (scenario == "captures") captures(iterations);
  if (scenario == "contexts") contexts(iterations);
  if (scenario == "forks") forks(iterations);
  if (scenario == "ends") ends(iterations);
  if (scenario == "exits") exits(iterations);
}
