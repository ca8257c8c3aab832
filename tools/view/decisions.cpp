#include "tools/view/decisions.hpp"

#include "policy/explain.hpp"

namespace spillway::tools::view {

using namespace policy;

void Decisions::add(Blocks& blocks, Nanoseconds time, const Decision& decision, const Allocations& allocations) {
  if (id_.rows() >= kMost) {
    ++left_out_;
    return;
  }
  const AllocationId about = policy::about(decision.body);
  const auto row = about ? allocations.row(about) : std::nullopt;
  id_.add(decision.id.value);
  time_.add(time.count());
  row_.add(row ? std::int64_t{*row} : -1);
  kind_.add(std::uint64_t{decision.body.index()});
  reason_.add(static_cast<std::uint32_t>(decision.cause.reason));
  launch_.add(decision.cause.launch.value);
  sentences_.push_back(explain(decision, rules_));
  if (sentences_.size() < kSentences) return;
  blocks_json_.push_back(blocks.add_texts(sentences_)["id"]);
  sentences_.clear();
}

Json Decisions::finish(Blocks& blocks) {
  if (!sentences_.empty()) blocks_json_.push_back(blocks.add_texts(sentences_)["id"]);
  Json json = blocks.add({{"id", &id_},
                          {"time", &time_},
                          {"allocation", &row_},
                          {"kind", &kind_},
                          {"reason", &reason_},
                          {"launch", &launch_}});
  json["sentences"] = blocks_json_;
  json["sentences_each"] = kSentences;
  json["left_out"] = left_out_;
  return json;
}

}  // namespace spillway::tools::view
