#include "tools/allocation_story.hpp"

#include <charconv>
#include <set>
#include <utility>
#include <variant>

#include "policy/explain.hpp"
#include "tools/names.hpp"
#include "tools/sane_time.hpp"
#include "tools/text_table.hpp"
#include "tools/trace_source.hpp"
#include "tools/trace_summary.hpp"

namespace spillway::tools {

using namespace policy;

namespace {

std::string hexadecimal(Address address) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, address.value, 16).ptr;
  return "0x" + std::string(text, end);
}

const char* outcome_word(MoveOutcome outcome) {
  switch (outcome) {
    case MoveOutcome::done:
      return "done";
    case MoveOutcome::failed:
      return "refused by the driver";
    case MoveOutcome::cancelled:
      return "cancelled";
  }
  return "ended";
}

std::string outcome_text(const FinishedMove& move) {
  const double milliseconds = static_cast<double>(move.end.took.count()) / 1e6;
  char took[48];
  std::snprintf(took, sizeof took, "%.3f ms", milliseconds);
  std::string text = outcome_word(move.end.outcome);
  if (move.end.outcome == MoveOutcome::failed) return text + " (code " + std::to_string(move.end.result.code) + ")";
  if (move.end.outcome != MoveOutcome::done) return text;
  text += std::string(" in ") + took;
  if (move.in != Bytes()) text += ", " + format_bytes(move.in) + " crossed to the device";
  if (move.out != Bytes()) text += ", " + format_bytes(move.out) + " crossed to the host";
  if (move.populated != Bytes()) text += ", " + format_bytes(move.populated) + " placed for the first time";
  if (move.refetched != Bytes()) text += ", " + format_bytes(move.refetched) + " of it not for the first time";
  if (move.changed == Bytes()) text += ", all was there already";
  return text;
}

// Follows the whole trace, and writes down what concerns one allocation.
class Storyteller {
 public:
  explicit Storyteller(AllocationId id) : id_(id) {}
  AllocationStory story;

  void begin(const trace::TraceHeader& header) { rules_ = rule_words(header); }

  void add(const trace::Record& record) {
    if (record.kind == trace::RecordKind::decision) decided(record.decision, record.time);
    if (record.kind == trace::RecordKind::event) before(record.event.body, record.time);
    run_.add(record);
    if (record.kind == trace::RecordKind::event) after(record.event.body, record.time);
    if (alive_ && run_.iteration_ended()) {
      ++story.iterations;
      story.iterations_used += std::exchange(used_in_iteration_, false) ? 1U : 0U;
    }
    for (const UselessMove& useless : run_.useless()) {
      if (useless.allocation == id_) story.useless += useless.bytes;
    }
    if (const FollowedAllocation* now = run_.find(id_); now != nullptr && now->settled != story.allocation.settled) {
      story.allocation = *now;
    }
    if (const FollowedAllocation* gone = run_.freed(); gone != nullptr && gone->id == id_) end(*gone, record.time);
  }

  void finish(const trace::TraceReader& reader) {
    story.completeness = completeness(reader);
    story.caller = run_.library(story.allocation.caller);
    if (alive_) {
      story.end = run_.time();
      if (const FollowedAllocation* now = run_.find(id_)) story.allocation = *now;
    }
    for (auto& [function, use] : story.kernels) {
      use.name = run_.name({function});
      if (use.name.empty()) use.name = function == 0 ? "(graphs)" : "(function " + std::to_string(function) + ")";
    }
  }

 private:
  StoryLine* tell(Nanoseconds time, const char* kind, std::string text, DecisionId decision = {}) {
    if (story.lines.size() >= AllocationStory::kMostLines) {
      ++story.lines_left_out;
      return nullptr;
    }
    story.lines.push_back({time, run_.launches(), kind, decision, std::move(text), {}});
    return &story.lines.back();
  }

