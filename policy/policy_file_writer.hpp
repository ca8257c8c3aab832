// A policy file as text that a person can read and change: what `plan` writes, and what read_policy_file gives back.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "policy/policy_file.hpp"

namespace spillway::policy {

struct PolicyFileComments {
  std::string_view title;              // above everything; may have several lines
  std::span<const std::string> rules;  // why each rule is there, above it; may be shorter than the rules
};

// Settings that have their default are written as comments, so that the file says what could be set.
// read_policy_file gives an equal PolicyFile for it, if the rules are what that could have read.
std::string write_policy_file(const PolicyFile& file, const PolicyFileComments& comments);

}  // namespace spillway::policy
