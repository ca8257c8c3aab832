#include "tests/golden/rewrite.hpp"

#include <stdexcept>

#include "policy/trace/frame_reader.hpp"
#include "policy/trace/record_codec.hpp"

namespace spillway::golden {

using namespace policy;
using namespace policy::trace;

namespace {

std::uint64_t launches_in(const Frame& frame) {
  std::uint64_t launches = 0;
  RecordCursor cursor(frame.payload, {});
  for (Record record; cursor.next(record);) {
    if (record.kind != RecordKind::event) continue;
    const EventBody& body = record.event.body;
    if (std::holds_alternative<Launched>(body) || std::holds_alternative<GraphLaunched>(body)) ++launches;
  }
  return launches;
}

}  // namespace

Rewritten rewrite(std::span<const std::byte> file) {
  FrameReader reader(pull_from(file));
  if (const auto error = reader.open()) throw std::runtime_error(error->problem);
  Rewritten result;
  result.file = encode_file_start(reader.header_json());
  FrameEncoder encoder;
  FrameIndex index;
  const auto put = [&result](const FrameBytes& frame) {
    result.file.insert(result.file.end(), frame.begin(), frame.end());
  };
  while (const auto frame = reader.next()) {
    const FrameHeader& header = frame->header;
    if (header.kind == FrameKind::index) {
      put(index.encode(encoder));
      continue;
    }
    const FrameBytes again = encoder.encode(
        frame->payload, {header.kind, Nanoseconds(header.first_time), Nanoseconds(header.duration), header.records});
    if (header.kind == FrameKind::records) {
      index.add(result.file.size(), *parse_frame_header(again));
      result.launches += launches_in(*frame);
    }
    put(again);
  }
  const ReadReport& report = reader.report();
  result.whole = !report.cut_at && report.damaged_frames == 0 && report.unknown_frames == 0;
  return result;
}

}  // namespace spillway::golden
