#include "policy/size_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace spillway::policy {
namespace {

struct Unit {
  std::string_view name;  // lower case
  std::uint64_t bytes;
};
constexpr std::array kUnits = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"kib", std::uint64_t{1} << 10},
    Unit{"mib", std::uint64_t{1} << 20},
    Unit{"gib", std::uint64_t{1} << 30},
    Unit{"tib", std::uint64_t{1} << 40},
    Unit{"kb", 1'000},
    Unit{"mb", 1'000'000},
    Unit{"gb", 1'000'000'000},
    Unit{"tb", 1'000'000'000'000},
};
constexpr std::array<std::pair<std::string_view, std::uint64_t>, 4> kWrittenUnits = {{{"TiB", std::uint64_t{1} << 40},
                                                                                      {"GiB", std::uint64_t{1} << 30},
                                                                                      {"MiB", std::uint64_t{1} << 20},
                                                                                      {"KiB", std::uint64_t{1} << 10}}};

// Not std::isdigit and std::tolower: they ask the locale, which belongs to the program we are a guest in.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

std::size_t digits_at(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - from;
}

// A number's digits and what follows them. No exponents, no hexadecimal: nobody writes a size so on purpose.
struct Digits {
  std::string_view whole;
  std::string_view fraction;
  std::string_view rest;
};

SizeFault split(std::string_view text, Digits& out) {
  text = trimmed(text);
  if (text.empty()) return SizeFault::empty;
  const bool minus = text.front() == '-';
  const std::string_view unsigned_text = minus ? text.substr(1) : text;
  const std::size_t whole = digits_at(unsigned_text, 0);
  if (whole == 0) {
    const std::string word = lowered(unsigned_text.substr(0, 3));
    return word == "nan" || word == "inf" ? SizeFault::not_a_number : SizeFault::not_a_size;
  }
  std::size_t end = whole;
  std::size_t fraction = 0;
  if (end < unsigned_text.size() && unsigned_text[end] == '.') {
    fraction = digits_at(unsigned_text, end + 1);
    if (fraction == 0) return SizeFault::not_a_size;
    end += 1 + fraction;
  }
  if (minus) return SizeFault::negative;
  out = {unsigned_text.substr(0, whole), fraction == 0 ? std::string_view() : unsigned_text.substr(whole + 1, fraction),
         trimmed(unsigned_text.substr(end))};
  return SizeFault::none;
}

// Exact, so that what was written with all its digits is read back equal. `text` is digits with one point among them.
double exact(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return value;
}

// 12.75: whole and fraction stand beside each other in the text they were split from.
double value_of(const Digits& digits) {
  const std::size_t fraction = digits.fraction.empty() ? 0 : 1 + digits.fraction.size();
  return exact({digits.whole.data(), digits.whole.size() + fraction});
}

// 0.75 for the "75" behind a point.
double fraction_of(std::string_view digits) {
  return digits.empty() ? 0.0 : exact({digits.data() - 1, digits.size() + 1});
}

SizeFault whole_of(std::string_view digits, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return error == std::errc() && end == digits.data() + digits.size() ? SizeFault::none : SizeFault::too_large;
}

SizeReading fault(SizeFault what) { return {what, SizeOrShare{Bytes()}}; }

SizeReading share(const Digits& digits) {
  std::uint64_t whole = 0;
  if (whole_of(digits.whole, whole) != SizeFault::none) return fault(SizeFault::above_whole);
  const double percent = value_of(digits);
  if (percent > 100.0) return fault(SizeFault::above_whole);
  return {SizeFault::none, SizeOrShare{percent}};
}

SizeReading size(const Digits& digits) {
  const std::string unit_name = lowered(digits.rest);
  const auto* unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == unit_name; });
  if (unit == kUnits.end()) return fault(SizeFault::not_a_size);
  if (unit->bytes == 1 && !digits.fraction.empty()) return fault(SizeFault::part_of_a_byte);
  std::uint64_t whole = 0;
  if (const SizeFault error = whole_of(digits.whole, whole); error != SizeFault::none) return fault(error);
  const auto part =
      static_cast<std::uint64_t>(std::llround(fraction_of(digits.fraction) * static_cast<double>(unit->bytes)));
  if (whole > (std::numeric_limits<std::uint64_t>::max() - part) / unit->bytes) return fault(SizeFault::too_large);
  return {SizeFault::none, SizeOrShare{Bytes(whole * unit->bytes + part)}};
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

