#include "policy/access_history.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway::policy {
namespace {

constexpr std::size_t kListUse = 8;

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

// One of many tensors that the launch is given through one argument (a fused or foreach optimizer).
bool list_use(const LaunchSite& site, std::uint16_t argument) {
  if (site.pointers.size() < kListUse) return false;
  const auto same = std::count_if(site.pointers.begin(), site.pointers.end(),
                                  [argument](const NamedPointer& pointer) { return pointer.argument == argument; });
  return static_cast<std::size_t>(same) >= kListUse;
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

double default_crossings(FunctionKind kind, std::uint64_t threads, Bytes span_bytes) {
  if (kind == FunctionKind::sparse) return 0.1;
  if (kind != FunctionKind::matrix || span_bytes == Bytes()) return 1;
  // Tiles of 128 x 256 outputs by 384 threads; a square operand of 2-byte elements has side / 128 rows of tiles, and is
  // read once for each column of tiles.
  const double side = std::sqrt(static_cast<double>(span_bytes.count()) / 2);
  const double tiles = static_cast<double>(threads) / 384;
  return std::clamp(tiles / std::max(1.0, side / 128), 1.0, 16.0);
}

SpanHistory& AccessHistory::entry(SpanId span, const Span& now) {
  if (span.value >= spans_.size()) {
    spans_.resize(span.value + std::size_t{1});
    seen_in_.resize(spans_.size());
  }
  SpanHistory& known = spans_[span.value];
  if (known.span.allocation != now.allocation || known.span.offset != now.offset) {
    known = {};
    seen_in_[span.value] = 0;
  }
  known.span = now;
  return known;
}

void AccessHistory::written_by_program(SpanId span, const SpanMap& spans) {
  const Span now = spans.span(span);
  if (now.allocation) ++entry(span, now).copies_in;
}

void AccessHistory::iteration(const IterationProfile& profile, const LaunchBook& book, const FunctionBook& functions,
                              const SpanMap& spans, const LearnedCrossings& learned, const CostTable& costs) {
  ++iterations_;
  std::unordered_map<LaunchShapeId, std::optional<double>> evidence;
  const auto learned_of = [&](LaunchShapeId shape, const LaunchSite& site) {
    const auto [entry, fresh] = evidence.try_emplace(shape);
    if (!fresh) return entry->second;
    const FunctionKind of = functions.kind(site.function);
    const bool in_part = of == FunctionKind::attention || of == FunctionKind::sparse;
    if (const auto kind = launch_kind(site, spans))
      entry->second = in_part ? learned.in_part_of(*kind, costs) : learned.of(*kind, costs);
    return entry->second;
  };
  for (const SpanId id : profile.spans()) {
    SpanHistory& known = entry(id, spans.span(id));
    // Stale by one iteration means: used then, and used now.
    known.in_a_row = seen_in_[id.value] + 1 == iterations_ ? known.in_a_row + 1 : 1;
    if (known.iterations == 0 && known.span.offset != Bytes()) {
      const SpanId before = spans.at(known.span.allocation, known.span.offset - Bytes(1));
      if (before.value < spans_.size() && spans_[before.value].attention_uses > 0) ++spans_[before.value].growth;
    }
    seen_in_[id.value] = iterations_;
    ++known.iterations;
    const auto uses = profile.uses(id);
    known.uses = static_cast<std::uint32_t>(uses.size());
    known.first = uses.front().position;
    known.last = uses.back().position;
    known.hull = static_cast<std::uint32_t>(profile.hull(id).count());
    known.functions = {};
    known.function_count = 0;
    known.argument_mask = 0;
    known.list_uses = known.attention_uses = known.sparse_uses = 0;
    known.crossings = known.most_crossings = 0;
    const ProfiledUse* part = nullptr;  // the use before, if it was one of a list
    for (const ProfiledUse& use : uses) {
      const LaunchSite& site = book.site(use.shape);
      const FunctionKind kind = functions.kind(site.function);
      const auto named = known.functions.begin() + std::min<std::ptrdiff_t>(known.function_count, 4);
      if (std::find(known.functions.begin(), named, site.function) == named && known.function_count < 5) {
        if (named != known.functions.end()) *named = site.function;
        ++known.function_count;
      }
      known.argument_mask |= std::uint32_t{1} << std::min<unsigned>(use.argument, 31);
      const ProfiledUse* const before = std::exchange(part, nullptr);
      if (list_use(site, use.argument)) {
        ++known.list_uses;
        part = &use;
      }
      if (kind == FunctionKind::attention) ++known.attention_uses;
      if (kind == FunctionKind::sparse) ++known.sparse_uses;
      // What is too large for one launch over a list goes on in the next one: each does its part.
      const bool goes_on = part != nullptr && before != nullptr && use.position - before->position <= 1 &&
                           book.site(before->shape).function == site.function;
      if (goes_on) continue;
      const auto measured = learned_of(use.shape, site);
      const double crossings = measured ? *measured : default_crossings(kind, site.threads, known.span.bytes);
      known.crossings += crossings;
      known.most_crossings = std::max(known.most_crossings, crossings);
    }
  }
}

const SpanHistory& AccessHistory::of(SpanId span) const {
  static const SpanHistory none;
  return span.value < spans_.size() ? spans_[span.value] : none;
}

}  // namespace spillway::policy
