// Mistakes in a policy file, collected: none stops the search for the next.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/settings.hpp"
#include "policy/toml_document.hpp"

namespace spillway::policy {

struct PolicyMistake {
  TextPosition at;
  SettingProblem problem;  // place: `training.toml:3:17: memory.window`
  [[nodiscard]] std::string sentence() const { return problem.sentence(); }
};

class MistakeList {
 public:
  // `file_name` is only for the messages.
  explicit MistakeList(std::string_view file_name) : file_name_(file_name) {}

  // `subject` is the key or rule, empty if it is the text itself; `problem` without a place.
  void add(TextPosition at, std::string_view subject, SettingProblem problem);

  [[nodiscard]] bool empty() const { return mistakes_.empty(); }
  // In the order of the text.
  [[nodiscard]] std::vector<PolicyMistake> sorted() const;

 private:
  std::string file_name_;
  std::vector<PolicyMistake> mistakes_;
};

// "did you mean "window"?", or the list of what is known if nothing is near.
std::string suggestion(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace spillway::policy
