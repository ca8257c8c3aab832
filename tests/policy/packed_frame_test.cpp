// Packed frames: what is packed comes back to the byte, in chains; what is damaged or out of place does not.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "policy/trace/frame_builder.hpp"
#include "policy/trace/record_model.hpp"
#include "policy/trace/trace_reader.hpp"
#include "tests/support/random_events.hpp"

namespace spillway::policy::trace {
namespace {

using tests::RandomEvents;
using RawRecords = std::vector<std::byte>;

template <class Body>
void add_record(RawRecords& records, std::uint32_t time, const Body& body) {
  static std::vector<std::byte> place(kMaximumRecordBytes);
  const std::size_t size = encode_record(place.data(), time, body);
  records.insert(records.end(), place.begin(), place.begin() + static_cast<std::ptrdiff_t>(size));
}

struct PackedFrame {
  std::vector<std::byte> payload;
  std::uint32_t crc = 0;
  bool continues = false;
};

PackedFrame pack(FramePacker& packer, const RawRecords& records) {
  PackedFrame frame;
  frame.continues = packer.continues();
  frame.payload = packer.pack(records, 5);
  frame.crc = static_cast<std::uint32_t>(1000 + frame.payload.size());
  packer.packed(frame.crc);
  return frame;
}

bool unpack(FrameUnpacker& unpacker, const PackedFrame& frame, const RawRecords& expected) {
  RawRecords records(expected.size(), std::byte{0xEE});  // what was there before must not matter
  return unpacker.unpack({frame.payload, frame.crc, 5, frame.continues}, records) && records == expected;
}

// A loop of 40 shapes whose temporaries move a little in each step, with kernel times.
RawRecords training_step(std::uint32_t step) {
  RawRecords records;
  std::uint32_t time = 0;
  for (std::uint32_t i = 0; i < 40; ++i) {
    const bool fresh = step == 0 || i % 8 == 3;
    const std::uint32_t shape = fresh ? 1 + step * 40 + i : 1 + i;
    time += 8000 + (i * 977 + step * 13) % 400;
    if (fresh) {
      LaunchShapeSeen seen{{shape}, {1 + i % 5}, 4096, {}};
      for (std::uint16_t a = 0; a < 6; ++a) {
        seen.arguments.push_back({a, {0x7f0000000000 + (i * 6 + a) * 4096ULL + (a == 5 ? step * 512ULL : 0)}});
      }
      add_record(records, time, EventBody(seen));
    }
    add_record(records, time, EventBody(Launched{{shape}, {7}}));
    add_record(records, time,
               EventBody(KernelTimed{
                   {std::uint64_t{step} * 40 + i + 1}, Nanoseconds(time + 3000), Nanoseconds(5000 + i * 32)}));
  }
  return records;
}

TEST(PackedFrame, GivesBackEveryKindOfRecordInAChain) {
  RandomEvents random(11);
  FramePacker packer(1);
  FrameUnpacker unpacker;
  for (int frame = 0; frame < 30; ++frame) {
    RawRecords records;
    for (int i = 0; i < 60; ++i) {
      const auto time = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32));
      if (random.below(3) == 0) {
        add_record(records, time, random.decision());
      } else {
        add_record(records, time, random.event_body());
      }
    }
    const PackedFrame packed = pack(packer, records);
    EXPECT_EQ(packed.continues, frame > 0);
    ASSERT_TRUE(unpack(unpacker, packed, records)) << frame;
  }
}

// A newer writer's types, flags, odd padding and lengths are carried as they are.
TEST(PackedFrame, GivesBackRecordsThatNoCodecWrote) {
  std::mt19937_64 random(3);
  FramePacker packer(1);
  FrameUnpacker unpacker;
  for (int frame = 0; frame < 50; ++frame) {
    RawRecords records;
    for (int i = 0; i < 20; ++i) {
      const std::size_t words = 1 + random() % 12;
      RawRecords record(words * 8);
      for (std::byte& byte : record) byte = static_cast<std::byte>(random() % 3 == 0 ? random() : 0);
      record[0] = static_cast<std::byte>(random() % 2 == 0 ? random() % 80 : random());
      record[1] = static_cast<std::byte>(random() % 4 == 0 ? 1 : 0);
      record[2] = static_cast<std::byte>(words);
      record[3] = std::byte{0};
      records.insert(records.end(), record.begin(), record.end());
    }
    ASSERT_TRUE(unpack(unpacker, pack(packer, records), records)) << frame;
  }
}

