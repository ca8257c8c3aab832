#include "tools/view/blocks.hpp"

#include <zlib.h>

#include <limits>
#include <system_error>
#include <utility>

namespace spillway::tools::view {
namespace {

constexpr int kLevel = 4;  // 6 takes twice as long for 3% fewer bytes: times are mostly noise
constexpr std::size_t kWorthAThread = std::size_t{32} << 10;
constexpr std::size_t kMostPending = 4;

}  // namespace

std::string deflated(std::string_view bytes, int level) {
  z_stream stream{};
  // Raw deflate (negative window bits): what browsers call "deflate-raw". Failing to start means no memory.
  if (deflateInit2(&stream, level, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  std::string in(bytes);  // zlib's interface wants writable bytes
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);  // the bound is enough, so one call ends it
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8U | (j < left ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) out.push_back(j <= left ? kDigits[group >> (18 - 6 * j) & 63U] : '=');
  }
  return out;
}

std::size_t Blocks::put(std::string raw) {
  const std::size_t id = encoded_.size();
  encoded_.emplace_back();
  if (raw.size() < kWorthAThread) {
    encoded_[id] = base64(deflated(raw, kLevel));
    return id;
  }
  while (pending_.size() >= kMostPending) settle_oldest();
  const auto encode = [bytes = std::move(raw)] { return base64(deflated(bytes, kLevel)); };
  try {
    pending_.push_back({id, std::async(std::launch::async, encode)});
  } catch (const std::system_error&) {  // no thread can be had
    encoded_[id] = encode();
  }
  return id;
}

void Blocks::settle_oldest() {
  encoded_[pending_.front().id] = pending_.front().encoded.get();
  pending_.pop_front();
}

std::uint64_t Blocks::bytes_of(std::size_t id) {
  while (!pending_.empty() && pending_.front().id <= id) settle_oldest();
  return encoded_.at(id).size();
}

const std::vector<std::string>& Blocks::encoded() {
  while (!pending_.empty()) settle_oldest();
  return encoded_;
}

std::vector<std::string> Blocks::take() {
  static_cast<void>(encoded());
  return std::move(encoded_);
}

Json Blocks::add(std::initializer_list<NamedColumn> columns) {
  std::string raw;
  Json names = Json::array();
  std::size_t rows = 0;
  for (const NamedColumn& each : columns) {
    raw += each.column->bytes();
    rows = each.column->rows();
    names.push_back(each.name);
  }
  return {{"id", put(std::move(raw))}, {"rows", rows}, {"columns", names}};
}

Json Blocks::add_texts(std::span<const std::string> texts) {
  std::string raw;
  for (const std::string& text : texts) {
    if (&text != texts.data()) raw += '\n';
    for (const char c : text) raw += c == '\n' || c == '\r' ? ' ' : c;
  }
  return {{"id", put(std::move(raw))}, {"rows", texts.size()}};
}

}  // namespace spillway::tools::view
