// The whole brain on programs whose truth is known: what is found, what is decided, and what it is worth.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "policy/explain.hpp"
#include "policy/plan.hpp"
#include "policy/replay.hpp"
#include "tests/policy/scripted_program.hpp"
#include "tests/policy/workloads.hpp"

namespace spillway::policy {
namespace {

using testing::Adam;
using testing::DecodeOptions;
using testing::GptOptions;
using testing::GptTraining;
using testing::Role;
using testing::Tensor;
using testing::Workload;

constexpr std::size_t kMeasured = 3;  // iterations at the end

Settings settings(const Workload& work, ModeName mode, double share) {
  Settings s;
  s.mode = mode;
  s.device_budget = SizeOrShare{Bytes(static_cast<std::uint64_t>(static_cast<double>(work.peak.count()) * share))};
  return s;
}

ReplayResult run(const Workload& work, ModeName mode, double share, ReplayOptions options = {},
                 const CostTable& costs = {}) {
  options.measure_after = work.iteration_ends[work.iteration_ends.size() - 1 - kMeasured];
  if (mode != ModeName::adaptive) options.bounds = ReplayOptions::WithBounds::no;
  return replay(work.events, {settings(work, mode, share), {}}, work.costs, costs, options);
}

Workload training(Adam adam, int micro_steps = 1, int evaluate_every = 0) {
  GptOptions options;
  options.adam = adam;
  options.micro_steps = micro_steps;
  options.evaluate_every = evaluate_every;
  return GptTraining(options).run();
}

Workload decode(int tokens, bool one_pool) {
  DecodeOptions options;
  options.tokens = tokens;
  options.one_pool = one_pool;
  return testing::llama_decode(options);
}

// Beside what is read in place moves crawl, and an exchange takes as long as many tokens: with 300 it is at an end.
// With a link that they have to themselves 100 are enough.
constexpr int kCrawling = 300;
constexpr int kFree = 100;
CostTable free_link() {
  CostTable costs;
  costs.move_beside_in_place = costs.move_in;
  return costs;
}

// How far from the bounds each kind of program may be, by what was seen when this was written, rounded up. The goal
// is 1.15 for both. Where training is above it: the bound overlaps the optimizer's traffic with other launches'
// compute, and counts sending back as cheap as reading; both are what the card cannot do (see docs).
struct Limit {
  double share;
  double traffic;
  double seconds;
};

struct Case {
  const char* name;
  std::function<Workload()> make;
  std::vector<Limit> limits;
  CostTable costs = {};
};

class Acceptance : public ::testing::TestWithParam<Case> {};

TEST_P(Acceptance, AdaptiveIsNearTheBoundsAndNeverWorseThanTheBaselines) {
  const Workload work = GetParam().make();
  for (const Limit& limit : GetParam().limits) {
    const ReplayResult adaptive = run(work, ModeName::adaptive, limit.share, {}, GetParam().costs);
    EXPECT_EQ(adaptive.refused, 0u);
    EXPECT_LE(adaptive.resident_peak, adaptive.window);
    EXPECT_LE(adaptive.measured.model.crossed(), limit.traffic * adaptive.bounds.traffic) << "share " << limit.share;
    EXPECT_LE(adaptive.measured.seconds, limit.seconds * adaptive.bounds.seconds) << "share " << limit.share;
    EXPECT_EQ(adaptive.measured.model.faulted, 0) << "adaptive never faults";
    for (const ModeName mode : {ModeName::demand, ModeName::alloc_prefetch, ModeName::arrival}) {
      // 5%: about the share that moves by pieces of 32 MiB.
      EXPECT_LE(adaptive.measured.seconds, 1.05 * run(work, mode, limit.share, {}, GetParam().costs).measured.seconds)
          << "mode " << static_cast<int>(mode) << " share " << limit.share;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, Acceptance,
    ::testing::Values(
        Case{"fused",
             [] { return training(Adam::fused); },
             {{0.8, 1.15, 1.8}, {0.65, 1.15, 1.5}, {0.5, 1.15, 1.4}, {0.35, 1.15, 1.4}}},
        Case{"foreach",
             [] { return training(Adam::foreach); },
             {{0.8, 1.55, 2.45}, {0.65, 1.5, 2.15}, {0.5, 1.5, 1.9}, {0.35, 1.4, 1.75}}},
        Case{"accumulation",
             [] { return training(Adam::fused, 4); },
             {{0.8, 1.15, 1.45}, {0.65, 1.2, 1.85}, {0.5, 1.15, 1.6}, {0.35, 1.2, 1.7}}},
        Case{"evaluation", [] { return training(Adam::fused, 1, 7); }, {{0.8, 1.25, 2.0}, {0.65, 1.3, 1.8}}},
        Case{"decode",
             [] { return decode(kCrawling, false); },
             {{0.8, 1.15, 1.15}, {0.65, 1.15, 1.15}, {0.5, 1.15, 1.15}, {0.35, 1.15, 1.15}}},
        Case{"decode_free_link",
             [] { return decode(kFree, false); },
             {{0.8, 1.15, 1.15}, {0.65, 1.15, 1.15}, {0.5, 1.15, 1.15}, {0.35, 1.15, 1.15}},
             free_link()},
        Case{"decode_one_pool",
             [] { return decode(kCrawling, true); },
             {{0.8, 1.25, 1.3}, {0.65, 1.15, 1.15}, {0.5, 1.15, 1.15}, {0.35, 1.15, 1.15}}},
        Case{"decode_one_pool_free_link",
             [] { return decode(kFree, true); },
             {{0.8, 1.25, 1.3}, {0.65, 1.15, 1.15}, {0.5, 1.15, 1.15}, {0.35, 1.15, 1.15}},
             free_link()},
        Case{"mlp",
             [] { return testing::mlp_adam(); },
             {{0.8, 1.15, 1.55}, {0.65, 1.15, 1.3}, {0.5, 1.15, 1.2}, {0.35, 1.15, 1.2}}},
        // The bounds see only memory that lives at the end, so the activations here cost them nothing.
        Case{"mlp_without_pool", [] { return testing::mlp_without_pool(); }, {{0.8, 5.5, 3.2}, {0.5, 1.6, 1.8}}},
        Case{"embedding", [] { return testing::sparse_embedding(); }, {{0.8, 1.15, 1.2}, {0.5, 1.15, 1.45}}}),
    [](const auto& each) { return each.param.name; });

TEST(Brain, KeepsItsPromisesOnEveryEvent) {
  GptOptions options;
  options.layers = 3;
  options.iterations = 12;
  options.evaluate_every = 4;
  ReplayOptions check;
  check.check = ReplayOptions::Check::yes;
  const Workload work = GptTraining(options).run();
  for (const double share : {0.8, 0.5, 0.35}) EXPECT_EQ(run(work, ModeName::adaptive, share, check).broken, "");
}

// Which bytes of the tensors with this role are on the host at the end.
double share_on_host(const Workload& work, const ReplayResult& result, Role role) {
  std::map<AllocationId, Address> addresses;
  for (const Event& event : work.events) {
    if (const auto* settled = std::get_if<AllocationSettled>(&event.body))
      addresses[settled->allocation] = settled->address;
  }
  std::set<std::uint64_t> on_host;  // chunk addresses
  for (const Decision& decision : result.decisions) {
    const auto* move = std::get_if<MoveRange>(&decision.body);
    if (move == nullptr) continue;
    const Address base = addresses.at(move->allocation) + move->offset;
    for (Bytes at; at < move->bytes; at += kChunk) {
      const std::uint64_t chunk = (base + at).value;
      if (move->to == Placement::host)
        on_host.insert(chunk);
      else
        on_host.erase(chunk);
    }
  }
  double total = 0, there = 0;
  for (const Tensor& tensor : work.tensors) {
    if (tensor.role != role) continue;
    for (std::uint64_t at = tensor.address.value; at < tensor.address.value + tensor.bytes.count(); at += 64 << 10) {
      total += 1;
      if (on_host.contains(at - at % kChunk.count())) there += 1;
    }
  }
  return total == 0 ? 0 : there / total;
}

TEST(Brain, LayersThatLookAlikeAreNotTakenForIterations) {
  for (const Workload& work : {testing::llama_decode({}), training(Adam::fused)}) {
    const ReplayResult result = run(work, ModeName::adaptive, 0.8);
    const std::uint64_t step = work.iteration_ends[5].value - work.iteration_ends[4].value;
    for (const std::string& note : result.notes) {
      if (note.starts_with("an iteration of ")) {
        EXPECT_EQ(note, "an iteration of " + std::to_string(step) + " launches was found");
      }
    }
    EXPECT_EQ(result.iteration, step);
  }
}

// One kernel re-reads its array sixty times and looks like any other: the plan sends it away, which is a mistake.
TEST(Brain, AChangeThatMakesIterationsSlowerIsTakenBack) {
  testing::Writer writer;
  const auto make = [&] { return Tensor{writer.driver_allocate(64_MiB), 64_MiB, Role::other}; };
  const Tensor reread = make(), twice = make();
  const Tensor small{writer.driver_allocate(4_MiB), 4_MiB, Role::other};
  for (int step = 0; step < 200; ++step) {
    writer.launch("pass_over_all", {{0, twice, 1, 0}, {1, small, 1, 1}}, 1e-4);
    for (int i = 0; i < 16; ++i) writer.launch("in_between_" + std::to_string(i), {{0, small, 1, 1}}, 1e-5);
    writer.launch("pass_over_all_again", {{0, twice, 1, 0}, {1, small, 1, 1}}, 1e-4);
    writer.launch("looks_harmless", {{0, reread, 60, 0}, {1, small, 1, 1}}, 1e-4);
    writer.end_iteration();
  }
  const Workload work = std::move(writer.work);
  const ReplayResult result = run(work, ModeName::adaptive, 0.54);
  EXPECT_TRUE(std::any_of(result.notes.begin(), result.notes.end(),
                          [](const std::string& note) { return note.find("it is taken back") != std::string::npos; }));
  EXPECT_LE(result.measured.seconds, 1.05 * run(work, ModeName::arrival, 0.54).measured.seconds);
}

// Warm-up gave the second half of the memory to a tensor of its own; since then the first pointer means all of it.
TEST(Brain, WhatFollowsAPointerOfWarmUpIsNotTakenToBeUnused) {
  testing::Writer writer;
  const auto make = [&](Bytes bytes) { return Tensor{writer.driver_allocate(bytes), bytes, Role::other}; };
  const Tensor hot = make(64_MiB), cold = make(128_MiB);
  writer.launch("warm_up", {{0, {hot.address + 32_MiB, 32_MiB}, 1, 0}}, 1e-4);
  for (int step = 0; step < 150; ++step) {
    for (int i = 0; i < 16; ++i) writer.launch("hot_" + std::to_string(i), {{0, hot, 1, 0}}, 1e-4);
    writer.launch("cold", {{0, cold, 1, 0}}, 1e-4);
    writer.end_iteration();
  }
  const Workload work = std::move(writer.work);
  ReplayOptions options;
  options.keep = ReplayOptions::Keep::decisions;
  const ReplayResult result = run(work, ModeName::adaptive, 0.75, options);
  EXPECT_GT(result.iteration, 0u);
  for (const Decision& decision : result.decisions) {
    const auto* move = std::get_if<MoveRange>(&decision.body);
    if (move != nullptr && move->to == Placement::host) {
      EXPECT_EQ(move->allocation.value, 2u) << explain(decision);
    }
  }
}

TEST(Brain, ClassesHoldAboutTheBytesTheyShould) {
  const Workload work = training(Adam::fused);
  const ReplayResult result = run(work, ModeName::adaptive, 0.8);
  Bytes weights, states;
  for (const Tensor& tensor : work.tensors)
    (tensor.role == Role::state ? states : weights) += tensor.role == Role::gradient ? Bytes() : tensor.bytes;
  const auto noted = std::find_if(result.notes.rbegin(), result.notes.rend(),
                                  [](const std::string& n) { return n.starts_with("classes:"); });
  ASSERT_NE(noted, result.notes.rend());
  const auto mebibytes = [&](const std::string& name) {
    const std::size_t at = noted->find(" " + name + " ");
    return at == std::string::npos ? 0.0 : std::stod(noted->substr(at + name.size() + 2));
  };
  const auto truth = [](Bytes bytes) { return static_cast<double>(bytes.count()) / (1 << 20); };
  EXPECT_NEAR(mebibytes("weights"), truth(weights), 0.15 * truth(weights)) << *noted;
  EXPECT_NEAR(mebibytes("gradients"), truth(weights), 0.15 * truth(weights)) << *noted;
  EXPECT_NEAR(mebibytes("optimizer"), truth(states), 0.15 * truth(states)) << *noted;
}

// So few launches that plans are made for rounds of two iterations, in which states are used twice.
TEST(Brain, StatesAreFoundInIterationsOfFewLaunches) {
  testing::Writer writer;
  const auto make = [&](Role role) { return Tensor{writer.driver_allocate(32_MiB), 32_MiB, role}; };
  struct Layer {
    Tensor weight, gradient, first, second;
  };
  std::vector<Layer> layers;
  for (int i = 0; i < 3; ++i)
    layers.push_back({make(Role::weight), make(Role::gradient), make(Role::state), make(Role::state)});
  for (int step = 0; step < 200; ++step) {
    for (const Layer& layer : layers) {
      writer.launch("forward", {{0, layer.weight, 1, 0}}, 1e-4);
      writer.launch("relu", {}, 1e-5);
    }
    for (std::size_t i = layers.size(); i-- > 0;) {
      writer.launch("weight_gradient", {{0, layers[i].gradient, 0, 1}}, 1e-4);
      writer.launch("input_gradient", {{0, layers[i].weight, 1, 0}}, 1e-4);
    }
    for (const Layer& layer : layers) {
      writer.launch(
          "adam", {{0, layer.weight, 1, 1}, {1, layer.gradient, 1, 0}, {2, layer.first, 1, 1}, {3, layer.second, 1, 1}},
          1e-4);
    }
    writer.end_iteration();
  }
  const ReplayResult result = run(std::move(writer.work), ModeName::adaptive, 0.75);
  const auto noted = std::find_if(result.notes.rbegin(), result.notes.rend(),
                                  [](const std::string& note) { return note.starts_with("classes:"); });
  ASSERT_NE(noted, result.notes.rend());
  for (const char* part : {"optimizer 192 MiB", "weights 96 MiB", "gradients 96 MiB"})
    EXPECT_NE(noted->find(part), std::string::npos) << *noted;
}

// A table that is looked up once a token is used as an optimizer's state is, but it is next to nothing beside the
// caches.
TEST(Brain, ADecodersCachesAreFoundBesideATableThatEachTokenUsesOnce) {
  testing::Writer writer;
  const auto make = [&](Bytes bytes) { return Tensor{writer.driver_allocate(bytes), bytes, Role::other}; };
  const Tensor table = make(4_MiB), row = make(2_MiB);
  std::vector<Tensor> caches;
  for (int layer = 0; layer < 4; ++layer) caches.push_back(make(128_MiB));
  for (int token = 0; token < 200; ++token) {
    writer.launch("embedding_gather", {{0, table, 1, 0}, {1, row, 0, 1}}, 1e-5);
    for (const Tensor& cache : caches) {
      writer.launch("gemm_nn", {{0, row, 1, 1}}, 1e-5);
      writer.launch("kv_append", {{0, cache, 0, 1}, {1, row, 1, 0}}, 1e-5);
      writer.launch("paged_attention", {{0, row, 0, 1}, {1, cache, 1, 0}}, 1e-4);
    }
    writer.end_iteration();
  }
  const ReplayResult result = run(std::move(writer.work), ModeName::adaptive, 0.8);
  const auto noted = std::find_if(result.notes.rbegin(), result.notes.rend(),
                                  [](const std::string& note) { return note.starts_with("classes:"); });
  ASSERT_NE(noted, result.notes.rend());
  EXPECT_NE(noted->find("kv 512 MiB"), std::string::npos) << *noted;
  EXPECT_EQ(noted->find("optimizer"), std::string::npos) << *noted;
}

class OptimizerStates : public ::testing::TestWithParam<Adam> {};

TEST_P(OptimizerStates, AreFoundWithoutARuleAndOnlyTheyGoToTheHost) {
  const Workload work = training(GetParam());
  ReplayOptions options;
  options.keep = ReplayOptions::Keep::decisions;
  // A budget that holds all but about half of the states.
  const ReplayResult result = run(work, ModeName::adaptive, 0.82, options);
  EXPECT_GT(share_on_host(work, result, Role::state), 0.4);
  EXPECT_LT(share_on_host(work, result, Role::weight), 0.1) << "the embedding, looked up sparsely, may go";
  Bytes states_out, others_out;
  for (const Decision& decision : result.decisions) {
    const auto* move = std::get_if<MoveRange>(&decision.body);
    if (move == nullptr || move->to != Placement::host || decision.cause.reason == Reason::window_full) continue;
    if (decision.cause.worth == 0) continue;  // not used in an iteration at all: goes before anything else
    const bool state = decision.cause.span_class == static_cast<std::uint16_t>(SpanClass::optimizer);
    (state ? states_out : others_out) += move->bytes;
  }
  EXPECT_GT(states_out, 64_MiB);
  EXPECT_LT(others_out.count(), states_out.count() / 5);
  const bool noted = std::any_of(result.notes.begin(), result.notes.end(), [](const std::string& note) {
    return note.find("classes:") == 0 && note.find("optimizer") != std::string::npos;
  });
  EXPECT_TRUE(noted);
}
INSTANTIATE_TEST_SUITE_P(BothKinds, OptimizerStates, ::testing::Values(Adam::fused, Adam::foreach));

TEST(Brain, EveryPlannedMoveSaysWhy) {
  ReplayOptions options;
  options.keep = ReplayOptions::Keep::decisions;
  const ReplayResult result = run(testing::mlp_adam(), ModeName::adaptive, 0.5, options);
  int planned = 0;
  for (const Decision& decision : result.decisions) {
    if (!std::holds_alternative<MoveRange>(decision.body)) continue;
    EXPECT_NE(decision.cause.reason, Reason::mode);
    if (decision.cause.reason != Reason::worth) continue;
    ++planned;
    EXPECT_NE(explain(decision).find("us saved per iteration and MiB"), std::string::npos);
    EXPECT_TRUE(decision.cause.launch);
  }
  EXPECT_GT(planned, 5);
}

TEST(Brain, TheSameEventsGiveTheSameDecisions) {
  ReplayOptions options;
  options.keep = ReplayOptions::Keep::decisions;
  const Workload work = testing::mlp_adam();
  EXPECT_EQ(run(work, ModeName::adaptive, 0.5, options).decisions,
            run(work, ModeName::adaptive, 0.5, options).decisions);
}

TEST(Brain, AProgramThatFitsIsLeftAlone) {
  Workload work = testing::mlp_adam(4, 32_MiB, 10);
  Settings roomy = settings(work, ModeName::adaptive, 2.0);
  const ReplayResult result = replay(work.events, {roomy, {}}, work.costs, {}, {});
  EXPECT_EQ(result.all.model.crossed(), 0);
  for (const FinalPlacement& placement : result.placements) EXPECT_EQ(placement.on_host, Bytes());
}

TEST(Brain, OnceSettledNothingMoves) {
  for (const double share : {0.8, 0.5}) {
    const ReplayResult result = run(testing::mlp_adam(24, 32_MiB, 120), ModeName::adaptive, share);
    EXPECT_EQ(result.measured.model.moved_in + result.measured.model.moved_out, 0) << share;
  }
}

Rule rule(std::uint16_t number, RulePlace place) {
  Rule made;
  made.number = number;
  made.name = "test";
  made.action.place = place;
  return made;
}

TEST(Rules, PinByKernelAndArgumentWhateverTheWorth) {
  const Workload work = testing::mlp_adam(24, 32_MiB, 120);
  Rule cold = rule(1, RulePlace::host), hot = rule(2, RulePlace::device);
  cold.match.kernel = "*mlp_forward*";
  cold.match.arguments = {1};  // the weights, which are worth most
  hot.match.kernel = "*update_rule*";
  hot.match.arguments = {2, 3};  // the states, which are worth least
  ReplayOptions options;
  options.keep = ReplayOptions::Keep::decisions;
  const ReplayResult result =
      replay(work.events, {settings(work, ModeName::adaptive, 0.62), {cold, hot}}, work.costs, {}, options);
  EXPECT_GT(share_on_host(work, result, Role::weight), 0.9);
  EXPECT_LT(share_on_host(work, result, Role::state), 0.1);
  int by_rule = 0;
  for (const Decision& decision : result.decisions)
    by_rule += decision.cause.reason == Reason::rule && decision.cause.rule != 0 ? 1 : 0;
  EXPECT_GT(by_rule, 10);
  EXPECT_EQ(result.broken, "");
}

TEST(Rules, AtAllocationSendToTheHostAndKeepPlain) {
  const Workload work = testing::mlp_adam(6, 32_MiB, 2);
  Rule host = rule(1, RulePlace::host), plain = rule(2, RulePlace::automatic);
  host.match.order_first = {1}, host.match.order_last = {4};
  plain.match.order_first = {6}, plain.match.order_last = {6};
  plain.action.backing = Backing::device;
  const ReplayResult result =
      replay(work.events, {settings(work, ModeName::adaptive, 0.9), {host, plain}}, work.costs, {}, {});
  for (const FinalPlacement& placement : result.placements) {
    EXPECT_NE(placement.order, 6u) << "plain memory is not managed";
    if (placement.order <= 4) {
      EXPECT_EQ(placement.on_host, placement.bytes);
    }
  }
  EXPECT_EQ(result.refused, 0u);
}

// Programs made at random, with loops, so that plans are made; moves that fail, are late, or meet a free.
TEST(Brain, KeepsItsPromisesWhateverHappensToItsMoves) {
  int planned = 0;  // seeds in which plans were carried out
  for (std::uint32_t seed = 1; seed <= 25; ++seed) {
    auto random = [engine = std::mt19937(seed)](std::uint32_t below) mutable {
      return static_cast<std::uint32_t>(engine()) % below;
    };
    Settings s;
    s.device_budget = SizeOrShare{Bytes(96_MiB)};
    testing::ScriptedProgram program(s, 1_GiB, 4_GiB);
    std::vector<Address> live;
    for (int i = 0; i < 12; ++i) live.push_back(program.allocate(kChunk * (1 + random(16))));
    std::vector<std::vector<std::size_t>> loop(20);
    for (auto& launch : loop)
      for (std::uint32_t i = 0; i < 1 + random(4); ++i) launch.push_back(random(12));
    for (int round = 0; round < 150; ++round) {
      for (std::size_t i = 0; i < loop.size(); ++i) {
        std::vector<Address> arguments;
        for (const std::size_t which : loop[i])
          arguments.push_back(live[which] + Bytes(random(8) == 0 ? 0 : 65536 * which));
        program.launch(arguments, {static_cast<std::uint32_t>(1 + i)});
        if (random(3) == 0)
          program.finish_one(random(10) == 0   ? MoveOutcome::failed
                             : random(10) == 0 ? MoveOutcome::cancelled
                                               : MoveOutcome::done);
        ASSERT_EQ(program.engine().check_invariants(), "") << "seed " << seed << " round " << round;
        ASSERT_LE(program.on_card(), program.totals().window) << "seed " << seed << " round " << round;
      }
      if (random(25) == 0) {
        const std::size_t which = random(12);
        program.free(live[which]);
        live[which] = program.allocate(kChunk * (1 + random(16)));
      }
    }
    planned += program.totals().moved_in + program.totals().moved_out > Bytes() ? 1 : 0;
  }
  EXPECT_GT(planned, 15);
}

TEST(Plan, GivesTheNextRunAHeadStart) {
  const Workload work = testing::mlp_adam();
  ReplayOptions options;
  options.keep = ReplayOptions::Keep::decisions;
  const ReplayResult first = run(work, ModeName::adaptive, 0.6, options);
  const Plan plan = make_plan(first, settings(work, ModeName::adaptive, 0.6));
  const ReplayResult second = replay(work.events, plan.file, work.costs, {}, {});
  EXPECT_LT(second.all.seconds, first.all.seconds);
  EXPECT_LT(second.all.model.moved_in + second.all.model.moved_out,
            first.all.model.moved_in + first.all.model.moved_out);
}

TEST(Plan, IsAPolicyFileThatReadsBackAndNamesTheColdClass) {
  const Workload work = testing::mlp_adam();
  ReplayOptions options;
  options.keep = ReplayOptions::Keep::decisions;
  const ReplayResult result = run(work, ModeName::adaptive, 0.6, options);
  const Plan plan = make_plan(result, settings(work, ModeName::adaptive, 0.6));
  const std::string text = write_plan(plan);
  const PolicyFileReading read = read_policy_file(text, "plan.toml");
  ASSERT_TRUE(read.ok()) << text;
  EXPECT_EQ(read.file, plan.file);
  EXPECT_NE(text.find("optimizer"), std::string::npos) << text;
  EXPECT_FALSE(plan.file.rules.empty());
}

}  // namespace
}  // namespace spillway::policy
