// Decisions in words, for people: what was done and why.
#pragma once

#include <string>
#include <string_view>

#include "policy/decision.hpp"

namespace spillway::policy {

// "because the window has no room left"
std::string reason_text(Reason reason);

// Why, with what counted: "because it is worth least of what is in HBM (optimizer, 0 us saved per iteration and MiB)".
std::string explain(const Cause& cause);

// One sentence: "32 MiB at offset 64 MiB of allocation 7 go to the host, in the background, because ..."
std::string explain(const Decision& decision);

}  // namespace spillway::policy
