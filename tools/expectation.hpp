// What `spillway plan` expects of the next run: the time of a step under a budget, by a replay.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "policy/units.hpp"
#include "tools/replay.hpp"

namespace spillway::tools {

// Figures are of one iteration, as the replay found it; of one launch if it found none. A step of the program may be
// several iterations, or a part of one: `iteration_launches` against the launches of a step says which.
struct Expectation {
  std::uint64_t iteration_launches = 0;  // 0: none was found
  double units_measured = 0;             // iterations, or launches, that the figures are the mean of
  double seconds = 0;
  double compute_seconds = 0;  // what of it would remain if all fitted
  double crossed_bytes = 0;
  double least_seconds = 0;  // no placement can do better
  double least_bytes = 0;
  policy::Bytes budget;
  policy::Bytes resident_peak;
  bool fits = true;
};

Expectation expect_of(const NamedReplay& replay);

// One line for a person.
std::string expectation_text(const Expectation& expected);
nlohmann::ordered_json expectation_json(const Expectation& expected);

}  // namespace spillway::tools
