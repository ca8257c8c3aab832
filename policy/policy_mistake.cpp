#include "policy/policy_mistake.hpp"

#include <algorithm>

namespace spillway::policy {

void MistakeList::add(TextPosition at, std::string_view subject, SettingProblem problem) {
  problem.place = file_name_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
  if (!subject.empty()) problem.place += ": " + std::string(subject);
  mistakes_.push_back({at, std::move(problem)});
}

std::vector<PolicyMistake> MistakeList::sorted() const {
  std::vector<PolicyMistake> out = mistakes_;
  std::stable_sort(out.begin(), out.end(), [](const PolicyMistake& a, const PolicyMistake& b) { return a.at < b.at; });
  return out;
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& known) {
  if (const auto guess = nearest(word, known)) return "did you mean " + quoted(*guess) + "?";
  std::string out = "write one of: ";
  for (std::size_t i = 0; i < known.size(); ++i) out += (i == 0 ? "" : ", ") + std::string(known[i]);
  return out;
}

}  // namespace spillway::policy
