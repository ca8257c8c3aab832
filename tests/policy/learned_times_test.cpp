// Which kernel times count while memory moves.
#include <gtest/gtest.h>

#include <vector>

#include "tests/policy/scripted_program.hpp"

namespace spillway::policy {
namespace {

constexpr Bytes kPart = 16_MiB;
constexpr Bytes kBesideThem = 56_MiB;  // that is allocated beside it, bit by bit
constexpr std::uint64_t kParts = 12;
constexpr FunctionId kReadsOften{1};
constexpr FunctionId kReadsOnce{2};

bool reads_often(std::uint64_t buffer) { return buffer == 0 || buffer > 6; }

// Twelve buffers of one pool, half of which fit in the end, are used once an iteration each. In truth one function
// reads its own eight times over the link; only times can tell.
struct BuffersOfAPool {
  testing::ScriptedProgram program;
  Address pool;

  static Settings settings() {
    Settings given;
    given.device_budget = SizeOrShare{kBesideThem + kPart * 6};
    return given;
  }
  BuffersOfAPool() : program(settings(), 512_MiB, 4_GiB) {
    program.send(FunctionSeen{kReadsOften, "reads_often"});
    program.send(FunctionSeen{kReadsOnce, "reads_once"});
    pool = program.allocate(kPart * kParts);
    program.finish_all();
  }
  [[nodiscard]] Bytes on_card(std::uint64_t buffer) {
    Bytes sum;
    for (Bytes at; at < kPart; at += kChunk) sum += program.chunk_on_card(pool, kPart * buffer + at) ? kChunk : Bytes();
    return sum;
  }
  void iteration() {
    for (std::uint64_t i = 0; i < kParts; ++i) {
      program.launch({pool + kPart * i}, reads_often(i) ? kReadsOften : kReadsOnce);
      program.finish_all();
    }
  }
  void tell_times() {
    const CostTable costs;
    const std::uint64_t last = program.engine().launches().value;
    for (std::uint64_t i = 0; i < kParts; ++i) {
      const double host = static_cast<double>((kPart - on_card(i)).count()) * (reads_often(i) ? 8 : 1);
      const double seconds = 100e-6 + host / costs.link_in;
      program.send(
          KernelTimed{{last - kParts + 1 + i}, Nanoseconds(1), Nanoseconds(static_cast<std::int64_t>(seconds * 1e9))});
    }
  }
};

TEST(LearnedTimes, CountWhereOnlyOtherPartsOfAnAllocationHaveMoved) {
  BuffersOfAPool of;
  for (int i = 0; i < 4; ++i) of.iteration();
  for (Bytes plain; plain < kBesideThem; plain += 4_MiB) {
    of.iteration();
    const Bytes before = of.program.on_card();
    of.program.allocate(4_MiB, AllocationKind::stream_ordered);  // something of the pool has to leave
    ASSERT_LT(of.program.on_card(), before);
    of.tell_times();
  }
  for (int i = 0; i < 200; ++i) of.iteration();
  int count = 0;
  for (std::uint64_t i = 0; i < kParts; ++i) count += reads_often(i) && of.on_card(i) == kPart ? 1 : 0;
  EXPECT_GE(count, 5) << "of six";
  EXPECT_EQ(of.program.engine().check_invariants(), "");
}

}  // namespace
}  // namespace spillway::policy
