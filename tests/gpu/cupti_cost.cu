// What CUPTI's kernel activity costs a launch, by how it is used: left on or switched per window, flushed often or
// seldom, with the unified-memory counters or without. The ways alternate, round after round, in one process; small
// kernels, so that the host is the limit, and longer ones, so that the GPU is. Prints JSON: medians, microseconds a
// launch. An ordinary CUDA program, to be run without Spillway.
#include <cupti.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "examples/program.cuh"

namespace {

std::atomic<std::size_t> records{0};

#define CUPTI(call)                                                                   \
  do {                                                                                \
    const CUptiResult result = (call);                                                \
    if (result != CUPTI_SUCCESS) {                                                    \
      std::fprintf(stderr, "%s: %s: CUPTI error %d\n", program::name, #call, result); \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (false)

__global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *size = std::size_t{1} << 20;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
  *most = 0;
}

void CUPTIAPI take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer, std::size_t /*size*/,
                          std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ++records;
  }
  std::free(buffer);
}

void count_pages(bool on) {
  if (!on) {
    CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
    return;
  }
  CUpti_ActivityUnifiedMemoryCounterConfig configs[2] = {};
  configs[0].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT;
  configs[1].kind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
  for (auto& config : configs) {
    config.scope = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE;
    config.enable = 1;
  }
  CUPTI(cuptiActivityConfigureUnifiedMemoryCounter(configs, 2));
  CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER));
}

struct Way {
  const char* name;
  bool kernels;
  int flush_ms;      // 0: never
  long long window;  // launches after which activity is switched off and on again, 0: never
  bool pages;
  std::vector<double> took[2];  // microseconds a launch: small kernels, longer ones
};

double run(const Way& way, long long launches, long long cycles) {
  if (way.pages) count_pages(true);
  if (way.kernels) CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  std::atomic<bool> over{false};
  std::atomic<long long> launched{0};
  std::thread beside([&] {
    long long next = way.window;
    while (!over && way.flush_ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(way.flush_ms));
      CUPTI(cuptiActivityFlushAll(0));
      if (way.window == 0 || launched < next) continue;
      CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
      CUPTI(cuptiActivityFlushAll(0));
      CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
      next = launched + way.window;
    }
  });
  const auto start = std::chrono::steady_clock::now();
  for (long long i = 0; i < launches; ++i) {
    spin<<<1, 32>>>(cycles);
    launched.store(i, std::memory_order_relaxed);
    if (i % 1000 == 999) CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaDeviceSynchronize());
  const double seconds = program::seconds_since(start);
  over = true;
  beside.join();
  if (way.kernels) CUPTI(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  if (way.pages) count_pages(false);
  CUPTI(cuptiActivityFlushAll(0));
  return 1e6 * seconds / static_cast<double>(launches);
}

}  // namespace

int main(int argc, char** argv) {
  program::name = "cupti_cost";
  long long rounds = 5, launches = 20000, small = 200, longer = 30000;
  program::Flags flags("measures what kernel activity costs a launch");
  flags.number("--rounds", &rounds, 1, 1000, "rounds over all ways");
  flags.number("--launches", &launches, 1000, 10000000, "launches of each kind in a way's turn");
  flags.number("--small", &small, 0, 1000000000, "cycles of a small kernel");
  flags.number("--longer", &longer, 0, 1000000000, "cycles of a longer one");
  flags.parse(argc, argv);
  CUPTI(cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
  void* managed = nullptr;
  CHECK(cudaFree(nullptr));  // counters need a context
  count_pages(true);         // the counters wake with managed memory made after CUPTI's first call
  CHECK(cudaMallocManaged(&managed, 4 << 20));
  count_pages(false);
  CHECK(cudaDeviceSynchronize());
  Way ways[] = {{"off", false, 0, 0, false, {}},
                {"on", true, 0, 0, false, {}},
                {"on, flushed every 100 ms", true, 100, 0, false, {}},
                {"on, flushed every 5 ms", true, 5, 0, false, {}},
                {"windows of 1000, flushed every 5 ms", true, 5, 1000, false, {}},
                {"windows of 8000, flushed every 5 ms", true, 5, 8000, false, {}},
                {"counters alone", false, 0, 0, true, {}},
                {"counters alone, flushed every 5 ms", false, 5, 0, true, {}},
                {"on with counters, flushed every 100 ms", true, 100, 0, true, {}},
                {"on with counters, flushed every 5 ms", true, 5, 0, true, {}}};
  const long long cycles[] = {small, longer};
  for (long long round = -1; round < rounds; ++round) {
    for (Way& way : ways) {
      for (int kind = 0; kind < 2; ++kind) {
        const double took = run(way, launches, cycles[kind]);
        if (round >= 0) way.took[kind].push_back(took);
      }
    }
  }
  std::printf("{\"rounds\": %lld, \"launches\": %lld, \"records\": %zu, \"us_per_launch\": {", rounds, launches,
              records.load());
  for (Way& way : ways) {
    std::printf("%s\n\"%s\": {", &way == ways ? "" : ",", way.name);
    for (int kind = 0; kind < 2; ++kind) {
      std::sort(way.took[kind].begin(), way.took[kind].end());
      std::printf("%s\"%s\": {\"median\": %.3f, \"least\": %.3f, \"most\": %.3f}", kind == 0 ? "" : ", ",
                  kind == 0 ? "small" : "longer", way.took[kind][way.took[kind].size() / 2], way.took[kind].front(),
                  way.took[kind].back());
    }
    std::printf("}");
  }
  std::printf("}}\n");
  return 0;
}
