// Packed frames: the records of a frame in the light of those before them in its chain (FORMAT.md, "Packed frames").
//
// Pure. A FramePacker belongs to one thread, a FrameUnpacker to one reader; each keeps about 840 KiB of models, and
// what a chain said of shapes. Unpacking trusts nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace spillway::policy::trace {

// Of the raw bytes of a chain's frames. A reader refuses a longer one: it bounds its memory.
inline constexpr std::size_t kMaximumChainBytes = std::size_t{32} << 20;

class FramePacker {
 public:
  // `level` is zstd's, for text.
  explicit FramePacker(int level);
  ~FramePacker();
  FramePacker(const FramePacker&) = delete;
  FramePacker& operator=(const FramePacker&) = delete;

  // Whether the next frame continues the chain.
  [[nodiscard]] bool continues() const { return in_chain_; }
  // The payload to store for these records. What is expected of the next frame comes from them too, so that this frame
  // must reach the file before the next one does, or the chain be ended.
  [[nodiscard]] const std::vector<std::byte>& pack(std::span<const std::byte> records, std::int64_t first_time);
  // The CRC of what `pack` returned: the next frame of the chain names it.
  void packed(std::uint32_t crc) { before_ = crc; }
  void end_chain();
  [[nodiscard]] std::size_t chain_bytes() const { return chain_bytes_; }

 private:
  struct Model;
  void pack_text();

  std::unique_ptr<Model> model_;
  bool in_chain_ = false;
  ZSTD_CCtx_s* context_;  // null without memory: text is stored
  int level_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> text_;
  std::vector<std::byte> text_before_;  // of the chain's last frame that had any
  std::size_t chain_bytes_ = 0;
  std::uint64_t launches_ = 0;
  std::uint32_t before_ = 0;
};

class FrameUnpacker {
 public:
  FrameUnpacker();
  ~FrameUnpacker();
  FrameUnpacker(const FrameUnpacker&) = delete;
  FrameUnpacker& operator=(const FrameUnpacker&) = delete;

  struct Stored {
    std::span<const std::byte> payload;
    std::uint32_t crc = 0;  // of the payload
    std::int64_t first_time = 0;
    bool continues = false;
  };
  // Fills `records`, exactly; false if the frame is damage, or continues one that has not been read.
  bool unpack(const Stored& stored, std::span<std::byte> records);

 private:
  struct Model;
  bool unpack_records(const Stored& stored, std::span<std::byte> records);
  bool unpack_text(std::span<const std::byte> packed, std::size_t size);

  std::unique_ptr<Model> model_;
  bool in_chain_ = false;
  ZSTD_DCtx_s* context_;
  std::vector<std::byte> text_;
  std::vector<std::byte> text_before_;
  std::size_t chain_bytes_ = 0;
  std::uint32_t before_ = 0;
};

}  // namespace spillway::policy::trace
