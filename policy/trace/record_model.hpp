// The model of whole records in a packed frame (FORMAT.md, "Packed frames"): writing, it reads a record of the layout
// of record_codec.hpp; reading, it makes the same bytes again. One template serves both ways, so that they cannot
// differ.
//
// Pure. Reading trusts nothing: a record that would not fit what is left of the frame ends it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "policy/trace/launch_model.hpp"
#include "policy/trace/number_model.hpp"

namespace spillway::policy::trace {

// Part of version 2 of the format: a record type that comes later gets no model here.
// The widths of a record's fields in bytes, in the layout of record_codec.cpp ('a': an address, 8); null where a record
// is carried as it is: text, lists, types of a newer writer. Launches, their shapes and kernel times have models of
// their own. A test compares these with what the codec writes.
constexpr const char* packed_fields(std::size_t type) {
  constexpr std::array<const char*, 22> kEvents = {
      nullptr, nullptr, "8",   nullptr, nullptr, nullptr, "4484444", "4a844", "44", "44", nullptr,
      nullptr, "44aa8", "4a8", nullptr, "44",    "8448",  nullptr,   "4a8",   "8",  "",   nullptr};
  constexpr std::array<const char*, 6> kDecisions = {"844448444",  "84444848", "8444484884488",
                                                     "8444484884", "8444484",  nullptr};
  if (type < kEvents.size()) return kEvents[type];
  return type >= 64 && type < 64 + kDecisions.size() ? kDecisions[type - 64] : nullptr;
}

// Where the models of a type's fields begin among those of all types.
constexpr std::size_t packed_field_start(std::size_t type) {
  std::size_t start = 0;
  for (std::size_t before = 0; before < type; ++before) {
    for (const char* field = packed_fields(before); field != nullptr && *field != '\0'; ++field) ++start;
  }
  return start;
}

template <class Coder>
class RecordModel {
 public:
  using Byte = std::conditional_t<Coder::kDecodes, std::byte, const std::byte>;
  // What is carried as it is: appended to when writing, taken from the front when reading.
  using Text = std::conditional_t<Coder::kDecodes, std::span<const std::byte>, std::vector<std::byte>>;

  // `launches` that were before this chain.
  void begin_chain(std::uint64_t launches) { kernels_.begin(launches); }
  [[nodiscard]] std::uint64_t launches() const { return kernels_.launches(); }
  void begin_frame(std::int64_t first_time) {
    first_time_ = static_cast<std::uint64_t>(first_time);  // forged ones may wrap
    time_ = 0;
  }

  // The record at the start of `place`, which holds it (writing) or all that may be written to (reading). Its size, a
  // multiple of 8; 0 when reading what cannot be.
  std::size_t code(Coder& coder, std::span<Byte> place, Text& text);

 private:
  enum Kind : std::uint8_t { kLaunched = 11, kShapeSeen = 10, kGraphLaunched = 15, kKernelTimed = 17 };
  static constexpr std::size_t kTypes = 64;  // events, then decisions from 40 on; what is beyond shares the last place
  static constexpr std::size_t kFields = packed_field_start(80);
  static std::size_t slot(std::size_t type) { return type < 40 ? type : (type >= 64 && type < 80 ? type - 24 : 63); }

  template <class Number>
  static Number load(const std::byte* at) {
    Number number{};
    std::memcpy(&number, at, sizeof number);
    return number;
  }
  template <class Number>
  static void store(Byte* at, Number number) {
    if constexpr (Coder::kDecodes) std::memcpy(at, &number, sizeof number);
  }

  static bool is_plain(std::span<const std::byte> record, std::size_t type);
  std::uint8_t code_type(Coder& coder, std::uint8_t type, bool& plain);
  void code_fields(Coder& coder, Byte* at, std::size_t type);
  std::size_t code_shape(Coder& coder, std::span<Byte> place);
  std::size_t code_text(Coder& coder, std::span<Byte> place, Text& text);

  struct TypeContext {
    Likelihood hit;
    std::uint8_t next = 0;
  };
  std::array<TypeContext, kTypes * kTypes> contexts_{};
  std::array<TreeModel<8>, kTypes> types_{};
  std::array<Likelihood, kTypes> plain_{};
  std::size_t before_ = 0;  // slots of the last two types
  std::size_t last_ = 0;
  std::array<DifferenceModel, kTypes + 1> times_{};
  std::array<FieldModel, kFields> fields_{};
  std::array<AddressModel, 2> addresses_{};  // of fills and copies; of shapes
  std::array<std::uint64_t, kTypes> last_address_{};
  FieldModel text_words_;
  FieldModel text_flags_;
  LaunchModel launches_;
  FieldModel stream_;
  ShapeBook shapes_;
  FieldModel shape_id_;
  FieldModel function_;
  std::array<Likelihood, 4> shape_same_{};
  DifferenceModel threads_;
  DifferenceModel count_;
  DifferenceModel index_;
  KernelTimeModel kernels_;
  std::uint64_t first_time_ = 0;
  std::uint32_t time_ = 0;
};

}  // namespace spillway::policy::trace
