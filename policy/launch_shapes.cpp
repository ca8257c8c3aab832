#include "policy/launch_shapes.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace spillway::policy {
namespace {

// Multiplies to 128 bits and folds: each bit of the input reaches each bit of the result.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

std::uint64_t hash_of(FunctionId function, std::uint64_t threads, std::span<const PointerArgument> arguments) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;
  std::uint64_t hash = mix(threads ^ kOdd, (std::uint64_t{function.value} << 1U) ^ 0xD6E8FEB86659FD93U);
  for (const PointerArgument& argument : arguments) {
    hash = mix(hash ^ argument.address.value, kOdd ^ (std::uint64_t{argument.index} << 32U));
  }
  return hash;
}

}  // namespace

LaunchShapes::LaunchShapes(LaunchShapeLimits limits) : limits_(limits) {
  limits_.shapes = std::bit_ceil(std::clamp<std::size_t>(limits.shapes, 1, std::size_t{1} << 24));
  limits_.arguments = std::clamp<std::size_t>(limits.arguments, kMostArguments, std::size_t{1} << 28);
  for (Generation* generation : {&young_, &old_}) {
    generation->slots.resize(limits_.shapes * 2);
    // All of it now, so that no launch pays for growth; the kernel gives the pages when they are used.
    generation->entries.reserve(limits_.shapes);
    generation->arguments.reserve(limits_.arguments);
  }
}

LaunchShapes::Answer LaunchShapes::intern(FunctionId function, std::uint64_t threads,
                                          std::span<const PointerArgument> arguments) {
  arguments = arguments.first(std::min(arguments.size(), kMostArguments));
  const Key key{function, threads, arguments, hash_of(function, threads, arguments)};
  if (const Entry* known = find(young_, key)) return {known->shape, false};
  if (const Entry* known = find(old_, key)) {
    const LaunchShapeId shape = known->shape;
    insert(key, shape);
    return {shape, false};
  }
  const LaunchShapeId shape{++last_id_};
  insert(key, shape);
  return {shape, true};
}

const LaunchShapes::Entry* LaunchShapes::find(const Generation& generation, const Key& key) {
  const std::size_t mask = generation.slots.size() - 1;
  const auto tag = static_cast<std::uint32_t>(key.hash >> 32U);
  for (std::size_t at = key.hash & mask;; at = (at + 1) & mask) {
    const Slot slot = generation.slots[at];
    if (slot.entry == 0) return nullptr;
    if (slot.tag != tag) continue;
    const Entry& entry = generation.entries[slot.entry - 1];
    if (entry.hash == key.hash && entry.threads == key.threads && entry.function == key.function &&
        entry.arguments == key.arguments.size() &&
        std::equal(key.arguments.begin(), key.arguments.end(), generation.arguments.begin() + entry.first_argument)) {
      return &entry;
    }
  }
}

void LaunchShapes::insert(const Key& key, LaunchShapeId shape) {
  if (young_.entries.size() == limits_.shapes || young_.arguments.size() + key.arguments.size() > limits_.arguments) {
    start_generation();
  }
  young_.entries.push_back({key.hash, key.threads, key.function, shape,
                            static_cast<std::uint32_t>(young_.arguments.size()),
                            static_cast<std::uint32_t>(key.arguments.size())});
  young_.arguments.insert(young_.arguments.end(), key.arguments.begin(), key.arguments.end());
  const std::size_t mask = young_.slots.size() - 1;
  std::size_t at = key.hash & mask;
  while (young_.slots[at].entry != 0) at = (at + 1) & mask;
  young_.slots[at] = {static_cast<std::uint32_t>(key.hash >> 32U), static_cast<std::uint32_t>(young_.entries.size())};
}

void LaunchShapes::start_generation() {
  std::swap(young_, old_);
  young_.entries.clear();
  young_.arguments.clear();
  std::fill(young_.slots.begin(), young_.slots.end(), Slot{});
}

}  // namespace spillway::policy
