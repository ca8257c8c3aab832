// Frames: the pieces a trace is written, checked, skipped and lost in (FORMAT.md, "Grammar").
//
// Pure. A FrameEncoder belongs to one thread; encoded frames are plain bytes to append to the file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "policy/trace/packed_frame.hpp"
#include "policy/units.hpp"

struct ZSTD_CCtx_s;

namespace spillway::policy::trace {

inline constexpr std::array<char, 8> kMagic = {'S', 'P', 'I', 'L', 'L', 'W', 'A', 'Y'};
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint32_t kFrameMagic = 0x4D525753;  // "SWRM"
// Nothing larger is ever written; a header that says so is damage. Bounds the memory of every reader.
inline constexpr std::size_t kMaximumFrameBytes = std::size_t{16} << 20;

enum class FrameKind : std::uint8_t { records = 1, index = 2, end = 3 };
// `packed` begins a chain of frames, `continued` goes on with the one of the frame before.
enum class Compression : std::uint8_t { stored = 0, zstd = 1, packed = 2, continued = 3 };

struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::records;
  Compression compression = Compression::stored;
  std::uint16_t header_check = 0;  // of the header alone, so that its lengths can be trusted or searched for
  std::uint32_t stored_bytes = 0;
  std::uint32_t raw_bytes = 0;
  std::uint32_t records = 0;
  std::uint32_t payload_crc = 0;
  std::int64_t first_time = 0;
  std::int64_t duration = 0;
};
inline constexpr std::size_t kFrameHeaderBytes = 40;
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

// The header at the start of `bytes` (at least kFrameHeaderBytes), if it is one: magic, check and lengths agree.
std::optional<FrameHeader> parse_frame_header(std::span<const std::byte> bytes);

// What a frame holds, for its header and for the index.
struct FrameContents {
  FrameKind kind = FrameKind::records;
  Nanoseconds first_time;
  Nanoseconds duration;
  std::uint32_t records = 0;
};

using FrameBytes = std::vector<std::byte>;

class FrameEncoder {
 public:
  static constexpr std::size_t kChainBytes = std::size_t{1} << 20;

  // `level` is zstd's, 1 to 3. 0 stores. Records are packed in chains of `chain_bytes` raw: what one damaged byte may
  // cost.
  explicit FrameEncoder(int level = 1, std::size_t chain_bytes = kChainBytes);
  ~FrameEncoder();
  FrameEncoder(FrameEncoder&&) noexcept;
  FrameEncoder& operator=(FrameEncoder&&) noexcept;

  // One whole frame. Stores what compression cannot shrink. `payload` is at most kMaximumFrameBytes.
  // Each frame of records must come after the one encoded before it in the file; where one is dropped, end_chain().
  [[nodiscard]] FrameBytes encode(std::span<const std::byte> payload, const FrameContents& contents);
  void end_chain();

 private:
  std::size_t pack(std::span<const std::byte> records, std::span<std::byte> place, FrameHeader& header);
  std::size_t compress(std::span<const std::byte> payload, std::span<std::byte> place, FrameHeader& header);
  struct FreeContext {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, FreeContext> context_;  // null when storing, or when zstd has no memory: then we store
  std::unique_ptr<FramePacker> packer_;                // made for the first records
  int level_;
  std::size_t chain_bytes_;
};

// Magic, version and header: the first bytes of the file. `json` is from header.hpp's encode_header.
[[nodiscard]] std::vector<std::byte> encode_file_start(std::string_view json);

struct IndexEntry {
  std::uint64_t offset = 0;
  std::int64_t first_time = 0;
  std::uint32_t records = 0;
  std::uint32_t zero = 0;
  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};
static_assert(sizeof(IndexEntry) == 24);

// Where the frames of a file are. Bounded: past kMost entries, each second one is dropped, and again as often as it
// takes; then an entry stands for all frames up to the next one.
class FrameIndex {
 public:
  static constexpr std::size_t kMost = 65536;

  // A frame that continues a chain is found by the chain's first.
  void add(std::uint64_t offset, const FrameHeader& header);
  [[nodiscard]] std::span<const IndexEntry> entries() const { return entries_; }
  [[nodiscard]] FrameBytes encode(FrameEncoder& encoder) const;
  static std::vector<IndexEntry> decode(std::span<const std::byte> payload);

 private:
  std::vector<IndexEntry> entries_;
  std::uint64_t stride_ = 1;  // frames an entry stands for
  std::uint64_t frames_ = 0;
};

}  // namespace spillway::policy::trace
