// Records: every event and decision comes back as it went in; what a reader does not know it steps over.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "policy/trace/crc32.hpp"
#include "policy/trace/record_codec.hpp"
#include "tests/support/random_events.hpp"

namespace spillway::policy::trace {
namespace {

using tests::RandomEvents;

std::vector<std::byte> encoded(std::uint32_t time, const auto& body) {
  std::vector<std::byte> bytes(kMaximumRecordBytes);
  bytes.resize(encode_record(bytes.data(), time, body));
  return bytes;
}

TEST(TraceCodec, EveryEventRoundTrips) {
  RandomEvents random(1);
  Record record;  // reused on purpose: what an earlier record left must not show
  for (int round = 0; round < 300; ++round) {
    for (std::size_t i = 0; i < std::variant_size_v<EventBody>; ++i) {
      const EventBody body = random.event_body(i);
      ASSERT_EQ(body.index(), i) << "tests/support/random_events.cpp lacks an alternative";
      const std::vector<std::byte> bytes = encoded(77, body);
      ASSERT_EQ(bytes.size() % 8, 0U);
      RecordCursor cursor(bytes, Nanoseconds(1000));
      ASSERT_TRUE(cursor.next(record));
      ASSERT_EQ(record.kind, RecordKind::event) << "alternative " << i;
      ASSERT_EQ(record.event.body, body) << "alternative " << i;
      ASSERT_EQ(record.event.time, Nanoseconds(1077));
      ASSERT_FALSE(record.cut);
      ASSERT_FALSE(cursor.next(record));
      ASSERT_FALSE(cursor.broken());
    }
  }
}

TEST(TraceCodec, EveryDecisionRoundTrips) {
  RandomEvents random(2);
  Record record;
  for (int round = 0; round < 300; ++round) {
    for (std::size_t i = 0; i < std::variant_size_v<DecisionBody>; ++i) {
      const Decision decision = random.decision(i);
      ASSERT_EQ(decision.body.index(), i) << "tests/support/random_events.cpp lacks an alternative";
      const std::vector<std::byte> bytes = encoded(5, decision);
      RecordCursor cursor(bytes, Nanoseconds(-3));
      ASSERT_TRUE(cursor.next(record));
      ASSERT_EQ(record.kind, RecordKind::decision);
      ASSERT_EQ(record.decision, decision) << "alternative " << i;
      ASSERT_EQ(record.time, Nanoseconds(2));
    }
  }
}

TEST(TraceCodec, LaunchIsSixteenBytes) { EXPECT_EQ(encoded(0, EventBody(Launched{{7}, {1}})).size(), 16U); }

// The bytes themselves, so that a change of layout cannot pass as a round trip.
TEST(TraceCodec, LayoutIsTheOneInTheFormat) {
  const std::vector<std::byte> bytes = encoded(0x01020304, EventBody(Freed{{0xA1A2A3A4}, {-2}}));
  const std::array<unsigned, 16> expected = {9,    0,    2,    0,    0x04, 0x03, 0x02, 0x01,
                                             0xA4, 0xA3, 0xA2, 0xA1, 0xFE, 0xFF, 0xFF, 0xFF};
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), expected[i]) << i;
}

TEST(TraceCodec, LongTextAndListsAreCutAndSaySo) {
  const std::string text(10'000, 'x');
  LaunchShapeSeen shape{{1}, {2}, 3, std::vector<PointerArgument>(5000, {1, {2}})};
  GraphSeen graph{{1}, std::vector<LaunchShapeId>(70'000, LaunchShapeId{1})};
  Record record;
  const auto read = [&record](const std::vector<std::byte>& bytes) {
    RecordCursor cursor(bytes, {});
    return cursor.next(record) && record.cut;
  };
  ASSERT_TRUE(read(encoded(0, EventBody(FunctionSeen{{1}, text}))));
  EXPECT_EQ(std::get<FunctionSeen>(record.event.body).name, text.substr(0, 4096));
  ASSERT_TRUE(read(encoded(0, EventBody(shape))));
  EXPECT_EQ(std::get<LaunchShapeSeen>(record.event.body).arguments.size(), 4096U);
  ASSERT_TRUE(read(encoded(0, EventBody(graph))));
  EXPECT_EQ(std::get<GraphSeen>(record.event.body).shapes.size(), 65'536U);
}

TEST(TraceCodec, UnknownTypesAndValuesAreSteppedOver) {
  std::vector<std::byte> bytes = encoded(0, EventBody(Launched{{1}, {1}}));
  bytes[0] = std::byte{200};
  const std::vector<std::byte> newer_enum = encoded(0, EventBody(Copied{{1}, static_cast<CopyKind>(99), {}, {}, {}}));
  bytes.insert(bytes.end(), newer_enum.begin(), newer_enum.end());
  const std::vector<std::byte> known = encoded(0, EventBody(Launched{{5}, {6}}));
  bytes.insert(bytes.end(), known.begin(), known.end());
  RecordCursor cursor(bytes, {});
  Record record;
  ASSERT_TRUE(cursor.next(record));
  EXPECT_EQ(record.kind, RecordKind::unknown);
  EXPECT_EQ(record.type, 200);
  ASSERT_TRUE(cursor.next(record));
  EXPECT_EQ(record.kind, RecordKind::unknown);
  ASSERT_TRUE(cursor.next(record));
  ASSERT_EQ(record.kind, RecordKind::event);
  EXPECT_EQ(record.event.body, EventBody(Launched{{5}, {6}}));
}

TEST(TraceCodec, RecordShorterThanItsFieldsIsMalformed) {
  std::vector<std::byte> bytes = encoded(0, EventBody(FunctionSeen{{1}, "a name of more than one word"}));
  bytes.resize(16);
  bytes[2] = std::byte{2};
  RecordCursor cursor(bytes, {});
  Record record;
  ASSERT_TRUE(cursor.next(record));
  EXPECT_EQ(record.kind, RecordKind::malformed);
}

TEST(TraceCodec, WordsThatLeadOutsideEndTheWalk) {
  for (const unsigned words : {0U, 3U, 65535U}) {
    std::vector<std::byte> bytes = encoded(0, EventBody(Launched{{1}, {1}}));
    bytes[2] = static_cast<std::byte>(words & 0xFFU);
    bytes[3] = static_cast<std::byte>(words >> 8U);
    RecordCursor cursor(bytes, {});
    Record record;
    EXPECT_FALSE(cursor.next(record)) << words;
    EXPECT_TRUE(cursor.broken()) << words;
  }
}

TEST(Crc32, IsZlibs) {
  const std::string check = "123456789";
  EXPECT_EQ(crc32(std::as_bytes(std::span(check))), 0xCBF43926U);
  const std::string longer = "The quick brown fox jumps over the lazy dog";
  EXPECT_EQ(crc32(std::as_bytes(std::span(longer))), 0x414FA339U);
  EXPECT_EQ(crc32({}), 0U);
}

}  // namespace
}  // namespace spillway::policy::trace
