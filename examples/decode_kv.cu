// Batched greedy decoding over a paged key-value cache, in plain CUDA. All requests keep their cache in device memory;
// only a few run at a time: a scheduler resumes those with the earliest deadline for some tokens and parks them again.
// Prompts are made up (their keys and values are written by a kernel), so that a run is about decoding only.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>
#include <thread>

#include "examples/decoder.cuh"

namespace {

using workload::Decoder;
using workload::Request;

// Allowed difference of a chosen token's logit from the CPU reference's; logits are of the order of 1 to 5, and float
// against double differs by about 1e-6 after some layers.
constexpr double kLogitTolerance = 1e-4;
constexpr long long kAllSteps = 1'000'000'000'000;

// What happened between two decisions of the scheduler.
struct Round {
  long long resumed = 0, tokens = 0;
  std::vector<double> step_ms;
};

struct Schedule {
  std::vector<Round> rounds;
  long long resumed = 0, parked = 0, tokens = 0;
};

// Rounds of `quantum` tokens for the `resident` unfinished requests whose deadlines come first. Every fourth request is
// an interactive one and comes back each round while it lasts; the others wait their turn.
Schedule run_all(Decoder& decoder, int resident, int quantum, int steps, long long stop_after) {
  Schedule schedule;
  long long steps_left = stop_after;
  std::vector<Request>& requests = decoder.requests();
  std::vector<int> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  while (true) {
    Round round;
    std::vector<int> batch;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return requests[static_cast<std::size_t>(a)].deadline < requests[static_cast<std::size_t>(b)].deadline;
    });
    for (int number : order) {
      Request& request = requests[static_cast<std::size_t>(number)];
      const bool runs = static_cast<int>(batch.size()) < resident && static_cast<int>(request.tokens.size()) < steps;
      if (runs && !request.running) ++round.resumed;
      if (!runs && request.running) ++schedule.parked;
      request.running = runs;
      if (runs) batch.push_back(number);
    }
    if (batch.empty()) return schedule;
    for (int token = 0; token < quantum && !batch.empty() && steps_left > 0; ++token, --steps_left) {
      const auto start = std::chrono::steady_clock::now();
      decoder.step(batch);
      round.step_ms.push_back(1e3 * program::seconds_since(start));
      round.tokens += static_cast<long long>(batch.size());
      std::erase_if(batch, [&](int number) {
        return static_cast<int>(requests[static_cast<std::size_t>(number)].tokens.size()) >= steps;
      });
    }
    schedule.resumed += round.resumed;
    schedule.tokens += round.tokens;
    schedule.rounds.push_back(std::move(round));
    if (steps_left == 0) return schedule;
    const auto now = static_cast<long long>(schedule.rounds.size());
    for (int number : order) {
      Request& request = requests[static_cast<std::size_t>(number)];
      if (request.running) request.deadline = now + (number % 4 == 0 ? 1 : 8);
    }
  }
}

void write_outputs(std::FILE* file, const std::vector<Request>& requests, unsigned long long cache) {
  for (std::size_t number = 0; number < requests.size(); ++number) {
    std::fprintf(file, "request %zu:", number);
    for (std::size_t i = 0; i < requests[number].tokens.size(); ++i) {
      std::fprintf(file, " %d:%.9g", requests[number].tokens[i], static_cast<double>(requests[number].logits[i]));
    }
    std::fprintf(file, "\n");
  }
  std::fprintf(file, "cache %016llx\n", cache);
}

void write_times(std::FILE* file, const Schedule& schedule, double seconds) {
  std::fprintf(file, "{\"seconds\": %.6f, \"tokens\": %lld, \"rounds\": [", seconds, schedule.tokens);
  for (const Round& round : schedule.rounds) {
    std::fprintf(file, "%s\n{\"resumed\": %lld, \"tokens\": %lld, \"step_ms\": [",
                 &round == schedule.rounds.data() ? "" : ",", round.resumed, round.tokens);
    for (std::size_t i = 0; i < round.step_ms.size(); ++i) {
      std::fprintf(file, "%s%.4f", i == 0 ? "" : ", ", round.step_ms[i]);
    }
    std::fprintf(file, "]}");
  }
  std::fprintf(file, "]}\n");
}

// How many requests to check when nobody says: all, unless that would take the CPU more than some ten seconds.
std::size_t affordable_checks(const DecoderShape& shape, std::size_t requests) {
  const double elements = 2.0 * shape.layers * shape.width() * (shape.context + shape.steps);
  const double work = elements * (shape.steps + 4);  // reading the cache once a token; making it counts for four
  const double budget = 5e9 * std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(static_cast<std::size_t>(budget / work), 1, requests);
}

// Checks `count` requests, evenly spread, on all threads of the machine. A whole run has decoded all its tokens.
bool verified(const DecoderShape& shape, const std::vector<Request>& requests, std::size_t count, bool whole) {
  const DecodeReference reference(shape);
  std::vector<double> differences(count);
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t) {
    workers.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++) {
        const std::size_t number = i * requests.size() / count;
        const Request& request = requests[number];
        const bool enough = !whole || request.tokens.size() == static_cast<std::size_t>(shape.steps);
        differences[i] = enough ? reference.worst_difference(static_cast<int>(number), request.tokens, request.logits)
                                : std::numeric_limits<double>::infinity();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  bool good = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (differences[i] <= kLogitTolerance) continue;
    std::fprintf(stderr, "%s: request %zu: logits differ from the CPU reference's by %.3g (allowed %.2g)\n",
                 program::name, i * requests.size() / count, differences[i], kLogitTolerance);
    good = false;
  }
  std::printf("worst logit difference from the CPU reference: %.2g (allowed %.2g), %zu of %zu requests checked\n",
              *std::max_element(differences.begin(), differences.end()), kLogitTolerance, count, requests.size());
  return good;
}

