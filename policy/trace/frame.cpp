#include "policy/trace/frame.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "policy/trace/crc32.hpp"

namespace spillway::policy::trace {
namespace {

std::uint16_t check_of(FrameHeader header) {
  header.header_check = 0;
  return static_cast<std::uint16_t>(crc32(std::as_bytes(std::span(&header, 1))) & 0xFFFFU);
}

void append(std::vector<std::byte>& bytes, const void* data, std::size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), first, first + size);
}

}  // namespace

std::optional<FrameHeader> parse_frame_header(std::span<const std::byte> bytes) {
  FrameHeader header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kFrameMagic || header.header_check != check_of(header)) return std::nullopt;
  if (header.raw_bytes > kMaximumFrameBytes || header.stored_bytes > header.raw_bytes) return std::nullopt;
  return header;
}

FrameEncoder::FrameEncoder(int level) : context_(level > 0 ? ZSTD_createCCtx() : nullptr), level_(level) {}
FrameEncoder::~FrameEncoder() = default;
FrameEncoder::FrameEncoder(FrameEncoder&&) noexcept = default;
FrameEncoder& FrameEncoder::operator=(FrameEncoder&&) noexcept = default;

void FrameEncoder::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

FrameBytes FrameEncoder::encode(std::span<const std::byte> payload, const FrameContents& contents) {
  // Room for no more than the payload itself: where zstd needs more it has not shrunk it, and we store.
  FrameBytes frame(kFrameHeaderBytes + payload.size());
  std::byte* const place = frame.data() + kFrameHeaderBytes;
  std::size_t stored = payload.size();
  FrameHeader header;
  if (context_ != nullptr) {
    const std::size_t size =
        ZSTD_compressCCtx(context_.get(), place, payload.size(), payload.data(), payload.size(), level_);
    if (ZSTD_isError(size) == 0 && size < payload.size()) {
      stored = size;
      header.compression = Compression::zstd;
    }
  }
  if (header.compression == Compression::stored) std::copy(payload.begin(), payload.end(), place);
  frame.resize(kFrameHeaderBytes + stored);
  header.kind = contents.kind;
  header.stored_bytes = static_cast<std::uint32_t>(stored);
  header.raw_bytes = static_cast<std::uint32_t>(payload.size());
  header.records = contents.records;
  header.payload_crc = crc32(std::span(frame).subspan(kFrameHeaderBytes));
  header.first_time = contents.first_time.count();
  header.duration = contents.duration.count();
  header.header_check = check_of(header);
  std::memcpy(frame.data(), &header, sizeof header);
  return frame;
}

std::vector<std::byte> encode_file_start(std::string_view json) {
  std::vector<std::byte> bytes;
  const auto length = static_cast<std::uint32_t>(json.size());
  const std::uint32_t crc = crc32(std::as_bytes(std::span(json)));
  append(bytes, kMagic.data(), kMagic.size());
  append(bytes, &kVersion, sizeof kVersion);
  append(bytes, &length, sizeof length);
  append(bytes, &crc, sizeof crc);
  append(bytes, json.data(), json.size());
  return bytes;
}

void FrameIndex::add(std::uint64_t offset, const FrameHeader& header) {
  if (frames_++ % stride_ != 0) {
    entries_.back().records += header.records;
    return;
  }
  if (entries_.size() == kMost) {
    for (std::size_t i = 0; i < kMost; i += 2) {
      entries_[i / 2] = entries_[i];
      entries_[i / 2].records += entries_[i + 1].records;
    }
    entries_.resize(kMost / 2);
    stride_ *= 2;
  }
  entries_.push_back({offset, header.first_time, header.records, 0});
}

FrameBytes FrameIndex::encode(FrameEncoder& encoder) const {
  FrameContents contents;
  contents.kind = FrameKind::index;
  return encoder.encode(std::as_bytes(std::span(entries_)), contents);
}

std::vector<IndexEntry> FrameIndex::decode(std::span<const std::byte> payload) {
  std::vector<IndexEntry> entries(payload.size() / sizeof(IndexEntry));
  if (!entries.empty()) std::memcpy(entries.data(), payload.data(), entries.size() * sizeof(IndexEntry));
  return entries;
}

}  // namespace spillway::policy::trace
