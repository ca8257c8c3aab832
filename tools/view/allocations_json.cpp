// The page's table of allocations, and the tables of what is launched.
#include <algorithm>

#include "policy/demangle.hpp"
#include "tools/text_table.hpp"
#include "tools/view/allocations.hpp"

namespace spillway::tools::view {

using namespace policy;

namespace {

// "kv in 2%, weights in 1%": what some decisions took a part of it for, where that is not its class.
std::string other_classes(const ClassShare& said) {
  std::string text;
  for (std::uint16_t each = 1; each < kSpanClassNames.size(); ++each) {
    if (each == said.most() || !said.names(each)) continue;
    const std::uint64_t percent = said.percent(each);
    text += (text.empty() ? "" : ", ") + std::string(kSpanClassNames[each]) + " in " +
            (percent == 0 ? "less than 1" : std::to_string(percent)) + "%";
  }
  return text;
}

// The recorder keeps pointers into allocations of a chunk and more only.
bool launches_are_recorded(const ListedAllocation& allocation) { return allocation.bytes >= kChunk; }

}  // namespace

std::string Allocations::function_name(std::uint32_t id) const {
  const auto found = functions_.find(id);
  if (found == functions_.end()) return "function " + std::to_string(id);
  return bare_function_name(demangled(found->second));
}

// Who launches on it, most first: what its class was found from.
std::string Allocations::evidence(const ListedAllocation& allocation) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> uses(allocation.uses.begin(), allocation.uses.end());
  std::stable_sort(uses.begin(), uses.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, uses.size()); ++i) {
    text += (i == 0 ? "" : ", ") + function_name(static_cast<std::uint32_t>(uses[i].first >> 32U)) + " argument " +
            std::to_string(uses[i].first & 0xFFFFU) + " (" + grouped(uses[i].second) + ")";
  }
  if (uses.size() > kShown) text += " and " + counted(uses.size() - kShown, "more use", "more uses");
  if (!text.empty()) return text;
  return launches_are_recorded(allocation) ? "no launch was seen to use it"
                                           : "smaller than 2 MiB: launches that use it are not recorded";
}

Json Allocations::shapes_json(Blocks& blocks) {
  std::vector<LaunchShapeId> ids;
  ids.reserve(shapes_.size());
  for (const auto& [id, shape] : shapes_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  const std::size_t shown = std::min(ids.size(), kMostShapesShown);
  Column id, function, threads, first, touched, argument;
  std::uint64_t position = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    Shape& shape = shapes_[ids[i]];
    if (shape.epoch == 0) resolve(shape);
    id.add(ids[i].value);
    function.add(shape.function.value);
    threads.add(shape.threads);
    first.add(position);
    for (const auto& [at, index] : shape.touches) {
      touched.add(at);
      argument.add(std::uint32_t{index});
    }
    position += shape.touches.size();
  }
  return {{"table", blocks.add({{"id", &id}, {"function", &function}, {"threads", &threads}, {"first", &first}})},
          {"touches", blocks.add({{"allocation", &touched}, {"argument", &argument}})},
          {"left_out", ids.size() - shown}};
}

Json Allocations::graphs_json(Blocks& blocks) const {
  Column id, size;
  for (const auto& [graph, shapes] : graphs_) {
    id.add(graph);
    size.add(std::uint64_t{shapes.size()});
  }
  return blocks.add({{"id", &id}, {"kernels", &size}});
}

Json Allocations::finish(Blocks& blocks) {
  count_pending();
  Column id, device, bytes, kind, backing, caller, asked, freed, end, reason, rule, span_class, share, in, out,
      populated, moves, launches, address;
  std::vector<std::string> evidences;
  Json mixed = Json::object();
  for (const ListedAllocation& each : all_) {
    const std::uint16_t of = each.said.most();
    id.add(each.id.value);
    device.add(each.device.value);
    bytes.add(each.bytes.count());
    kind.add(static_cast<std::uint32_t>(each.kind));
    backing.add(static_cast<std::uint32_t>(each.backing));
    caller.add(each.caller.value);
    asked.add(each.asked.count());
    freed.add(each.freed ? each.freed->count() : -1);
    end.add(static_cast<std::uint32_t>(each.end));
    reason.add(each.reason ? static_cast<std::int64_t>(*each.reason) : -1);
    rule.add(std::uint32_t{each.rule});
    span_class.add(std::uint32_t{of});
    share.add(of == 0 ? 0 : each.said.percent(of));
    in.add(each.moved_in.count());
    out.add(each.moved_out.count());
    populated.add(each.populated.count());
    moves.add(each.moves);
    launches.add(launches_are_recorded(each) ? static_cast<std::int64_t>(each.launches) : -1);
    address.add(each.address.value);
    evidences.push_back(evidence(each));
    if (const std::string others = other_classes(each.said); !others.empty())
      mixed[std::to_string(evidences.size() - 1)] = others;
  }
  Json json;
  json["other_classes"] = std::move(mixed);  // by row
  json["table"] = blocks.add({{"id", &id},
                              {"device", &device},
                              {"bytes", &bytes},
                              {"kind", &kind},
                              {"backing", &backing},
                              {"caller", &caller},
                              {"asked", &asked},
                              {"freed", &freed},
                              {"end", &end},
                              {"reason", &reason},
                              {"rule", &rule},
                              {"span_class", &span_class},
                              {"share", &share},
                              {"moved_in", &in},
                              {"moved_out", &out},
                              {"moves", &moves},
                              {"populated", &populated},
                              {"launches", &launches},
                              {"address", &address}});
  json["evidence"] = blocks.add_texts(evidences);
  json["not_listed"] = not_listed_;
  json["not_listed_bytes"] = not_listed_bytes_.count();
  Column function_ids;
  std::vector<std::string> names;
  for (const auto& [number, name] : functions_) {
    function_ids.add(number);
    names.push_back(demangled(name));
    names.push_back(bare_function_name(names.back()));
  }
  json["function_ids"] = blocks.add({{"id", &function_ids}});
  json["function_names"] = blocks.add_texts(names);  // two for each: in full, and bare
  json["shapes"] = shapes_json(blocks);
  json["graphs"] = graphs_json(blocks);
  json["callers"] = Json::object();
  for (const auto& [number, library] : callers_) json["callers"][std::to_string(number)] = library;
  return json;
}

}  // namespace spillway::tools::view