  void decided(const Decision& decision, Nanoseconds time) {
    const AllocationId about = policy::about(decision.body);
    if (about != id_ || !id_) return;
    if (decision.cause.span_class != 0) {
      auto& said = story.classes[decision.cause.span_class];
      if (said.first++ == 0) said.second = decision.id;
    }
    if (tell(time, "decision", explain(decision, rules_), decision.id) != nullptr &&
        std::holds_alternative<MoveRange>(decision.body)) {
      line_of_[decision.id.value] = story.lines.size() - 1;
    }
    if (std::holds_alternative<RefuseAllocation>(decision.body)) {
      story.refused = true;
      alive_ = false;
      story.end = time;
    }
  }

  void before(const EventBody& body, Nanoseconds time) {
    const auto* freeing = std::get_if<FreeRequested>(&body);
    if (freeing != nullptr && freeing->allocation == id_) tell(time, "freeing", "the program frees it");
  }

  void after(const EventBody& body, Nanoseconds time) {
    if (const auto* asked = std::get_if<AllocationRequested>(&body); asked != nullptr && asked->allocation == id_) {
      story.found = alive_ = true;
      if (const FollowedAllocation* now = run_.find(id_)) story.allocation = *now;
      const std::string& library = run_.library(asked->caller);
      tell(time, "asked",
           (library.empty() ? std::string("the program") : harmless(library)) + " asks for " +
               format_bytes(asked->bytes) + " (" + name_of(asked->kind) + ") on device " +
               std::to_string(asked->device.value) + (asked->capturing ? ", during a capture" : ""));
    } else if (const auto* settled = std::get_if<AllocationSettled>(&body);
               settled != nullptr && settled->allocation == id_ && !story.refused) {
      settle(*settled, time);
    } else if (std::holds_alternative<MoveFinished>(body)) {
      moved();
    } else if (const auto* shape = std::get_if<LaunchShapeSeen>(&body)) {
      if (arguments_.size() < AllocationStory::kMostShapes) arguments_[shape->shape] = shape->arguments;
    } else if (const auto* launched = std::get_if<Launched>(&body)) {
      if (alive_) used(launched->shape, run_.launched().value);
    } else if (const auto* graph = std::get_if<GraphLaunched>(&body)) {
      if (alive_) graph_used(*graph);
    } else if (const auto* copied = std::get_if<Copied>(&body)) {
      if (alive_ && (holds(copied->destination) || holds(copied->source))) count_copy(copied->bytes);
    } else if (const auto* filled = std::get_if<Filled>(&body)) {
      if (alive_ && holds(filled->address)) count_copy(filled->bytes);
    }
  }

  void settle(const AllocationSettled& settled, Nanoseconds time) {
    if (!settled.result.ok()) {
      alive_ = false;
      story.end = time;
      tell(time, "failed", "the driver refuses it (code " + std::to_string(settled.result.code) + ")");
      return;
    }
    tell(time, "settled",
         "the driver gives " + format_bytes(settled.bytes) + " of " +
             (settled.backing == Backing::managed ? "managed" : "plain device") + " memory at " +
             hexadecimal(settled.address));
  }

  void moved() {
    const FinishedMove* const move = run_.finished_move();
    if (move == nullptr || move->range.allocation != id_) return;
    ++story.moves;
    if (move->end.outcome != MoveOutcome::done) ++story.moves_failed;
    story.in += move->in;
    story.out += move->out;
    story.populated += move->populated;
    story.refetched += move->refetched;
    add_sane(story.moving, move->end.took);
    const auto line = line_of_.find(move->decision.value);
    if (line == line_of_.end()) return;
    story.lines[line->second].outcome = outcome_text(*move);
    line_of_.erase(line);
  }

  void used(LaunchShapeId shape, std::uint32_t function) {
    bool names = false;
    run_.each_use(shape,
                  [&](AllocationId allocation, Bytes /*begin*/, Bytes /*end*/) { names = names || allocation == id_; });
    if (!names && !plain_names(shape)) return;
    ++story.launches;
    used_in_iteration_ = true;
    KernelUse& use = story.kernels[function];
    if (use.launches++ == 0) use.first = run_.launches();
    use.last = run_.launches();
    const FollowedAllocation* const now = run_.find(id_);
    const auto known = arguments_.find(shape);
    if (now == nullptr || known == arguments_.end()) return;
    for (const PointerArgument& argument : known->second) {
      if (within(*now, argument.address)) use.arguments.insert(argument.index);
    }
  }

