#include "shim/launch_arguments.hpp"

#include <cstring>

#include "shim/cuda_driver.hpp"

namespace spillway::shim {

namespace {

// The packed argument buffer of `extra`: pairs of a tag and a value, closed by CU_LAUNCH_PARAM_END.
struct PackedArguments {
  const std::byte* buffer = nullptr;
  std::size_t bytes = 0;
};

constexpr int kExtraLimit = 16;  // tags; the driver knows two

PackedArguments unpack(const void* const* extra) {
  PackedArguments packed;
  for (int i = 0; i < kExtraLimit; i += 2) {
    const auto tag = reinterpret_cast<std::uintptr_t>(extra[i]);
    if (tag == reinterpret_cast<std::uintptr_t>(CU_LAUNCH_PARAM_END)) break;
    if (extra[i + 1] == nullptr) return {};
    if (tag == reinterpret_cast<std::uintptr_t>(CU_LAUNCH_PARAM_BUFFER_POINTER)) {
      packed.buffer = static_cast<const std::byte*>(extra[i + 1]);
    } else if (tag == reinterpret_cast<std::uintptr_t>(CU_LAUNCH_PARAM_BUFFER_SIZE)) {
      packed.bytes = *static_cast<const std::size_t*>(extra[i + 1]);
    } else {
      return {};  // a tag of a newer driver: what its value means is not known
    }
  }
  return packed.buffer == nullptr ? PackedArguments{} : packed;
}

// Argument memory need not be aligned.
std::uint64_t word_at(const void* memory) {
  std::uint64_t word = 0;
  std::memcpy(&word, memory, sizeof word);
  return word;
}

class Collector {
 public:
  Collector(const AddressTable& addresses, Touch* out, std::size_t room)
      : addresses_(addresses), bounds_(addresses.bounds()), out_(out), room_(room) {}

  void look_at(std::uint64_t word, std::uint16_t parameter) {
    if (!bounds_.admit(word) || !addresses_.contains(word)) return;
    if (found_.count == room_) {
      found_.flags |= kTouchesCut;
      return;
    }
    out_[found_.count++] = Touch::of(word, parameter);
  }
  [[nodiscard]] PointersFound found() const { return found_; }

 private:
  const AddressTable& addresses_;
  const AddressTable::Bounds bounds_;
  Touch* out_;
  std::size_t room_;
  PointersFound found_;
};

}  // namespace

PointersFound read_pointers(const FunctionRecord& function, const AddressTable& addresses,
                            const void* const* kernel_parameters, const void* const* extra, Touch* out,
                            std::size_t room) {
  if (!function.layout_known) return {0, kArgumentsUnknown};
  Collector collector(addresses, out, room);
  if (kernel_parameters != nullptr) {
    for (const ArgumentWord& word : function.words) {
      const auto* parameter = static_cast<const std::byte*>(kernel_parameters[word.parameter]);
      if (parameter != nullptr) collector.look_at(word_at(parameter + word.within), word.parameter);
    }
  } else if (extra != nullptr) {
    const PackedArguments packed = unpack(extra);
    for (const ArgumentWord& word : function.words) {
      if (word.offset + sizeof(std::uint64_t) > packed.bytes) break;
      collector.look_at(word_at(packed.buffer + word.offset), word.parameter);
    }
  }
  return collector.found();
}

}  // namespace spillway::shim
