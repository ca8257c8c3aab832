// The Perfetto export against the rules that its trace processor has: which fields a message may have, tracks before
// their events, slices that begin and end, flows that lead somewhere. The tables below are from perfetto/protos:
// fields, those that a message may hold more than once, and those without which its reader drops the message.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/protobuf_reader.hpp"
#include "tests/support/trace_maker.hpp"
#include "tests/tools/trace_command_test.hpp"

namespace spillway::tools {
namespace {

using tests::ProtoField;
using tests::read_message;
using PerfettoTest = TraceCommandTest;

struct FieldRule {
  std::uint32_t type;
  const char* message;  // of what kind; nullptr: a number or text
};
const std::map<std::string, std::map<std::uint32_t, FieldRule>> kSchema = {
    {"Trace", {{1, {2, "TracePacket"}}}},
    {"TracePacket",
     {{8, {0, nullptr}},
      {10, {0, nullptr}},
      {11, {2, "TrackEvent"}},
      {12, {2, "InternedData"}},
      {13, {0, nullptr}},
      {60, {2, "TrackDescriptor"}}}},
    {"TrackDescriptor",
     {{1, {0, nullptr}},
      {2, {2, nullptr}},
      {3, {2, "ProcessDescriptor"}},
      {5, {0, nullptr}},
      {8, {2, "CounterDescriptor"}},
      {14, {2, nullptr}}}},
    {"ProcessDescriptor", {{1, {0, nullptr}}, {2, {2, nullptr}}, {6, {2, nullptr}}}},
    {"CounterDescriptor", {{3, {0, nullptr}}}},
    {"InternedData", {{2, {2, "EventName"}}}},
    {"EventName", {{1, {0, nullptr}}, {2, {2, nullptr}}}},
    {"TrackEvent",
     {{4, {2, "DebugAnnotation"}},
      {9, {0, nullptr}},
      {10, {0, nullptr}},
      {11, {0, nullptr}},
      {23, {2, nullptr}},
      {30, {0, nullptr}},
      {47, {1, nullptr}},
      {48, {1, nullptr}}}},
    {"DebugAnnotation", {{3, {0, nullptr}}, {6, {2, nullptr}}, {10, {2, nullptr}}}},
};

const std::map<std::string, std::set<std::uint32_t>> kRepeated = {
    {"Trace", {1}}, {"InternedData", {2}}, {"ProcessDescriptor", {2}}, {"TrackEvent", {4, 47, 48}}};
const std::map<std::string, std::set<std::uint32_t>> kNeeded = {{"TracePacket", {10}},      {"TrackDescriptor", {1}},
                                                                {"ProcessDescriptor", {1}}, {"EventName", {1, 2}},
                                                                {"TrackEvent", {9, 11}},    {"DebugAnnotation", {10}}};

// Well-formed UTF-8, without overlong forms: proto3's text.
bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xC2 && lead < 0xE0 ? 2
                               : lead >= 0xE0 && lead < 0xF0 ? 3
                               : lead >= 0xF0 && lead < 0xF5 ? 4
                                                             : 0;
    if (length == 0 || length > text.size()) return false;
    for (std::size_t i = 1; i < length; ++i) {
      if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) return false;
    }
    text.remove_prefix(length);
  }
  return true;
}

void expect_valid(const std::string& message, std::string_view bytes) {
  const auto fields = read_message(bytes);
  ASSERT_TRUE(fields) << message;
  std::map<std::uint32_t, int> counts;
  for (const ProtoField& field : *fields) {
    const bool repeated = kRepeated.contains(message) && kRepeated.at(message).contains(field.field);
    ASSERT_TRUE(++counts[field.field] == 1 || repeated) << message << " has field " << field.field << " twice";
    const auto& rules = kSchema.at(message);
    const auto rule = rules.find(field.field);
    ASSERT_NE(rule, rules.end()) << message << " has no field " << field.field;
    ASSERT_EQ(field.type, rule->second.type) << message << " field " << field.field;
    if (rule->second.message != nullptr) {
      expect_valid(rule->second.message, field.bytes);
    } else if (field.type == 2) {
      ASSERT_TRUE(is_utf8(field.bytes)) << message << " field " << field.field;
    }
  }
  if (!kNeeded.contains(message)) return;
  for (const std::uint32_t needed : kNeeded.at(message)) {
    ASSERT_TRUE(counts.contains(needed)) << message << " lacks field " << needed;
  }
}

struct Seen {
  std::map<std::uint64_t, std::string> tracks;  // names
  std::set<std::uint64_t> counters;
  std::map<std::uint64_t, std::string> names;
  std::map<std::string, std::uint64_t> events;                // by track's name: slices and marks
  std::map<std::uint64_t, std::vector<std::uint64_t>> flows;  // by id: times
  std::set<std::uint64_t> ended_flows;
  std::map<std::string, std::uint64_t> last_value;  // of counters
  std::uint64_t first_time = ~std::uint64_t{0};
  std::uint64_t last_time = 0;
  std::uint64_t sequence = 0;
};

