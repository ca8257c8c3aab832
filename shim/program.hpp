// Who we are in: the facts about the process that a trace's header and its name hold. Read once, from files of /proc
// and the launcher's environment.
#pragma once

#include <span>
#include <string>

#include "policy/settings.hpp"
#include "policy/trace/header.hpp"

namespace spillway::shim {

// CUDA version of the driver, "13.0"; empty if it does not say.
std::string driver_version();

policy::trace::TraceHeader describe_program(const policy::Settings& settings, const std::string& policy_file,
                                            std::span<const policy::trace::RuleSeen> rules);

}  // namespace spillway::shim