// The records of version 2. What comes later must have no model in it, or its readers could not step over them.
constexpr std::size_t kEventsOfVersion2 = 21;
constexpr std::size_t kDecisionsOfVersion2 = 6;

TEST(PackedFrame, HasNoModelForRecordsThatAreYoungerThanItsVersion) {
  for (std::size_t type = 0; type < 256; ++type) {
    const bool known = (type >= 1 && type <= kEventsOfVersion2) || (type >= 64 && type < 64 + kDecisionsOfVersion2);
    if (!known) {
      EXPECT_EQ(packed_fields(type), nullptr) << type;
    }
  }
}

// packed_fields repeats the codec's layout: every record of fixed size must be known by it, or it would cost ten times.
TEST(PackedFrame, KnowsTheFieldsOfEveryRecordWithoutTextOrList) {
  RandomEvents random(2);
  const auto check = [](const RawRecords& record, const std::string& what) {
    const auto type = static_cast<std::size_t>(record[0]);
    const char* const fields = packed_fields(type);
    ASSERT_NE(fields, nullptr) << what;
    std::size_t bytes = 8;
    for (const char* field = fields; *field != '\0'; ++field) bytes += *field == '4' ? 4 : 8;
    EXPECT_EQ((bytes + 7) / 8 * 8, record.size()) << what;
  };
  for (std::size_t i = 0; i < kEventsOfVersion2; ++i) {
    RawRecords record;
    const EventBody body = random.event_body(i);
    add_record(record, 0, body);
    const bool modelled = std::holds_alternative<LaunchShapeSeen>(body) || std::holds_alternative<Launched>(body) ||
                          std::holds_alternative<KernelTimed>(body);
    const bool text = std::holds_alternative<DeviceSeen>(body) || std::holds_alternative<DeviceReserved>(body) ||
                      std::holds_alternative<FunctionSeen>(body) || std::holds_alternative<CallerSeen>(body) ||
                      std::holds_alternative<GraphSeen>(body) || std::holds_alternative<TelemetryChanged>(body);
    if (!modelled && !text) check(record, "event " + std::to_string(i));
  }
  for (std::size_t i = 0; i < kDecisionsOfVersion2; ++i) {
    RawRecords record;
    const Decision decision = random.decision(i);
    add_record(record, 0, decision);
    if (!std::holds_alternative<Note>(decision.body)) check(record, "decision " + std::to_string(i));
  }
}

TEST(PackedFrame, LearnsFromTheFramesBefore) {
  FramePacker packer(1);
  std::size_t first = 0;
  std::size_t last = 0;
  for (std::uint32_t step = 0; step < 8; ++step) {
    last = pack(packer, training_step(step)).payload.size();
    if (step == 0) first = last;
  }
  // 40 launches and kernel times, 5 new shapes: 3.8 KB raw.
  EXPECT_LT(last, first / 2);
  EXPECT_LT(last, 300U);
}

TEST(PackedFrame, AContinuedFrameNeedsTheOneBefore) {
  FramePacker packer(1);
  std::vector<RawRecords> records;
  std::vector<PackedFrame> frames;
  for (std::uint32_t step = 0; step < 4; ++step) {
    records.push_back(training_step(step));
    frames.push_back(pack(packer, records.back()));
  }
  FrameUnpacker unpacker;
  EXPECT_FALSE(unpack(unpacker, frames[1], records[1])) << "nothing was read before";
  EXPECT_TRUE(unpack(unpacker, frames[0], records[0]));
  EXPECT_FALSE(unpack(unpacker, frames[2], records[2])) << "one is missing";
  EXPECT_FALSE(unpack(unpacker, frames[1], records[1])) << "nothing continues what failed";
  EXPECT_TRUE(unpack(unpacker, frames[0], records[0]));
  EXPECT_TRUE(unpack(unpacker, frames[1], records[1]));
  packer.end_chain();
  records.push_back(training_step(4));
  frames.push_back(pack(packer, records.back()));
  EXPECT_FALSE(frames.back().continues);
  EXPECT_TRUE(unpack(unpacker, frames.back(), records.back())) << "a new chain needs nothing";
}