  void graph_used(const GraphLaunched& graph) {
    for (const LaunchShapeId part : run_.shapes_of(graph.graph)) used(part, run_.function_of(part).value);
  }

  // Plain memory is followed by its address alone.
  bool plain_names(LaunchShapeId shape) const {
    if (story.allocation.backing != Backing::device || !story.allocation.settled) return false;
    for (const std::uint64_t pointer : run_.pointers_of(shape)) {
      if (holds({pointer})) return true;
    }
    return false;
  }

  [[nodiscard]] bool holds(Address address) const { return within(story.allocation, address); }

  static bool within(const FollowedAllocation& of, Address address) {
    return of.settled && address.value >= of.address.value && address.value - of.address.value < of.bytes.count();
  }

  void count_copy(Bytes bytes) {
    ++story.copies;
    story.copied += bytes;
  }

  void end(const FollowedAllocation& gone, Nanoseconds time) {
    story.allocation = gone;
    story.freed = true;
    story.end = time;
    alive_ = false;
    tell(time, "freed", "it is gone");
  }

  RunFollower run_;
  AllocationId id_;
  bool alive_ = false;
  bool used_in_iteration_ = false;
  RuleWords rules_;
  std::unordered_map<LaunchShapeId, std::vector<PointerArgument>> arguments_;
  std::map<std::uint64_t, std::size_t> line_of_;  // of open moves, by decision
};

// Every allocation that held the address, in order.
std::optional<std::string> find_by_address(const std::string& path, Address address, std::vector<std::uint32_t>& ids) {
  const auto see = [&](const trace::Record& record) {
    if (record.kind != trace::RecordKind::event) return;
    const auto* settled = std::get_if<AllocationSettled>(&record.event.body);
    if (settled == nullptr || !settled->result.ok() || address.value < settled->address.value) return;
    if (address.value - settled->address.value < settled->bytes.count()) ids.push_back(settled->allocation.value);
  };
  return read_trace(path, see, [](const trace::TraceReader& /*reader*/) {});
}

}  // namespace

std::optional<AllocationName> parse_allocation_name(const std::string& text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  std::uint64_t number = 0;
  const char* const begin = text.data() + (hexadecimal ? 2 : 0);
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(begin, end, number, hexadecimal ? 16 : 10);
  if (read.ec != std::errc() || read.ptr != end || number == 0) return std::nullopt;
  if (hexadecimal) return AllocationName{{}, {number}};
  if (number > ~std::uint32_t{0}) return std::nullopt;
  return AllocationName{{static_cast<std::uint32_t>(number)}, {}};
}

StoryReading read_story(const std::string& path, const AllocationName& name) {
  StoryReading reading;
  AllocationId id = name.id;
  std::vector<std::uint32_t> ids;
  if (!id) {
    reading.problem = find_by_address(path, name.address, ids);
    if (reading.problem) return reading;
    if (ids.empty()) {
      reading.problem = path + ": no allocation of this trace holds the address " + hexadecimal(name.address) +
                        "; spillway stats --by allocation lists those that moved";
      return reading;
    }
    id = {ids.back()};
    ids.pop_back();
  }
  Storyteller teller(id);
  TraceVisitor visitor;
  visitor.opened = [&](const trace::TraceReader& reader) { teller.begin(reader.header()); };
  visitor.record = [&](const trace::Record& record) { teller.add(record); };
  visitor.finished = [&](const trace::TraceReader& reader) { teller.finish(reader); };
  reading.problem = read_trace(path, visitor);
  if (!reading.problem && !teller.story.found) {
    const std::string& state = teller.story.completeness;
    reading.problem = path + ": this trace has no allocation " + std::to_string(id.value) +
                      (state == "whole" ? "" : " (" + state + ")") +
                      "; spillway stats --by allocation lists those that moved";
  }
  reading.story = std::move(teller.story);
  reading.story.others = std::move(ids);
  return reading;
}

}  // namespace spillway::tools
