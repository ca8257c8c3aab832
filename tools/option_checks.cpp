#include "tools/option_checks.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "policy/settings.hpp"

namespace spillway::tools {
namespace {

// Empty where the text is a number within, and nothing else.
template <class Number>
std::string judged(const std::string& text, Number least, Number most, const char* kind, const std::string& range) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string remedy = std::string("; write a ") + kind + " from " + range;
  const bool none = value != value;  // "nan" is read as one
  if (error == std::errc::invalid_argument || end != text.data() + text.size() || none)
    return policy::quoted(text) + " is no " + kind + remedy;
  if (error == std::errc() && value >= least && value <= most) return {};
  // Of what is beyond the type from_chars tells no more than that.
  const bool below = std::strtod(text.c_str(), nullptr) < static_cast<double>(least);
  return policy::quoted(text) + " is too " + (below ? "small" : "large") + remedy;
}

std::string shortest(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

}  // namespace

CLI::Validator whole_number_within(long least, long most) {
  return {[least, most](const std::string& text) {
            return judged(text, least, most, "whole number", std::to_string(least) + " to " + std::to_string(most));
          },
          ""};
}

CLI::Validator number_within(double least, double most) {
  return {[least, most](const std::string& text) {
            return judged(text, least, most, "number", shortest(least) + " to " + shortest(most));
          },
          ""};
}

CLI::Validator names_file() {
  return {[](const std::string& text) {
            return text.empty() ? policy::quoted(text) + " names no file; write a name behind the flag" : std::string();
          },
          ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  return {[words = std::move(words)](const std::string& text) {
            std::string listed;
            for (const std::string& word : words) {
              if (word == text) return std::string();
              listed += (listed.empty() ? "" : ", ") + word;
            }
            const auto near = policy::nearest(text, std::vector<std::string_view>(words.begin(), words.end()));
            return policy::quoted(text) + " is not one of: " + listed +
                   (near ? "; did you mean " + std::string(*near) + "?" : "; write one of them");
          },
          ""};
}

}  // namespace spillway::tools
