#include "policy/trace/trace_reader.hpp"

#include <string_view>
#include <utility>
#include <variant>

namespace spillway::policy::trace {

std::optional<TraceError> TraceReader::open() {
  if (auto error = frames_.open()) return error;
  if (auto header = decode_header(frames_.header_json())) {
    header_ = *std::move(header);
  } else {
    frames_.note_header_damage();
  }
  return std::nullopt;
}

bool TraceReader::next(Record& record) {
  while (true) {
    while (cursor_.next(record)) {
      if (record.kind == RecordKind::event || record.kind == RecordKind::decision) {
        ++records_;
        ends_in_loss_ = record.kind == RecordKind::event && std::holds_alternative<EventsDropped>(record.event.body);
        return true;
      }
      ++(record.kind == RecordKind::unknown ? unknown_ : malformed_);
    }
    if (cursor_.broken()) ++malformed_;
    cursor_ = RecordCursor();
    const std::optional<Frame> frame = frames_.next();
    if (!frame) return false;
    switch (frame->header.kind) {
      case FrameKind::records:
        cursor_ = RecordCursor(frame->payload, Nanoseconds(frame->header.first_time));
        break;
      case FrameKind::index:
        index_ = FrameIndex::decode(frame->payload);
        break;
      case FrameKind::end:
        end_ = decode_end({reinterpret_cast<const char*>(frame->payload.data()), frame->payload.size()});
        malformed_ += end_ ? 0U : 1U;
        break;
    }
  }
}

bool TraceReader::whole() const {
  const ReadReport& read = report();
  return end_.has_value() && !read.cut_at && read.damaged_frames == 0 && malformed_ == 0;
}

}  // namespace spillway::policy::trace