std::optional<ProtoField> first(const std::vector<ProtoField>& fields, std::uint32_t number) {
  for (const ProtoField& field : fields) {
    if (field.field == number) return field;
  }
  return std::nullopt;
}

void see_track(Seen& seen, const std::vector<ProtoField>& of) {
  const std::uint64_t uuid = first(of, 1)->value;
  ASSERT_NE(uuid, 0U);
  ASSERT_TRUE(first(of, 2) || first(of, 3)) << "a track without a name";
  ASSERT_FALSE(seen.tracks.contains(uuid)) << "described twice";
  if (const auto parent = first(of, 5)) {
    ASSERT_TRUE(seen.tracks.contains(parent->value)) << "a track before its parent";
  }
  seen.tracks[uuid] = first(of, 2) ? std::string(first(of, 2)->bytes) : "process";
  if (first(of, 8)) seen.counters.insert(uuid);
}

void see_event(Seen& seen, std::map<std::uint64_t, int>& depth, std::map<std::uint64_t, std::uint64_t>& last_on,
               std::uint64_t time, const std::vector<ProtoField>& of) {
  const std::uint64_t on = first(of, 11)->value;
  ASSERT_TRUE(seen.tracks.contains(on)) << "an event before its track";
  const std::string& name = seen.tracks[on];
  ASSERT_GE(time, last_on[on]) << name << ": events of a track come in order";
  last_on[on] = time;
  seen.first_time = std::min(seen.first_time, time);
  seen.last_time = std::max(seen.last_time, time);
  const std::uint64_t type = first(of, 9)->value;
  ASSERT_TRUE(type >= 1 && type <= 4) << name << ": an event of no type";
  ASSERT_EQ(type == 4, first(of, 30).has_value()) << name << ": a value, and only on a counter";
  ASSERT_EQ(type == 1 || type == 3, first(of, 10) || first(of, 23))
      << name << ": slices and marks have names, ends none";
  ASSERT_LE(time, std::uint64_t{1} << 62U) << name;
  ASSERT_EQ(type == 4, seen.counters.contains(on)) << name;
  if (const auto id = first(of, 10)) {
    ASSERT_TRUE(seen.names.contains(id->value)) << "an unknown name";
  }
  if (type == 1) {
    ASSERT_EQ(++depth[on], 1) << name << ": slices do not overlap";
  }
  if (type == 2) {
    ASSERT_EQ(--depth[on], 0) << name << ": an end without a beginning";
  }
  if (type == 1 || type == 3) ++seen.events[name];
  if (type == 4) seen.last_value[name] = first(of, 30)->value;
  for (const ProtoField& field : of) {
    if (field.field == 47 || field.field == 48) seen.flows[field.value].push_back(time);
    if (field.field == 48) {
      ASSERT_TRUE(seen.ended_flows.insert(field.value).second) << "a flow ends once";
    }
  }
}

Seen read_perfetto(const std::string& bytes) {
  Seen seen;
  expect_valid("Trace", bytes);
  const auto packets = read_message(bytes);
  if (!packets) return seen;
  std::map<std::uint64_t, int> depth;
  std::map<std::uint64_t, std::uint64_t> last_on;
  for (const ProtoField& field : *packets) {
    const std::vector<ProtoField> packet = *read_message(field.bytes);
    const std::uint64_t sequence = first(packet, 10) ? first(packet, 10)->value : 0;
    EXPECT_NE(sequence, 0U);
    const std::uint64_t flags = first(packet, 13) ? first(packet, 13)->value : 0;
    if (seen.sequence == 0) {
      EXPECT_EQ(flags, 1U) << "the first packet says that no state came before";
    }
    seen.sequence = sequence;
    if (const auto interned = first(packet, 12)) {
      const std::vector<ProtoField> names = *read_message(interned->bytes);
      for (const ProtoField& name : names) {
        const auto entry = *read_message(name.bytes);
        EXPECT_TRUE(seen.names.emplace(first(entry, 1)->value, std::string(first(entry, 2)->bytes)).second);
      }
    }
    EXPECT_EQ(static_cast<int>(first(packet, 60).has_value()) + static_cast<int>(first(packet, 11).has_value()) <= 1,
              true)
        << "one kind of data in a packet";
    if (const auto event = first(packet, 11); event && first(*read_message(event->bytes), 10)) {
      EXPECT_NE(flags & 3U, 0U) << "a name by number in a packet that does not say that it needs the names";
    }
    if (const auto track = first(packet, 60)) see_track(seen, *read_message(track->bytes));
    if (const auto event = first(packet, 11)) {
      EXPECT_TRUE(first(packet, 8)) << "an event without a time";
      see_event(seen, depth, last_on, first(packet, 8)->value, *read_message(event->bytes));
    }
  }
  for (const auto& [on, open] : depth) EXPECT_EQ(open, 0) << seen.tracks[on] << ": a slice without an end";
  return seen;
}

