// Where the run's settings come from: the policy file that SPILLWAY_POLICY names, then the environment over it.
// `spillway run` has checked both; a bare preload has not, so every mistake is said here, once, and costs only itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/cost_table.hpp"
#include "policy/rule.hpp"
#include "policy/settings.hpp"

namespace spillway::shim {

struct RunSettings {
  policy::Settings settings;
  std::vector<policy::Rule> rules;
  std::string policy_file;                 // that they come from; empty if there is none, or it has mistakes
  std::optional<policy::CostTable> costs;  // as probed (cost_source.hpp); nothing: the built-in ones
};

RunSettings read_settings();

}  // namespace spillway::shim
