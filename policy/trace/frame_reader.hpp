// Reads frames from bytes that arrive piece by piece, trusting nothing (FORMAT.md, "Grammar").
//
// Bounded memory whatever the size of the file: one frame (at most 16 MiB) as stored and as raw, and what a
// chain of packed frames says of its shapes. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy/trace/frame.hpp"

struct ZSTD_DCtx_s;

namespace spillway::policy::trace {

// Fills the span, or its beginning, and returns how many bytes it filled; 0 only at the end.
using PullBytes = std::function<std::size_t(std::span<std::byte>)>;

// `bytes` must outlive the reader.
PullBytes pull_from(std::span<const std::byte> bytes);

// Why a file cannot be read at all, and where.
struct TraceError {
  std::uint64_t offset = 0;
  std::string problem;  // a sentence without the file's name, with the remedy
};

// What was wrong with a file that could be read, and how far it was read. Counts grow while reading.
struct ReadReport {
  std::uint64_t bytes = 0;                    // read so far
  std::uint64_t frames = 0;                   // good ones
  std::uint64_t damaged_frames = 0;           // stretches skipped: a wrong checksum, or bytes that are no frame
  std::uint64_t unknown_frames = 0;           // of a kind from a newer writer
  std::optional<std::uint64_t> first_damage;  // offset
  std::optional<std::uint64_t> cut_at;        // offset at which the file ends inside a frame or header
  bool header_damaged = false;
};

struct Frame {
  FrameHeader header;
  std::uint64_t offset = 0;
  std::span<const std::byte> payload;  // raw; valid until the next call
};

class FrameReader {
 public:
  explicit FrameReader(PullBytes pull);
  ~FrameReader();
  FrameReader(FrameReader&&) noexcept;
  FrameReader& operator=(FrameReader&&) noexcept;

  // First: magic, version and header. An error means that nothing can be read.
  std::optional<TraceError> open();
  [[nodiscard]] const std::string& header_json() const { return header_json_; }

  // The text is whole, and says nothing: as if it were damaged.
  void note_header_damage();

  // Then: the next good frame of a known kind, until the end.
  std::optional<Frame> next();

  [[nodiscard]] const ReadReport& report() const { return report_; }

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  bool ensure(std::size_t size);  // makes `size` bytes available from here; false if the file ends before
  void skip(std::size_t size);
  [[nodiscard]] std::span<const std::byte> here() const { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  [[nodiscard]] std::uint64_t offset() const { return buffer_offset_ + begin_; }
  bool read_header_text();  // false if it cannot be read and nothing is found after it
  [[nodiscard]] TraceError cut_in_header() const;
  void note_damage(std::uint64_t offset);
  bool resynchronise();  // to the next frame header after damage; false at the end
  bool decompress(const FrameHeader& header, std::span<const std::byte> stored);

  PullBytes pull_;
  std::unique_ptr<ZSTD_DCtx_s, FreeContext> context_;
  std::unique_ptr<FrameUnpacker> unpacker_;
  std::vector<std::byte> buffer_;  // bytes begin_..end_ are unread; buffer_[0] is at buffer_offset_ in the file
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t buffer_offset_ = 0;
  std::size_t pending_skip_ = 0;  // the frame returned last, kept until the next call
  std::vector<std::byte> raw_;
  bool after_damage_ = false;  // no chain of frames has begun since
  std::string header_json_;
  ReadReport report_;
};

}  // namespace spillway::policy::trace
