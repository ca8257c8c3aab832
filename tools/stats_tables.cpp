#include "tools/stats_tables.hpp"

#include <algorithm>
#include <cstdio>

#include "policy/demangle.hpp"
#include "policy/settings.hpp"
#include "policy/span_class.hpp"
#include "tools/names.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_summary.hpp"

namespace spillway::tools {

using namespace policy;
using Json = nlohmann::ordered_json;

namespace {

std::string milliseconds(Nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f ms", static_cast<double>(time.count()) / 1e6);
  return text;
}

std::string class_text(std::uint16_t span_class) {
  return span_class < kSpanClassNames.size() ? std::string(kSpanClassNames[span_class])
                                             : "(newer: " + std::to_string(span_class) + ")";
}

using Columns = std::vector<TextTable::Column>;

Columns with_traffic(Columns first, const Columns& last = {}) {
  for (const char* title : {"moves", "in", "out", "in again", "in for nothing", "in calls"}) first.push_back({title});
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

std::vector<std::string> with_traffic(std::vector<std::string> first, const Traffic& of,
                                      const std::vector<std::string>& last = {}) {
  first.push_back(grouped(of.moves));
  for (const Bytes bytes : {of.in, of.out, of.refetched, of.useless}) first.push_back(format_bytes(bytes));
  first.push_back(milliseconds(of.took));
  first.insert(first.end(), last.begin(), last.end());
  return first;
}

void put_traffic(Json& into, const Traffic& of) {
  into["moves"] = of.moves;
  into["moved_in"] = of.in.count();
  into["moved_out"] = of.out.count();
  into["populated"] = of.populated.count();
  into["refetched"] = of.refetched.count();
  into["useless"] = of.useless.count();
  into["moving_ns"] = of.took.count();
}

std::string more(std::size_t count, std::size_t shown, const char* one, const char* many) {
  return count > shown ? "  and " + counted(count - shown, one, many) + " (--top)\n" : std::string();
}

std::string class_table(const RunTables& tables, std::size_t width) {
  TextTable table(with_traffic({{"class", Align::left}}));
  for (const auto& [span_class, traffic] : tables.classes) {
    table.add(with_traffic({class_text(span_class)}, traffic));
  }
  table.add(with_traffic({"all"}, tables.total));
  return table.str(width);
}

// `1 "adam moments" (training.toml:4)`.
std::string rule_name(std::uint16_t rule, const RunTables& tables) {
  if (rule == 0) return "no rule";
  const std::string number = std::to_string(rule);
  return rule <= tables.rule_words.size() ? number + " " + tables.rule_words[rule - 1U] : number;
}

std::string rule_table(const RunTables& tables, std::size_t width) {
  bool idle = false;
  TextTable table(with_traffic({{"rule", Align::left}}));
  for (const auto& [rule, traffic] : tables.rules) {
    table.add(with_traffic({rule_name(rule, tables)}, traffic));
    idle = idle || (rule != 0 && traffic.moves == 0);
  }
  table.add(with_traffic({"all"}, tables.total));
  return table.str(width) +
         (idle ? "  a rule without moves may match all the same: spillway check POLICY --trace TRACE says what\n" : "");
}

// On a terminal without "void " and parameters: the table shortens what is too long all the same.
std::string kernel_name(const std::string& name, std::size_t width) {
  std::string text = harmless(demangled(name));
  if (width == 0) return text;
  if (text.ends_with(')')) {
    std::size_t depth = 0;
    for (std::size_t at = text.size(); at-- > 0;) {
      depth += text[at] == ')' ? 1U : 0U;
      if (text[at] == '(' && --depth == 0) {
        if (at > 0) text.resize(at);
        break;
      }
    }
  }
  if (text.starts_with("void ")) text.erase(0, 5);
  return text;
}

std::string kernel_table(const RunTables& tables, std::size_t top, std::size_t width) {
  const bool timed = std::any_of(tables.kernels.begin(), tables.kernels.end(),
                                 [](const KernelRow& row) { return row.timed_launches > 0; });
  Columns columns{{"kernel", Align::left}, {"launches"}, {"named on host"}, {"stall at most"}};
  if (timed) columns.push_back({"each"});
  TextTable table(with_traffic(columns));
  for (std::size_t i = 0; i < std::min(top, tables.kernels.size()); ++i) {
    const KernelRow& row = tables.kernels[i];
    std::vector<std::string> cells{kernel_name(row.name, width), grouped(row.launches), format_bytes(row.host_bytes),
                                   milliseconds(tables.stall_estimate(row.host_bytes))};
    if (timed) {
      const auto count = static_cast<std::int64_t>(std::max<std::uint64_t>(row.timed_launches, 1));
      cells.push_back(row.timed_launches == 0 ? "" : milliseconds(Nanoseconds(row.timed.count() / count)));
    }
    table.add(with_traffic(std::move(cells), row.traffic));
  }
  return table.str(width) + more(tables.kernels.size(), top, "more kernel", "more kernels") +
         "  moves stand with the launch at which they were decided, which need not use what moved; no kernel: decided "
         "by none\n";
}

std::string iteration_table(const RunTables& tables, std::size_t top, std::size_t width) {
  if (tables.iterations.size() < 2)
    return "  iterations: none found; the launches do not repeat, or not for long enough\n";
  const bool faults = std::any_of(tables.iterations.begin(), tables.iterations.end(),
                                  [](const IterationRow& row) { return row.faults > 0; });
  Columns columns{{"iteration"}, {"time"}, {"launches"}, {"named on host"}, {"stall at most"}};
  if (faults) columns.push_back({"faults"});
  TextTable table(with_traffic(columns));
  const std::size_t count = tables.iterations.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i >= top && i + top < count) continue;
    const IterationRow& row = tables.iterations[i];
    std::string name = row.number == 0 ? "before" : std::to_string(row.number);
    if (!row.complete) name = row.launches == 0 ? "after" : name + " (not whole)";
    std::vector<std::string> cells{std::move(name), milliseconds(row.time()), grouped(row.launches),
                                   format_bytes(row.host_bytes), milliseconds(tables.stall_estimate(row))};
    if (faults) cells.push_back(grouped(row.faults));
    table.add(with_traffic(std::move(cells), row.traffic));
  }
  std::string out = table.str(width);
  if (count > 2 * top) out += "  " + grouped(count - 2 * top) + " in the middle are left out (--top, or --json)\n";
  out += "  iterations: " + iterations_text(tables.iterations_seen) + "\n";
  if (tables.iterations_left_out > 0) {
    out += "  " + grouped(tables.iterations_left_out) + " more came after these and were not kept\n";
  }
  return out;
}

std::string allocation_table_by_traffic(const RunTables& tables, std::size_t top, std::size_t width) {
  TextTable table(with_traffic({{"allocation"},
                                {"size"},
                                {"class", Align::left},
                                {"freed", Align::left},
                                {"in HBM"},
                                {"on host"},
                                {"named on host"}},
                               {{"asked for by", Align::left}}));
  for (std::size_t i = 0; i < std::min(top, tables.allocations.size()); ++i) {
    const AllocationRow& row = tables.allocations[i];
    table.add(with_traffic(
        {std::to_string(row.id.value), format_bytes(row.bytes), class_text(row.span_class), row.freed ? "yes" : "no",
         format_bytes(row.in_hbm), format_bytes(row.on_host), format_bytes(row.host_bytes)},
        row.traffic, {harmless(row.library)}));
  }
  if (table.empty()) return "  allocations: none moved, and none that could is live\n";
  return table.str(width) + more(tables.allocations.size(), top, "more allocation", "more allocations") +
         "  in HBM, on host: at the end, or when it was freed; named on host: what was there when launches named it\n";
}

Json kernels_json(const RunTables& tables, std::size_t top) {
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(top, tables.kernels.size()); ++i) {
    const KernelRow& row = tables.kernels[i];
    Json one = {{"name", row.name},
                {"demangled", demangled(row.name)},
                {"launches", row.launches},
                {"host_bytes", row.host_bytes.count()},
                {"stall_estimate_ns", tables.stall_estimate(row.host_bytes).count()},
                {"timed_launches", row.timed_launches},
                {"timed_ns", row.timed.count()}};
    put_traffic(one, row.traffic);
    list.push_back(std::move(one));
  }
  return list;
}

