// The page about every setting and every key of a rule, from the tables that the reader itself uses.
#pragma once

#include <string>

namespace spillway::policy {

// docs/policy_reference.md, as `spillway check --reference` prints it. A test keeps the two equal.
std::string policy_reference();

}  // namespace spillway::policy
