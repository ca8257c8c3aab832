#include "shim/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(Log, OnePlaceFallsSilentAfterSayingSo) {
  const auto [out, error] = captured([] {
    for (int i = 0; i < 100; ++i) SPILLWAY_LOG(info, "again {}", i);
  });
  EXPECT_NE(error.find("again 4"), std::string::npos);
  EXPECT_EQ(error.find("again 5"), std::string::npos);
  EXPECT_NE(error.find("not repeated"), std::string::npos);
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
