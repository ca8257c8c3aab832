// For tests of policy files: what a reading complains of, as a person gets it, and a rule to complain of.
#pragma once

#include <string>
#include <vector>

#include "policy/policy_file.hpp"

// One rule with everything it needs but what the mistake is about.
#define RULE(match, rest) "[[rule]]\nname = \"r\"\nmatch = " match "\n" rest "\n"

namespace spillway::policy {

inline std::vector<std::string> sentences(const PolicyFileReading& reading) {
  std::vector<std::string> out;
  for (const PolicyMistake& mistake : reading.mistakes) out.push_back(mistake.sentence());
  return out;
}

}  // namespace spillway::policy