TEST_F(PerfettoTest, KeepsTheRulesAndHoldsEverything) {
  put("run.swt", tests::training_trace());
  const auto result = spillway({"export", "run.swt", "--format", "perfetto", "-o", "run.pftrace"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  const std::string bytes = text("run.pftrace");
  Seen seen = read_perfetto(bytes);
  EXPECT_EQ(seen.events["stream 0: launches"], 400U);
  EXPECT_EQ(seen.events["stream 1: launches"], 80U);
  EXPECT_EQ(seen.events["device 0: copies in"], 24U);
  EXPECT_EQ(seen.events["device 0: copies out"], 23U);
  EXPECT_EQ(seen.events["decisions"], 51U);
  EXPECT_EQ(seen.events["iterations"], 20U);
  EXPECT_EQ(seen.last_value["device 0: resident"], 8U << 20U);
  EXPECT_EQ(seen.last_value["device 0: on host"], 16U << 20U);
  // Each move has a flow from its decision; what came in over the link leads on to a launch, the useless excepted.
  EXPECT_EQ(seen.flows.size(), 47U);
  std::size_t to_launch = 0;
  for (const auto& [id, times] : seen.flows) {
    EXPECT_GE(times.size(), 2U);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    to_launch += times.size() == 3 ? 1U : 0U;
  }
  EXPECT_EQ(to_launch, 19U) << "16 times states, 3 times activations";
}

TEST_F(PerfettoTest, KernelTimesAreSlicesOfTheirStream) {
  tests::TraceMaker maker({});
  maker.event(policy::FunctionSeen{{1}, "gemm"});
  maker.event(policy::LaunchShapeSeen{{1}, {1}, 32, {}});
  for (std::int64_t i = 0; i < 3; ++i) {
    maker.launch(1, 5);
    maker.event(
        policy::KernelTimed{{maker.launches()}, policy::Nanoseconds(10'000 * (i + 1)), policy::Nanoseconds(20'000)});
  }
  put("run.swt", maker.finish());
  ASSERT_EQ(spillway({"export", "run.swt", "--format", "perfetto", "-o", "run.pftrace"}).exit_code, 0);
  const std::string bytes = text("run.pftrace");
  EXPECT_EQ(read_perfetto(bytes).events["stream 5: kernels"], 3U) << "also where they seem to overlap";
}

// Real recordings, with kernel times, several streams and page traffic; and one whose names are no UTF-8.
TEST_F(PerfettoTest, RecordingsAndOddNamesKeepTheRules) {
  for (const char* name : {"train_gpt2_fused", "generate_llama", "decode_kv", "cupy_blocks"}) {
    SCOPED_TRACE(name);
    const std::string trace = std::string(GOLDEN_TRACES) + "/" + name + ".swt";
    const std::string file = std::string(name) + ".pftrace";
    ASSERT_EQ(spillway({"export", trace, "--format", "perfetto", "-o", file}).exit_code, 0);
    const std::string bytes = text(file);
    EXPECT_GT(read_perfetto(bytes).events["decisions"], 0U);
  }
  tests::TraceMaker maker({});
  maker.event(policy::FunctionSeen{{1}, "gemm\xff\xfe\x1b[31m"});
  maker.event(policy::LaunchShapeSeen{{1}, {1}, 32, {}});
  maker.launch(1, 0);
  put("odd.swt", maker.finish());
  ASSERT_EQ(spillway({"export", "odd.swt", "--format", "perfetto", "-o", "odd.pftrace"}).exit_code, 0);
  const std::string odd = text("odd.pftrace");
  EXPECT_EQ(read_perfetto(odd).events["stream 0: launches"], 1U);
}

TEST_F(PerfettoTest, APieceHoldsOnlyThePiece) {
  put("run.swt", tests::training_trace());
  ASSERT_EQ(
      spillway({"export", "run.swt", "--format", "perfetto", "-o", "cut.pftrace", "--iteration", "9..10"}).exit_code,
      0);
  const std::string bytes = text("cut.pftrace");
  Seen seen = read_perfetto(bytes);
  EXPECT_EQ(seen.events["stream 0: launches"] + seen.events["stream 1: launches"], 48U);
  EXPECT_EQ(seen.events["iterations"], 2U);
  ASSERT_EQ(
      spillway({"export", "run.swt", "--format", "perfetto", "-o", "time.pftrace", "--from", "0.01s", "--to", "20ms"})
          .exit_code,
      0);
  const std::string timed = text("time.pftrace");
  seen = read_perfetto(timed);
  EXPECT_GE(seen.first_time, 9'000'000U) << "a move that ends inside began up to a millisecond before";
  EXPECT_LE(seen.last_time, 20'000'000U + 4'000'000U);
}

}  // namespace
}  // namespace spillway::tools