TEST(PackedFrame, SurvivesDamage) {
  std::mt19937_64 random(5);
  FramePacker packer(1);
  const RawRecords records = training_step(0);
  const PackedFrame good = pack(packer, records);
  for (int round = 0; round < 2000; ++round) {
    PackedFrame frame = good;
    for (int i = 0; i < 1 + round % 8; ++i) {
      frame.payload[random() % frame.payload.size()] = static_cast<std::byte>(random());
    }
    frame.payload.resize(frame.payload.size() - random() % 30);
    RawRecords place(records.size() - 8 * (random() % 5));
    FrameUnpacker unpacker;
    unpacker.unpack({frame.payload, 0, 0, false}, place);
  }
}

TEST(PackedFrame, AChainIsBoundedAndTheReaderRefusesALongerOne) {
  FrameBuilder builder({4096, 1, 20'000});
  std::size_t chained = 0;
  std::size_t in_chain = 0;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const auto frame = builder.add({Nanoseconds(i * 1000), Launched{{1 + i % 30}, {1}}});
    if (!frame) continue;
    const auto header = parse_frame_header(*frame);
    in_chain = header->compression == Compression::continued ? in_chain + header->raw_bytes : header->raw_bytes;
    chained += header->compression == Compression::continued ? 1U : 0U;
    EXPECT_LE(in_chain, 20'000U);
  }
  EXPECT_GT(chained, 10U);

  FramePacker packer(1);
  FrameUnpacker unpacker;
  const RawRecords step = training_step(0);
  RawRecords records;
  while (records.size() < kMaximumFrameBytes - step.size()) records.insert(records.end(), step.begin(), step.end());
  EXPECT_TRUE(unpack(unpacker, pack(packer, records), records));
  EXPECT_TRUE(unpack(unpacker, pack(packer, records), records));
  EXPECT_FALSE(unpack(unpacker, pack(packer, records), records));
}

TEST(PackedFrame, AfterADroppedFrameAChainBegins) {
  FrameBuilder builder;
  const auto frame = [&builder] {
    for (std::uint32_t i = 0; i < 100; ++i) EXPECT_FALSE(builder.add({Nanoseconds(i), Launched{{i}, {1}}}));
    return parse_frame_header(*builder.finish())->compression;
  };
  EXPECT_EQ(frame(), Compression::packed);
  EXPECT_EQ(frame(), Compression::continued);
  builder.note_dropped();
  EXPECT_EQ(frame(), Compression::packed);
  EXPECT_EQ(frame(), Compression::continued);
}

// The first records that this Spillway wrote, by which every later one is held: they are read, and give what they gave.
TEST(OldTraces, AreReadForEver) {
  std::ifstream stream(SPILLWAY_OLD_TRACES "/version_1.swt", std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(stream)), {});
  const std::span<const std::byte> file = std::as_bytes(std::span(text));
  ASSERT_GT(file.size(), 12U);
  ASSERT_EQ(file[8], std::byte{1});
  TraceReader reader(pull_from(file));
  ASSERT_FALSE(reader.open());
  std::uint64_t launches = 0;
  std::uint64_t timed = 0;
  std::uint64_t decisions = 0;
  for (Record record; reader.next(record);) {
    launches += record.kind == RecordKind::event && std::holds_alternative<Launched>(record.event.body) ? 1U : 0U;
    timed += record.kind == RecordKind::event && std::holds_alternative<KernelTimed>(record.event.body) ? 1U : 0U;
    decisions += record.kind == RecordKind::decision ? 1U : 0U;
  }
  EXPECT_TRUE(reader.whole());
  EXPECT_EQ(launches, 2578U);
  EXPECT_EQ(timed, 506U);
  EXPECT_EQ(decisions, 204U);
  ASSERT_TRUE(reader.end());
  EXPECT_EQ(reader.end()->launches, launches);
  EXPECT_EQ(reader.unknown_records(), 0U);
}

}  // namespace
}  // namespace spillway::policy::trace
