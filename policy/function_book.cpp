#include "policy/function_book.hpp"

#include <algorithm>
#include <cmath>

namespace spillway::policy {
namespace {

constexpr double kColumnsACrossing = 256;

bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// The longest identifier in a mangled name is nearly always the telling one.
std::string telling_part(std::string_view name) {
  std::string_view best;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    const bool word =
        i < name.size() && (name[i] == '_' || (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z'));
    if (word) continue;
    if (i - start > best.size()) best = name.substr(start, i - start);
    start = i + 1;
  }
  return std::string(best.substr(0, 40));
}

}  // namespace

FunctionKind function_kind(std::string_view name) {
  const std::string text = lower(name);
  if (contains_any(text, {"adam", "fusedoptimizer", "sgd_", "lamb_", "adagrad", "rmsprop"}))
    return FunctionKind::optimizer;
  if (contains_any(text, {"attention", "flash", "fmha", "sdpa", "paged_kv", "kv_cache", "kvcache"})) {
    return FunctionKind::attention;
  }
  if (contains_any(text, {"embedding", "gather", "indexselect", "index_select", "index_get", "scatter"})) {
    return FunctionKind::sparse;
  }
  if (contains_any(text, {"gemm", "cutlass", "xmma", "matmul", "nvjet", "wgrad", "dgrad", "conv2d", "implicit_con"})) {
    return FunctionKind::matrix;
  }
  return FunctionKind::other;
}

void FunctionBook::seen(FunctionId function, std::string_view name) {
  functions_[function] = {function_kind(name), telling_part(name)};
}

FunctionKind FunctionBook::kind(FunctionId function) const {
  const auto entry = functions_.find(function);
  return entry == functions_.end() ? FunctionKind::other : entry->second.kind;
}

std::string_view FunctionBook::label(FunctionId function) const {
  const auto entry = functions_.find(function);
  return entry == functions_.end() ? std::string_view("unnamed") : std::string_view(entry->second.label);
}

double operand_columns(std::size_t position, std::span<const Bytes> extents, std::uint64_t threads) {
  constexpr double kElement = 2;
  const auto bytes = [extents](std::size_t at) { return std::max(static_cast<double>(extents[at].count()), 1.0); };
  if (extents.size() >= 3) {
    if (position >= 2) return 0;
    return std::sqrt(bytes(1 - position) * bytes(2) / bytes(position) / kElement);
  }
  const double side = std::sqrt(bytes(position) / kElement);
  const double tiles = static_cast<double>(threads) / 384;
  return kColumnsACrossing * tiles / std::max(1.0, side / 128);
}

double default_crossings(FunctionKind kind, double columns) {
  if (kind == FunctionKind::sparse) return 0.1;
  if (kind != FunctionKind::matrix) return 1;
  return std::clamp(columns / kColumnsACrossing, 1.0, 16.0);
}

}  // namespace spillway::policy