Json iterations_json(const RunTables& tables) {
  Json list = Json::array();
  for (const IterationRow& row : tables.iterations) {
    Json one = {{"iteration", row.number},
                {"begin_ns", row.begin.count()},
                {"end_ns", row.end.count()},
                {"complete", row.complete},
                {"launches", row.launches},
                {"host_bytes", row.host_bytes.count()},
                {"stall_estimate_ns", tables.stall_estimate(row).count()},
                {"faults", row.faults}};
    put_traffic(one, row.traffic);
    list.push_back(std::move(one));
  }
  return list;
}

Json allocations_json(const RunTables& tables, std::size_t top) {
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(top, tables.allocations.size()); ++i) {
    const AllocationRow& row = tables.allocations[i];
    Json one = {{"allocation", row.id.value},
                {"device", row.device.value},
                {"bytes", row.bytes.count()},
                {"kind", name_of(row.kind)},
                {"backing", row.backing == Backing::managed ? "managed" : "device"},
                {"class", class_text(row.span_class)},
                {"freed", row.freed},
                {"in_hbm", row.in_hbm.count()},
                {"on_host", row.on_host.count()},
                {"host_bytes", row.host_bytes.count()},
                {"caller", row.library}};
    put_traffic(one, row.traffic);
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

const std::vector<std::string>& section_names() {
  static const std::vector<std::string> kNames = {"class", "rule", "kernel", "iteration", "allocation"};
  return kNames;
}

std::string outside_text(const RunTables& tables, const TraceSummary& summary) {
  // What was dropped or damaged may have been decisions.
  if (!summary.whole || summary.dropped_events + summary.dropped_frames > 0) return {};
  const Bytes in = summary.moved_in().saturating_minus(tables.total.in);
  const Bytes out = summary.moved_out().saturating_minus(tables.total.out);
  if (in + out == Bytes()) return {};
  return "  " + format_bytes(in) + " in" + (out == Bytes() ? "" : " and " + format_bytes(out) + " out") +
         " moved by page faults, which are not decisions: in no table\n";
}

std::string section_text(const RunTables& tables, Section section, std::size_t top, std::size_t width) {
  switch (section) {
    case Section::by_class:
      return class_table(tables, width);
    case Section::by_rule:
      return rule_table(tables, width);
    case Section::by_kernel:
      return kernel_table(tables, top, width);
    case Section::by_iteration:
      return iteration_table(tables, top, width);
    case Section::by_allocation:
      return allocation_table_by_traffic(tables, top, width);
  }
  return {};
}

Json section_json(const RunTables& tables, Section section, std::size_t top) {
  Json list = Json::array();
  switch (section) {
    case Section::by_class:
      for (const auto& [span_class, traffic] : tables.classes) {
        list.push_back({{"class", class_text(span_class)}});
        put_traffic(list.back(), traffic);
      }
      return list;
    case Section::by_rule:
      for (const auto& [rule, traffic] : tables.rules) {
        list.push_back({{"rule", rule}});
        if (rule != 0 && rule <= tables.rules_seen.size()) {
          list.back()["name"] = tables.rules_seen[rule - 1U].name;
          list.back()["file"] = tables.policy_file;
          list.back()["line"] = tables.rules_seen[rule - 1U].line;
        }
        put_traffic(list.back(), traffic);
      }
      return list;
    case Section::by_kernel:
      return kernels_json(tables, top);
    case Section::by_iteration:
      return iterations_json(tables);
    case Section::by_allocation:
      return allocations_json(tables, top);
  }
  return list;
}

}  // namespace spillway::tools
