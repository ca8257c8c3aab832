#include "policy/trace/packed_frame.hpp"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "policy/trace/frame.hpp"
#include "policy/trace/record_model.hpp"

namespace spillway::policy::trace {
namespace {

// The start of a packed payload.
struct PackedStart {
  std::uint32_t before = 0;       // CRC of the payload that this one continues; 0 where a chain starts
  std::uint32_t coded_bytes = 0;  // range-coded records; text follows
  std::uint32_t text_bytes = 0;   // as raw; stored where as many follow, else a zstd frame
};
static_assert(sizeof(PackedStart) == 12);

// A fresh one in the same place: its pages are there already, and it is too large for a stack.
template <class Model>
void renew(std::unique_ptr<Model>& model) {
  if (model == nullptr) {
    model = std::make_unique<Model>();
  } else {
    std::destroy_at(model.get());
    std::construct_at(model.get());
  }
}

}  // namespace

struct FramePacker::Model {
  RangeEncoder coder;
  RecordModel<RangeEncoder> records;
};

FramePacker::FramePacker(int level) : context_(ZSTD_createCCtx()), level_(level) {}
FramePacker::~FramePacker() { ZSTD_freeCCtx(context_); }

void FramePacker::end_chain() {
  if (in_chain_) launches_ = model_->records.launches();
  in_chain_ = false;
  text_before_.clear();
  chain_bytes_ = 0;
  before_ = 0;
}

const std::vector<std::byte>& FramePacker::pack(std::span<const std::byte> records, std::int64_t first_time) {
  bytes_.assign(sizeof(PackedStart), std::byte{0});
  text_.clear();
  PackedStart start{before_, 0, 0};
  const bool starts = !std::exchange(in_chain_, true);
  if (starts) {
    renew(model_);
    model_->records.begin_chain(launches_);
  }
  model_->coder.begin(bytes_);
  if (starts) code_plain_bits(model_->coder, 64, launches_);
  model_->records.begin_frame(first_time);
  for (std::size_t at = 0; at < records.size();) {
    std::uint16_t words = 0;
    std::memcpy(&words, records.data() + at + 2, sizeof words);
    at += model_->records.code(model_->coder, records.subspan(at, std::size_t{words} * 8), text_);
  }
  model_->coder.finish();
  chain_bytes_ += records.size();
  start.coded_bytes = static_cast<std::uint32_t>(bytes_.size() - sizeof start);
  start.text_bytes = static_cast<std::uint32_t>(text_.size());
  std::memcpy(bytes_.data(), &start, sizeof start);
  pack_text();
  return bytes_;
}

void FramePacker::pack_text() {
  if (text_.empty()) return;
  const std::size_t at = bytes_.size();
  bytes_.resize(at + text_.size());
  std::size_t size = text_.size();
  if (context_ != nullptr) {
    ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level_);
    ZSTD_CCtx_refPrefix(context_, text_before_.data(), text_before_.size());
    size = ZSTD_compress2(context_, bytes_.data() + at, text_.size(), text_.data(), text_.size());
  }
  if (ZSTD_isError(size) != 0 || size >= text_.size()) {
    size = text_.size();
    std::memcpy(bytes_.data() + at, text_.data(), size);
  }
  bytes_.resize(at + size);
  std::swap(text_, text_before_);
}

struct FrameUnpacker::Model {
  RangeDecoder coder;
  RecordModel<RangeDecoder> records;
};

FrameUnpacker::FrameUnpacker() : context_(ZSTD_createDCtx()) {}
FrameUnpacker::~FrameUnpacker() { ZSTD_freeDCtx(context_); }

bool FrameUnpacker::unpack(const Stored& stored, std::span<std::byte> records) {
  // Nothing can continue what has gone wrong.
  in_chain_ = unpack_records(stored, records);
  before_ = stored.crc;
  return in_chain_;
}

bool FrameUnpacker::unpack_records(const Stored& stored, std::span<std::byte> records) {
  PackedStart start;
  if (stored.payload.size() < sizeof start) return false;
  std::memcpy(&start, stored.payload.data(), sizeof start);
  const std::span<const std::byte> rest = stored.payload.subspan(sizeof start);
  if (start.coded_bytes > rest.size() || start.text_bytes > records.size()) return false;
  if (stored.continues) {
    if (!in_chain_ || start.before != before_) return false;
  } else {
    renew(model_);
    text_before_.clear();
    chain_bytes_ = 0;
  }
  chain_bytes_ += records.size();
  if (chain_bytes_ > kMaximumChainBytes) return false;
  if (!unpack_text(rest.subspan(start.coded_bytes), start.text_bytes)) return false;
  RangeDecoder& coder = model_->coder;
  coder.begin(rest.first(start.coded_bytes));
  if (!stored.continues) model_->records.begin_chain(code_plain_bits(coder, 64, 0));
  model_->records.begin_frame(stored.first_time);
  std::span<const std::byte> text = text_;
  while (!records.empty()) {
    const std::size_t size = model_->records.code(coder, records, text);
    if (size == 0) return false;
    records = records.subspan(size);
  }
  if (!text_.empty()) std::swap(text_, text_before_);
  return true;
}

bool FrameUnpacker::unpack_text(std::span<const std::byte> packed, std::size_t size) {
  text_.resize(size);
  if (packed.size() == size) {
    std::copy(packed.begin(), packed.end(), text_.begin());
    return true;
  }
  if (context_ == nullptr) return false;
  ZSTD_DCtx_refPrefix(context_, text_before_.data(), text_before_.size());
  const std::size_t got = ZSTD_decompressDCtx(context_, text_.data(), size, packed.data(), packed.size());
  return ZSTD_isError(got) == 0 && got == size;
}

}  // namespace spillway::policy::trace