int run(int argc, char** argv) {
  long long requests = 48, resident = 8, context = 512, steps = 8, quantum = 4, layers = 2, heads = 4, head_size = 64,
            vocabulary = 1024, page_tokens = 16, seed = 1, check = -1, stop_after = kAllSteps;
  std::string outputs_path, json_path;
  program::Flags flags(
      "decodes many requests over a paged key-value cache, a few at a time, and checks what comes out");
  flags.number("--requests", &requests, 1, 1000000, "requests, all with their cache in device memory");
  flags.number("--resident", &resident, 1, 65535, "requests that run at a time");
  flags.number("--context", &context, 1, 1000000, "tokens of every prompt");
  flags.number("--steps", &steps, 1, 100000, "tokens to decode for every request");
  flags.number("--quantum", &quantum, 1, 100000, "tokens a request decodes before it may be parked");
  flags.number("--stop-after", &stop_after, 1, kAllSteps, "steps of the whole run; requests may be left unfinished");
  flags.number("--layers", &layers, 1, 1000, "layers of the model");
  flags.number("--heads", &heads, 1, 1024, "attention heads");
  flags.number("--head-size", &head_size, 1, workload::kMaximumHeadSize, "elements of a head");
  flags.number("--vocabulary", &vocabulary, 2, 1000000, "tokens the model knows");
  flags.number("--page-tokens", &page_tokens, 1, 4096, "tokens in a page of the cache");
  flags.number("--seed", &seed, 0, 1000000000, "seed of weights and prompts");
  flags.number("--check", &check, -1, 1000000, "how many requests to check, -1 for as many as the CPU can afford");
  flags.text("--outputs", &outputs_path, "FILE: writes all tokens and logits, and a check-sum of the cache");
  flags.text("--json", &json_path, "FILE: writes how long each step took, by the scheduler's rounds");
  flags.parse(argc, argv);
  if (!json_path.empty() && json_path == outputs_path) {
    program::Flags::fail("--json and --outputs both name %s; name two files", json_path.c_str());
  }
  program::OutputFile outputs_file("--outputs", outputs_path), json_file("--json", json_path);
  const DecoderShape shape{static_cast<int>(layers),        static_cast<int>(heads),   static_cast<int>(head_size),
                           static_cast<int>(vocabulary),    static_cast<int>(context), static_cast<int>(steps),
                           static_cast<std::uint64_t>(seed)};

  const auto setup = std::chrono::steady_clock::now();
  Decoder decoder(shape, static_cast<int>(requests), static_cast<int>(std::min(resident, requests)),
                  static_cast<int>(page_tokens));
  CHECK(cudaDeviceSynchronize());
  std::printf("%lld requests of %lld + %lld tokens: %.1f MiB allocated, set up in %.2f s\n", requests, context, steps,
              program::mebibytes(program::bytes_allocated), program::seconds_since(setup));
  const auto start = std::chrono::steady_clock::now();
  const Schedule schedule = run_all(decoder, static_cast<int>(std::min(resident, requests)), static_cast<int>(quantum),
                                    static_cast<int>(steps), stop_after);
  CHECK(cudaDeviceSynchronize());
  const double seconds = program::seconds_since(start);
  std::printf("%zu rounds, %lld times resumed, %lld times parked\n", schedule.rounds.size(), schedule.resumed,
              schedule.parked);
  std::printf("%lld tokens in %.2f s: %.1f tokens/s\n", schedule.tokens, seconds,
              static_cast<double>(schedule.tokens) / seconds);
  const unsigned long long cache = decoder.cache_checksum();
  std::printf("cache check-sum %016llx\n", cache);
  if (outputs_file.wanted()) write_outputs(outputs_file.get(), decoder.requests(), cache);
  if (json_file.wanted()) write_times(json_file.get(), schedule, seconds);
  outputs_file.close();
  json_file.close();

  const std::size_t all = decoder.requests().size();
  const std::size_t count = check < 0 ? affordable_checks(shape, all) : std::min(all, static_cast<std::size_t>(check));
  if (count == 0) {
    std::printf("outputs not verified, as asked\n");
    return 0;
  }
  const bool whole = schedule.tokens == requests * steps;
  if (stop_after == kAllSteps || whole) {
    if (!verified(shape, decoder.requests(), count, true)) return 1;
    std::printf("outputs verified\n");
    return 0;
  }
  if (!verified(shape, decoder.requests(), count, false)) return 1;
  std::printf("outputs verified as far as they were decoded: stopped after %lld steps, %lld of %lld tokens\n",
              stop_after, schedule.tokens, requests * steps);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  program::name = "decode_kv";
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of host memory; lower --requests, --context or --steps\n", program::name);
    return 1;
  }
}
