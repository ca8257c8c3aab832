// For tests of commands that read traces: a folder of one's own, `spillway` run in it, and golden pages.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace spillway::tools {

class TraceCommandTest : public ::testing::Test {
 protected:
  TraceCommandTest();
  ~TraceCommandTest() override;

  // Writes the file; returns its name.
  std::string put(const std::string& name, const std::vector<std::byte>& bytes);
  [[nodiscard]] std::string text(const std::string& name) const;  // of a file in the folder
  tests::ProcessResult spillway(std::vector<std::string> arguments, tests::ProcessOptions options = {});
  // Refresh with SPILLWAY_REFRESH_GOLDEN=1; the change is reviewed as a diff.
  static void expect_golden(const std::string& name, const std::string& text);

  std::filesystem::path folder_;
};

}  // namespace spillway::tools