SizeReading read_size(std::string_view text) {
  Digits digits;
  if (const SizeFault error = split(text, digits); error != SizeFault::none) return fault(error);
  return size(digits);
}

std::string meant_size(std::string_view text) {
  std::string meant = lowered(trimmed(text));
  if (meant.ends_with('i')) meant.pop_back();
  constexpr std::string_view kLetters = "kmgt";
  if (meant.empty() || kLetters.find(meant.back()) == std::string_view::npos) return {};
  meant.back() = static_cast<char>(meant.back() - 'a' + 'A');
  meant += "iB";
  return read_size(meant).fault == SizeFault::none ? meant : std::string();
}

std::string meant_unit(std::string_view text) {
  const std::string number(trimmed(text));
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return {};
  const SizeReading reading = read_size(number);
  if (reading.fault != SizeFault::none) return {};
  const std::uint64_t bytes = std::get<Bytes>(reading.value.value).count();
  if (bytes == 0 || bytes >= kChunk.count()) return {};
  return number + (bytes == 1 ? "GiB" : "MiB");
}

SizeReading read_size_or_share(std::string_view text) {
  Digits digits;
  if (const SizeFault error = split(text, digits); error != SizeFault::none) return fault(error);
  return digits.rest == "%" ? share(digits) : size(digits);
}

SizeReading read_percent(std::string_view text) {
  Digits digits;
  if (const SizeFault error = split(text, digits); error != SizeFault::none) return fault(error);
  return digits.rest == "%" || digits.rest.empty() ? share(digits) : fault(SizeFault::not_a_size);
}

DecimalReading read_decimal(std::string_view text) {
  Digits digits;
  if (const SizeFault error = split(text, digits); error != SizeFault::none) return {error, 0};
  std::uint64_t whole = 0;
  if (!digits.rest.empty()) return {SizeFault::not_a_size, 0};
  if (const SizeFault error = whole_of(digits.whole, whole); error != SizeFault::none) return {error, 0};
  return {SizeFault::none, value_of(digits)};
}

std::string describe(SizeFault fault, std::string_view what) {
  switch (fault) {
    case SizeFault::none:
      return "";
    case SizeFault::empty:
      return "the value is empty";
    case SizeFault::not_a_size:
      return "is not a " + std::string(what);
    case SizeFault::not_a_number:
      return "is not a number";
    case SizeFault::negative:
      return "is negative";
    case SizeFault::part_of_a_byte:
      return "is not a whole number of bytes";
    case SizeFault::too_large:
      return "is too large";
    case SizeFault::above_whole:
      return "is more than 100%";
  }
  return "is not understood";
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  const SizeReading reading = read_size(text);
  if (reading.fault != SizeFault::none) return std::nullopt;
  return std::get<Bytes>(reading.value.value);
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(std::uint64_t number, const char* one, const char* many) {
  return grouped(number) + " " + (number == 1 ? one : many);
}

std::string format_bytes(Bytes bytes) {
  for (const auto& [name, unit] : kWrittenUnits) {
    // Tenths, rounded; taking the unit from the rounded value keeps 1,023.99 MiB from becoming "1024 MiB".
    const auto tenths =
        static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes.count()) * 10.0 / static_cast<double>(unit)));
    if (tenths < 10) continue;
    std::string text = std::to_string(tenths / 10);
    if (tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
    return text + " " + std::string(name);
  }
  return std::to_string(bytes.count()) + " B";
}

std::string write_bytes(Bytes bytes) {
  for (const auto& [name, unit] : kWrittenUnits) {
    if (bytes.count() != 0 && bytes.count() % unit == 0)
      return std::to_string(bytes.count() / unit) + std::string(name);
  }
  return std::to_string(bytes.count()) + (bytes.count() == 0 ? "" : "B");
}

}  // namespace spillway::policy
