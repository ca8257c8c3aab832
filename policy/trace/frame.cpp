#include "policy/trace/frame.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "policy/trace/crc32.hpp"

namespace spillway::policy::trace {
namespace {

// Smaller frames are not worth a place in a chain.
constexpr std::size_t kSmallestPacked = 64;

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

FrameEncoder::FrameEncoder(int level, std::size_t chain_bytes)
    : context_(level > 0 ? ZSTD_createCCtx() : nullptr),
      level_(level),
      chain_bytes_(std::min(chain_bytes, kMaximumChainBytes)) {}
FrameEncoder::~FrameEncoder() = default;
FrameEncoder::FrameEncoder(FrameEncoder&&) noexcept = default;
FrameEncoder& FrameEncoder::operator=(FrameEncoder&&) noexcept = default;

void FrameEncoder::FreeContext::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

void FrameEncoder::end_chain() {
  if (packer_ != nullptr) packer_->end_chain();
}

// The bytes written to `place`; none if they would not be fewer.
std::size_t FrameEncoder::compress(std::span<const std::byte> payload, std::span<std::byte> place,
                                   FrameHeader& header) {
  header.compression = Compression::zstd;
  const std::size_t size =
      ZSTD_compressCCtx(context_.get(), place.data(), place.size(), payload.data(), payload.size(), level_);
  return ZSTD_isError(size) == 0 && size < payload.size() ? size : 0;
}

std::size_t FrameEncoder::pack(std::span<const std::byte> records, std::span<std::byte> place, FrameHeader& header) {
  if (records.size() < kSmallestPacked) return 0;
  if (packer_ == nullptr) packer_ = std::make_unique<FramePacker>(level_);
  if (packer_->chain_bytes() + records.size() > chain_bytes_) packer_->end_chain();
  header.compression = packer_->continues() ? Compression::continued : Compression::packed;
  const std::vector<std::byte>& packed = packer_->pack(records, header.first_time);
  if (packed.size() >= records.size()) {
    packer_->end_chain();
    return 0;
  }
  std::copy(packed.begin(), packed.end(), place.begin());
  packer_->packed(crc32(packed));
  return packed.size();
}

FrameBytes FrameEncoder::encode(std::span<const std::byte> payload, const FrameContents& contents) {
  FrameBytes frame(kFrameHeaderBytes + payload.size());
  const std::span<std::byte> place = std::span(frame).subspan(kFrameHeaderBytes);
  FrameHeader header;
  header.kind = contents.kind;
  header.records = contents.records;
  header.first_time = contents.first_time.count();
  header.duration = contents.duration.count();
  std::size_t stored = 0;
  if (context_ != nullptr) {
    stored = contents.kind == FrameKind::records ? pack(payload, place, header) : compress(payload, place, header);
  }
  if (stored == 0) {
    header.compression = Compression::stored;
    std::copy(payload.begin(), payload.end(), place.begin());
    stored = payload.size();
  }
  frame.resize(kFrameHeaderBytes + stored);
  header.stored_bytes = static_cast<std::uint32_t>(stored);
  header.raw_bytes = static_cast<std::uint32_t>(payload.size());
  header.payload_crc = crc32(std::span(frame).subspan(kFrameHeaderBytes));
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
  const bool continues = header.compression == Compression::continued && !entries_.empty();
  if (continues || frames_++ % stride_ != 0) {
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
