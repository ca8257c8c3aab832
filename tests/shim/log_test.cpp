#include "shim/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace spillway::shim {
namespace {

// What goes to the two standard descriptors while `body` runs.
template <class Body>
std::pair<std::string, std::string> captured(const Body& body) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  remember_standard_error();
  body();
  std::string error = testing::internal::GetCapturedStderr();
  remember_standard_error();
  return {testing::internal::GetCapturedStdout(), error};
}

TEST(Log, GoesToStandardErrorOnly) {
  const auto [out, error] = captured([] { SPILLWAY_LOG(warning, "budget {} MiB", 12); });
  EXPECT_EQ(out, "");
  EXPECT_NE(error.find("warning: budget 12 MiB\n"), std::string::npos) << error;
  EXPECT_EQ(error.rfind("spillway[", 0), 0U) << error;
}

TEST(Log, BelowTheLevelNothingIsWritten) {
  const auto [out, error] = captured([] { SPILLWAY_LOG(debug, "not shown"); });
  EXPECT_EQ(error, "");
  set_log_level(LogLevel::off);
  EXPECT_EQ(captured([] { SPILLWAY_LOG(error, "not shown either"); }).second, "");
  set_log_level(LogLevel::info);
}

int lines(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

TEST(Log, AKindIsSaidOnceAndCountedAtTheEnd) {
  const auto [out, error] = captured([] {
    for (int i = 0; i < 100; ++i) SPILLWAY_LOG_ONCE(warning, "lost {} of them", i);
    SPILLWAY_LOG_ONCE(warning, "said {}", "once");
    log_left_out();
    log_left_out();
  });
  EXPECT_NE(error.find("warning: lost 0 of them\n"), std::string::npos) << error;
  EXPECT_NE(error.find("warning: 99 more like \"lost 0 of them\"\n"), std::string::npos) << error;
  EXPECT_EQ(lines(error), 3) << error;
}

TEST(Log, OnceASubject) {
  const auto [out, error] = captured([] {
    for (std::uint64_t i = 0; i < 12; ++i) SPILLWAY_LOG_FOR(info, i % 3, "device {}, try {}", i % 3, i);
    log_left_out();
  });
  for (const char* line :
       {"device 0, try 0\n", "device 1, try 1\n", "device 2, try 2\n", "9 more like \"device 0, try 0\""})
    EXPECT_NE(error.find(line), std::string::npos) << error;
  EXPECT_EQ(lines(error), 4) << error;
}

TEST(Log, OnceATextAndNotForEver) {
  const auto [out, error] = captured([] {
    for (int i = 0; i < 100; ++i) SPILLWAY_LOG(info, "again {}", i / 2);
    log_left_out();
  });
  EXPECT_NE(error.find("again 15\n"), std::string::npos) << error;
  EXPECT_EQ(error.find("again 16\n"), std::string::npos) << error;
  EXPECT_NE(error.find("84 more like \"again 0\""), std::string::npos) << error;
  EXPECT_EQ(lines(error), 17) << error;
}

TEST(Log, WhatIsBelowTheLevelIsNotCountedAloud) {
  const auto [out, error] = captured([] {
    for (int i = 0; i < 4; ++i) SPILLWAY_LOG_ONCE(info, "quiet {}", i);
    set_log_level(LogLevel::error);
    log_left_out();
  });
  set_log_level(LogLevel::info);
  EXPECT_EQ(lines(error), 1) << error;
}

TEST(Log, KeepsErrnoAndTakesOddText) {
  captured([] {
    errno = EDOM;
    SPILLWAY_LOG(info, "{}", "{} %s %n");
    EXPECT_EQ(errno, EDOM);
  });
}

TEST(Log, LevelsHaveNames) {
  EXPECT_TRUE(set_log_level("error"));
  EXPECT_EQ(log_level(), LogLevel::error);
  EXPECT_FALSE(set_log_level("loud"));
  EXPECT_EQ(log_level(), LogLevel::error);
  set_log_level(LogLevel::info);
}

TEST(Log, AClosedStandardErrorIsNoTrouble) {
  const int saved = dup(STDERR_FILENO);
  close(STDERR_FILENO);
  SPILLWAY_LOG(warning, "nobody hears this");
  dup2(saved, STDERR_FILENO);
  close(saved);
}

}  // namespace
}  // namespace spillway::shim
