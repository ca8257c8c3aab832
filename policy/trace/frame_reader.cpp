#include "policy/trace/frame_reader.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "policy/trace/crc32.hpp"

namespace spillway::policy::trace {
namespace {

constexpr std::size_t kReadAhead = std::size_t{1} << 20;
constexpr std::size_t kFixedStart = 20;  // magic, version, header length, header checksum

template <class Number>
Number number_at(std::span<const std::byte> bytes, std::size_t offset) {
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

}  // namespace

PullBytes pull_from(std::span<const std::byte> bytes) {
  return [rest = bytes](std::span<std::byte> place) mutable {
    const std::size_t size = std::min(place.size(), rest.size());
    std::copy_n(rest.begin(), size, place.begin());
    rest = rest.subspan(size);
    return size;
  };
}

FrameReader::FrameReader(PullBytes pull)
    : pull_(std::move(pull)), context_(ZSTD_createDCtx()), unpacker_(std::make_unique<FrameUnpacker>()) {}
FrameReader::~FrameReader() = default;
FrameReader::FrameReader(FrameReader&&) noexcept = default;
FrameReader& FrameReader::operator=(FrameReader&&) noexcept = default;

void FrameReader::FreeContext::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

bool FrameReader::ensure(std::size_t size) {
  while (end_ - begin_ < size) {
    if (buffer_.size() - begin_ < size || end_ == buffer_.size()) {
      std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
      buffer_offset_ += begin_;
      end_ -= begin_;
      begin_ = 0;
      if (buffer_.size() < size + kReadAhead) buffer_.resize(size + kReadAhead);
    }
    const std::size_t got = pull_(std::span(buffer_).subspan(end_));
    if (got == 0) return false;
    end_ += got;
    report_.bytes += got;
  }
  return true;
}

void FrameReader::skip(std::size_t size) { begin_ += size; }

std::optional<TraceError> FrameReader::open() {
  const bool complete = ensure(kFixedStart);
  const std::span<const std::byte> start = here();
  if (start.empty())
    return TraceError{0,
                      "the file is empty: its disk was full, or the program was killed or is only about to write; "
                      "look again when it has used CUDA for a second, or make room and record the trace again"};
  const std::size_t magic = std::min(start.size(), kMagic.size());
  if (std::memcmp(start.data(), kMagic.data(), magic) != 0) {
    return TraceError{0,
                      "not a Spillway trace: it does not begin with \"SPILLWAY\"; name a file that "
                      "`spillway run --trace` has written"};
  }
  if (!complete) return cut_in_header();
  const auto version = number_at<std::uint32_t>(start, 8);
  if (version == 0 || version > kVersion) {
    return TraceError{8, "the trace has format version " + std::to_string(version) + ", this spillway reads 1 to " +
                             std::to_string(kVersion) + ": use a newer spillway, or record the trace again"};
  }
  const auto length = number_at<std::uint32_t>(start, 12);
  if (!read_header_text()) {
    if (length <= kMaximumFrameBytes && report_.bytes < kFixedStart + length) return cut_in_header();
    return TraceError{kFixedStart, "too damaged to read: the header is cut or damaged, and nothing whole follows it; " +
                                       std::string("record the trace again")};
  }
  return std::nullopt;
}

TraceError FrameReader::cut_in_header() const {
  return {report_.bytes,
          "the trace ends inside its header: the program was killed as it began, or its disk was full; record the "
          "trace again"};
}

bool FrameReader::read_header_text() {
  const auto length = number_at<std::uint32_t>(here(), 12);
  const auto crc = number_at<std::uint32_t>(here(), 16);
  const std::uint64_t start = offset();
  skip(kFixedStart);
  if (length <= kMaximumFrameBytes && ensure(length)) {
    const std::span<const std::byte> text = here().first(length);
    if (crc32(text) == crc) {
      header_json_.assign(reinterpret_cast<const char*>(text.data()), length);
      skip(length);
      return true;
    }
  }
  // Whatever the length says may be the damage: the frames are found by their own marks.
  report_.header_damaged = true;
  note_damage(start);
  return resynchronise();
}

void FrameReader::note_header_damage() {
  if (std::exchange(report_.header_damaged, true)) return;
  ++report_.damaged_frames;
  report_.first_damage = kFixedStart;
}

void FrameReader::note_damage(std::uint64_t offset) {
  ++report_.damaged_frames;
  after_damage_ = true;
  if (!report_.first_damage) report_.first_damage = offset;
}

bool FrameReader::resynchronise() {
  const std::byte first{kFrameMagic & 0xFFU};
  while (ensure(kFrameHeaderBytes)) {
    const std::span<const std::byte> bytes = here();
    // Every position with a whole header after it; the rest waits for the next piece.
    const std::size_t positions = bytes.size() - kFrameHeaderBytes + 1;
    for (std::size_t at = 0; at < positions; ++at) {
      const void* found = std::memchr(bytes.data() + at, static_cast<int>(first), positions - at);
      if (found == nullptr) break;
      at = static_cast<std::size_t>(static_cast<const std::byte*>(found) - bytes.data());
      if (parse_frame_header(bytes.subspan(at, kFrameHeaderBytes))) {
        skip(at);
        return true;
      }
    }
    skip(positions);
  }
  skip(end_ - begin_);
  return false;
}

bool FrameReader::decompress(const FrameHeader& header, std::span<const std::byte> stored) {
  if (header.compression == Compression::stored) return stored.size() == header.raw_bytes;
  if (raw_.size() < header.raw_bytes) raw_.resize(header.raw_bytes);
  if (header.compression == Compression::packed || header.compression == Compression::continued) {
    if (header.kind != FrameKind::records) return false;
    const bool continues = header.compression == Compression::continued;
    return unpacker_->unpack({stored, header.payload_crc, header.first_time, continues},
                             std::span(raw_).first(header.raw_bytes));
  }
  if (header.compression != Compression::zstd || context_ == nullptr) return false;
  const std::size_t size =
      ZSTD_decompressDCtx(context_.get(), raw_.data(), header.raw_bytes, stored.data(), stored.size());
  return ZSTD_isError(size) == 0 && size == header.raw_bytes;
}

std::optional<Frame> FrameReader::next() {
  skip(std::exchange(pending_skip_, 0));
  while (true) {
    if (!ensure(kFrameHeaderBytes)) {
      if (end_ != begin_ && !report_.cut_at) report_.cut_at = report_.bytes;
      skip(end_ - begin_);
      return std::nullopt;
    }
    const std::uint64_t at = offset();
    const std::optional<FrameHeader> header = parse_frame_header(here());
    if (!header) {
      note_damage(at);
      skip(1);
      if (!resynchronise()) return std::nullopt;
      continue;
    }
    const std::size_t whole = kFrameHeaderBytes + header->stored_bytes;
    if (!ensure(whole)) {
      report_.cut_at = report_.bytes;
      skip(end_ - begin_);
      return std::nullopt;
    }
    const std::span<const std::byte> stored = here().subspan(kFrameHeaderBytes, header->stored_bytes);
    if (crc32(stored) != header->payload_crc) {
      note_damage(at);
    } else if (header->kind < FrameKind::records || header->kind > FrameKind::end) {
      ++report_.unknown_frames;
    } else if (!decompress(*header, stored)) {
      // What continues a damaged frame is lost with it: one stretch.
      if (header->compression != Compression::continued || !after_damage_) note_damage(at);
    } else {
      ++report_.frames;
      after_damage_ = after_damage_ && header->compression != Compression::packed;
      pending_skip_ = whole;
      const bool plain = header->compression == Compression::stored;
      return Frame{*header, at, plain ? stored : std::span<const std::byte>(raw_).first(header->raw_bytes)};
    }
    skip(whole);
  }
}

}  // namespace spillway::policy::trace
