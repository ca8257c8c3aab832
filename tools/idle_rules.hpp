// What a policy file without mistakes says in vain: rules that never act and settings that contradict each other, as
// far as the file alone tells.
#pragma once

#include <string>
#include <vector>

#include "policy/policy_file.hpp"

namespace spillway::tools {

// A sentence each, with the rule's name and line.
std::vector<std::string> said_in_vain(const policy::PolicyFile& file);

}  // namespace spillway::tools
