// Files: what is written is read back; what is cut, flipped, foreign or newer is survived and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "policy/trace/frame_builder.hpp"
#include "policy/trace/trace_reader.hpp"
#include "tests/support/random_events.hpp"

namespace spillway::policy::trace {
namespace {

using ::testing::HasSubstr;
using tests::RandomEvents;

void append(std::vector<std::byte>& file, const std::vector<std::byte>& bytes) {
  file.insert(file.end(), bytes.begin(), bytes.end());
}

struct Written {
  std::vector<std::byte> file;
  std::vector<Event> events;
  std::vector<Decision> decisions;
  std::vector<std::size_t> frame_offsets;
};

TraceHeader sample_header() {
  TraceHeader header;
  header.program = "/usr/bin/\"odd\"\n\x01 \xff name";
  header.arguments = {"train", "--steps", "10"};
  header.pid = 42;
  header.parent_pid = 41;
  header.start = "2026-01-02T03:04:05+00:00";
  header.host = "node1";
  header.rank = "3";
  header.devices = {{{0}, {1, 2, 0xAB}, 16_GiB, 15_GiB, true, "A device"}};
  header.driver_version = "13.0";
  header.build = "0.1.0";
  header.settings = {{"memory.device_budget", "16GiB"}, {"policy.mode", "adaptive"}};
  header.rules = {{"adam \"states\"", 4}, {"", 0}};
  header.cost_table = R"({"link":44})";
  return header;
}

TraceEnd sample_end() {
  TraceEnd end;
  end.reason = "exit";
  end.launches = 7;
  end.dropped_frames = 1;
  DeviceEnd device{{0}, {}};
  device.totals.budget = 16_GiB;
  device.totals.moved_out = 3_MiB;
  end.devices.push_back(device);
  return end;
}

// What is said of single frames holds for chains of one; packed_frame_test.cpp has the longer ones.
constexpr std::size_t kEachAChain = 1;

// A file as the shim writes it: random records, an index, an end.
Written write_trace(std::uint64_t seed, std::size_t records, FrameLimits limits) {
  Written written;
  written.file = encode_file_start(encode_header(sample_header()));
  RandomEvents random(seed);
  FrameBuilder builder(limits);
  FrameIndex index;
  const auto put = [&](const std::optional<FrameBytes>& frame) {
    if (!frame) return;
    written.frame_offsets.push_back(written.file.size());
    index.add(written.file.size(), *parse_frame_header(*frame));
    append(written.file, *frame);
  };
  std::int64_t time = 0;
  for (std::size_t i = 0; i < records; ++i) {
    time += static_cast<std::int64_t>(random.below(100'000));
    if (random.below(500) == 0) time += 9'000'000'000;  // a pause longer than a frame may span
    const Nanoseconds when(std::max<std::int64_t>(0, time - static_cast<std::int64_t>(random.below(200'000))));
    if (random.below(3) == 0) {
      written.decisions.push_back(random.decision());
      put(builder.add(when, written.decisions.back()));
    } else {
      written.events.push_back({when, random.event_body()});
      put(builder.add(written.events.back()));
    }
  }
  put(builder.finish());
  append(written.file, index.encode(builder.encoder()));
  const std::string end = encode_end(sample_end());
  FrameContents contents;
  contents.kind = FrameKind::end;
  append(written.file, builder.encoder().encode(std::as_bytes(std::span(end)), contents));
  return written;
}

struct ReadBack {
  std::optional<TraceError> error;
  std::vector<Event> events;
  std::vector<Decision> decisions;
};

ReadBack read_all(TraceReader& reader) {
  ReadBack read;
  read.error = reader.open();
  if (read.error) return read;
  for (Record record; reader.next(record);) {
    if (record.kind == RecordKind::event) read.events.push_back(record.event);
    if (record.kind == RecordKind::decision) read.decisions.push_back(record.decision);
  }
  return read;
}

TEST(TraceFile, RoundTripsOverRandomRecords) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const FrameLimits limits{std::size_t{1} << (8 + seed), static_cast<int>(seed % 4), kEachAChain};
    const Written written = write_trace(seed, 3000, limits);
    TraceReader reader(pull_from(written.file));
    const ReadBack read = read_all(reader);
    ASSERT_FALSE(read.error);
    ASSERT_EQ(read.events, written.events);
    ASSERT_EQ(read.decisions, written.decisions);
    EXPECT_TRUE(reader.whole());
    EXPECT_EQ(reader.report().bytes, written.file.size());
    ASSERT_EQ(reader.index().size(), written.frame_offsets.size());
    EXPECT_EQ(reader.index().back().offset, written.frame_offsets.back());
  }
}

// The pull may hand out as little as it likes.
TEST(TraceFile, ReadsFromTinyPieces) {
  const Written written = write_trace(3, 300, {});
  std::size_t at = 0;
  TraceReader reader([&](std::span<std::byte> place) {
    const std::size_t size = std::min({place.size(), std::size_t{7}, written.file.size() - at});
    std::memcpy(place.data(), written.file.data() + at, size);
    at += size;
    return size;
  });
  EXPECT_EQ(read_all(reader).events, written.events);
  EXPECT_TRUE(reader.whole());
}

TEST(TraceFile, HeaderAndEndRoundTrip) {
  const Written written = write_trace(1, 1, {});
  TraceReader reader(pull_from(written.file));
  read_all(reader);
  TraceHeader expected = sample_header();
  expected.program = "/usr/bin/\"odd\"\n\x01 \xEF\xBF\xBD name";  // what is no UTF-8 is replaced
  EXPECT_EQ(reader.header(), expected);
  ASSERT_TRUE(reader.end());
  EXPECT_EQ(reader.end()->reason, "exit");
  EXPECT_EQ(reader.end()->launches, 7U);
  EXPECT_EQ(reader.end()->dropped_frames, 1U);
  ASSERT_EQ(reader.end()->devices.size(), 1U);
  for (const TotalField& field : kTotalFields) {
    EXPECT_EQ(reader.end()->devices[0].totals.*field.member, sample_end().devices[0].totals.*field.member)
        << field.name;
  }
}

// Every length of a small file: no crash, a prefix of the records, and never "whole".
TEST(TraceFile, CutAnywhereKeepsWhatIsBefore) {
  const Written written = write_trace(5, 60, {1024, 1});
  for (std::size_t size = 0; size < written.file.size(); ++size) {
    TraceReader reader(pull_from(std::span(written.file).first(size)));
    const ReadBack read = read_all(reader);
    ASSERT_FALSE(reader.whole()) << size;
    ASSERT_LE(read.events.size(), written.events.size());
    ASSERT_TRUE(std::equal(read.events.begin(), read.events.end(), written.events.begin())) << size;
    if (!read.error && reader.report().cut_at) {
      ASSERT_EQ(*reader.report().cut_at, size);
    }
  }
}

TEST(TraceFile, CutInsideAFrameNamesTheOffset) {
  const Written written = write_trace(5, 200, {1024, 1});
  const std::size_t size = written.frame_offsets.at(2) + 50;
  TraceReader reader(pull_from(std::span(written.file).first(size)));
  read_all(reader);
  EXPECT_EQ(reader.report().cut_at, size);
  EXPECT_EQ(reader.report().frames, 2U);
}

TEST(TraceFile, FlippedBitCostsOneFrameAndIsCounted) {
  const Written written = write_trace(6, 2000, {4096, 1, kEachAChain});
  const std::size_t frames = written.frame_offsets.size();
  ASSERT_GT(frames, 10U);
  // In the payload, in the header's check, magic, lengths, CRC and times.
  for (const std::size_t inside : {60UL, 0UL, 6UL, 8UL, 11UL, 13UL, 20UL, 25UL, 33UL}) {
    std::vector<std::byte> file = written.file;
    file[written.frame_offsets[5] + inside] ^= std::byte{0x10};
    TraceReader reader(pull_from(file));
    const ReadBack read = read_all(reader);
    ASSERT_FALSE(read.error);
    EXPECT_EQ(reader.report().damaged_frames, 1U) << inside;
    EXPECT_EQ(reader.report().first_damage, written.frame_offsets[5]) << inside;
    EXPECT_EQ(reader.report().frames, frames - 1 + 2) << inside;
    EXPECT_LT(read.events.size(), written.events.size()) << inside;
    EXPECT_FALSE(reader.whole());
    ASSERT_TRUE(reader.end());
  }
}

// The frames of a chain are told from those before them: what follows the damage in its chain is lost with it.
TEST(TraceFile, FlippedBitCostsTheRestOfItsChainAndNoMore) {
  const Written written = write_trace(6, 2000, {4096, 1, 20'000});
  const auto starts_chain = [&written](std::size_t frame) {
    const auto header = parse_frame_header(std::span(written.file).subspan(written.frame_offsets[frame]));
    return header->compression != Compression::continued;
  };
  std::size_t damaged = 1;
  while (!starts_chain(damaged - 1)) ++damaged;
  std::size_t lost = 1;
  while (!starts_chain(damaged + lost)) ++lost;
  std::vector<std::byte> file = written.file;
  file[written.frame_offsets[damaged] + 60] ^= std::byte{0x10};
  TraceReader reader(pull_from(file));
  const ReadBack read = read_all(reader);
  ASSERT_FALSE(read.error);
  EXPECT_GT(lost, 1U);
  EXPECT_EQ(reader.report().damaged_frames, 1U) << "one stretch";
  EXPECT_EQ(reader.report().first_damage, written.frame_offsets[damaged]);
  EXPECT_EQ(reader.report().frames, written.frame_offsets.size() - lost + 2);
  EXPECT_EQ(read.events.back(), written.events.back());
  EXPECT_EQ(reader.malformed_records(), 0U);
  // The index leads only to where a chain begins.
  for (const IndexEntry& entry : reader.index()) {
    EXPECT_NE(parse_frame_header(std::span(written.file).subspan(entry.offset))->compression, Compression::continued);
  }
}

TEST(TraceFile, DamagedFileHeaderLosesNoFrame) {
  const Written written = write_trace(6, 500, {4096, 1, kEachAChain});
  for (const std::size_t at : {12UL, 14UL, 15UL, 16UL, 40UL}) {
    std::vector<std::byte> file = written.file;
    file[at] ^= std::byte{0x40};
    TraceReader reader(pull_from(file));
    const ReadBack read = read_all(reader);
    ASSERT_FALSE(read.error);
    EXPECT_TRUE(reader.report().header_damaged);
    EXPECT_EQ(read.events, written.events) << at;
    EXPECT_FALSE(reader.whole());
  }
}

// A million of brackets, with the right checksum: no stack is deep enough to walk them.
TEST(TraceFile, AHeaderOrAnEndNestedTooDeepIsDamage) {
  const std::string deep = R"({"cost_table":{"x":)" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}}";
  const Written written = write_trace(6, 50, {});
  const std::string header = encode_header(sample_header());
  std::vector<std::byte> file = encode_file_start(deep);
  const auto frames = written.file.begin() + static_cast<std::ptrdiff_t>(written.frame_offsets.front());
  file.insert(file.end(), frames, written.file.end());
  TraceReader reader(pull_from(file));
  const ReadBack read = read_all(reader);
  ASSERT_FALSE(read.error);
  EXPECT_EQ(read.events, written.events);
  EXPECT_TRUE(reader.report().header_damaged);
  EXPECT_EQ(reader.report().damaged_frames, 1U);
  EXPECT_EQ(reader.report().first_damage, 20U);
  EXPECT_FALSE(reader.whole());
  EXPECT_FALSE(decode_end(deep));
  EXPECT_TRUE(decode_end(R"({"reason":"[[[[\"{{{{"})"));
  file = encode_file_start(header);
  FrameContents contents;
  contents.kind = FrameKind::end;
  append(file, FrameEncoder().encode(std::as_bytes(std::span(deep)), contents));
  TraceReader ended(pull_from(file));
  read_all(ended);
  EXPECT_EQ(ended.malformed_records(), 1U);
  EXPECT_FALSE(ended.end());
}

TEST(TraceFile, UnknownFrameKindIsSkipped) {
  Written written = write_trace(7, 100, {});
  FrameContents contents;
  contents.kind = static_cast<FrameKind>(77);
  std::vector<std::byte> foreign = FrameEncoder().encode(std::as_bytes(std::span("future")), contents);
  written.file.insert(written.file.begin() + static_cast<std::ptrdiff_t>(written.frame_offsets[0]), foreign.begin(),
                      foreign.end());
  TraceReader reader(pull_from(written.file));
  EXPECT_EQ(read_all(reader).events, written.events);
  EXPECT_EQ(reader.report().unknown_frames, 1U);
  EXPECT_TRUE(reader.whole());
}

TEST(TraceFile, RefusesWhatItCannotRead) {
  const auto error_of = [](std::vector<std::byte> file) {
    TraceReader reader(pull_from(file));
    return read_all(reader).error;
  };
  const std::string foreign = "#!/bin/sh\necho this is a script, not a trace\n";
  const auto* text = reinterpret_cast<const std::byte*>(foreign.data());
  auto error = error_of({text, text + foreign.size()});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset, 0U);
  EXPECT_THAT(error->problem, HasSubstr("not a Spillway trace"));

  error = error_of({});
  ASSERT_TRUE(error);
  EXPECT_THAT(error->problem, HasSubstr("empty"));

  const std::vector<std::byte> whole = write_trace(1, 10, {}).file;
  for (const std::size_t bytes : {8U, 20U, 100U}) {
    error = error_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    ASSERT_TRUE(error);
    EXPECT_EQ(error->offset, bytes) << "one cause, one line, wherever it is cut";
    EXPECT_THAT(error->problem, HasSubstr("ends inside its header"));
  }
  std::uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data() + 12, sizeof header_bytes);
  std::vector<std::byte> damaged(whole.begin(), whole.begin() + 20 + header_bytes);
  damaged[40] ^= std::byte{1};
  error = error_of(damaged);
  ASSERT_TRUE(error);
  EXPECT_THAT(error->problem, HasSubstr("too damaged to read"));

  std::vector<std::byte> newer = write_trace(1, 10, {}).file;
  newer[8] = std::byte{9};
  error = error_of(newer);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->offset, 8U);
  EXPECT_THAT(error->problem, HasSubstr("version 9"));
  EXPECT_THAT(error->problem, HasSubstr("newer spillway"));
}

// Random damage of every kind: nothing crashes, nothing hangs (the fuzzer goes on from here).
TEST(TraceFile, SurvivesRandomDamage) {
  const Written written = write_trace(8, 300, {512, 1});
  std::mt19937_64 random(9);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::byte> file = written.file;
    for (int i = 0; i < 1 + round % 20; ++i) file[random() % file.size()] = static_cast<std::byte>(random());
    file.resize(file.size() - random() % 100);
    TraceReader reader(pull_from(file));
    read_all(reader);
    EXPECT_FALSE(reader.whole() && reader.report().damaged_frames > 0);
  }
}

TEST(FrameBuilder, FinishesWhenFullAndWhenFourSecondsHavePassed) {
  FrameBuilder builder({1600, 0});
  const Event launch{{}, Launched{{1}, {1}}};
  for (int i = 0; i < 99; ++i) ASSERT_FALSE(builder.add(launch));
  const auto full = builder.add(launch);
  ASSERT_TRUE(full);
  EXPECT_EQ(parse_frame_header(*full)->records, 100U);
  EXPECT_FALSE(builder.finish());

  ASSERT_FALSE(builder.add({Nanoseconds(1), Launched{}}));
  ASSERT_FALSE(builder.add({Nanoseconds(4'000'000'001), Launched{}}));
  const auto late = builder.add({Nanoseconds(4'000'000'002), Launched{}});
  ASSERT_TRUE(late);
  EXPECT_EQ(parse_frame_header(*late)->records, 2U);
  EXPECT_EQ(parse_frame_header(*late)->duration, 4'000'000'000);
  const auto early = builder.add({Nanoseconds(1), Launched{}});
  ASSERT_TRUE(early) << "a record 4 s before the frame's last one opens a frame of its own";
  EXPECT_EQ(parse_frame_header(*builder.finish())->first_time, 1);
}

TEST(FrameBuilder, FinishesAnOldFrameWhenAsked) {
  FrameBuilder builder;
  EXPECT_FALSE(builder.finish_if_older(Nanoseconds(5'000'000'000)));
  ASSERT_FALSE(builder.add({Nanoseconds(10), Launched{}}));
  EXPECT_FALSE(builder.finish_if_older(Nanoseconds(1'000'000'009)));
  EXPECT_TRUE(builder.finish_if_older(Nanoseconds(1'000'000'010)));
  EXPECT_FALSE(builder.finish_if_older(Nanoseconds(5'000'000'000)));
}

TEST(FrameIndex, StaysBoundedAndCountsEveryRecord) {
  FrameIndex index;
  FrameHeader header;
  header.records = 3;
  const std::uint64_t frames = 3 * FrameIndex::kMost + 17;
  for (std::uint64_t i = 0; i < frames; ++i) index.add(i * 100, header);
  EXPECT_LE(index.entries().size(), FrameIndex::kMost);
  std::uint64_t records = 0;
  for (const IndexEntry& entry : index.entries()) records += entry.records;
  EXPECT_EQ(records, frames * 3);
  EXPECT_EQ(index.entries()[1].offset, 400U);
  EXPECT_EQ(FrameIndex::decode(std::as_bytes(index.entries())).size(), index.entries().size());
}

}  // namespace
}  // namespace spillway::policy::trace
