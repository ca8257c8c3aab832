// Sizes and shares as people write them ("16GiB", "1.5 GiB", "80%"), with a name for everything that can be wrong.
// Nothing is guessed: text after the number, a sign, an overflow or a NaN is a fault, never a zero.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "policy/settings.hpp"

namespace spillway::policy {

enum class SizeFault : std::uint8_t {
  none,
  empty,
  not_a_size,
  not_a_number,
  negative,
  part_of_a_byte,
  too_large,
  above_whole
};

struct SizeReading {
  SizeFault fault = SizeFault::none;
  SizeOrShare value;  // meaningful only without a fault
};

// A size only: "16GiB".
SizeReading read_size(std::string_view text);
// A size or a share: "16GiB", "80%".
SizeReading read_size_or_share(std::string_view text);
// What "16G" or "16Gi" was meant to be, "16GiB"; empty of any other text.
std::string meant_size(std::string_view text);
// What "16" was meant to be, "16MiB": a size without its unit that is below 2 MiB, where nothing is told from nothing.
// Empty of 0 and of any other text.
std::string meant_unit(std::string_view text);
inline constexpr const char* kBareNumber = "is in bytes, and below 2 MiB";
// A share with or without its sign: "5", "5%", "0.5%".
SizeReading read_percent(std::string_view text);

// A plain decimal number with an optional fraction, all of `text`; the fault says what it is otherwise.
struct DecimalReading {
  SizeFault fault = SizeFault::none;
  double value = 0;
};
DecimalReading read_decimal(std::string_view text);

// "is not a size", to follow the quoted value. `what` is "size", "share", "number": the thing that was wanted.
std::string describe(SizeFault fault, std::string_view what);

// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number);
// "1 launch", "2,000 launches".
std::string counted(std::uint64_t number, const char* one, const char* many);

// Without the blanks and tabs around it.
std::string_view trimmed(std::string_view text);

}  // namespace spillway::policy
