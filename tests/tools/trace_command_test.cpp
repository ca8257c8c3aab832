#include "tests/tools/trace_command_test.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "policy/trace/frame.hpp"
#include "tests/support/trace_maker.hpp"

namespace spillway::tools {

using ::testing::HasSubstr;

TraceCommandTest::TraceCommandTest() {
  std::string pattern = (std::filesystem::temp_directory_path() / "trace-command-test-XXXXXX").string();
  folder_ = ::mkdtemp(pattern.data());
}

TraceCommandTest::~TraceCommandTest() { std::filesystem::remove_all(folder_); }

std::string TraceCommandTest::put(const std::string& name, const std::vector<std::byte>& bytes) {
  std::ofstream file(folder_ / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return name;
}

std::string TraceCommandTest::text(const std::string& name) const {
  std::ifstream file(folder_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

tests::ProcessResult TraceCommandTest::spillway(std::vector<std::string> arguments, tests::ProcessOptions options) {
  arguments.insert(arguments.begin(), SPILLWAY_COMMAND);
  options.folder = folder_.string();
  return tests::run_process(arguments, options);
}

void TraceCommandTest::expect_golden(const std::string& name, const std::string& text) {
  const std::filesystem::path golden = std::filesystem::path(GOLDEN_FOLDER) / name;
  if (std::getenv("SPILLWAY_REFRESH_GOLDEN") != nullptr) std::ofstream(golden) << text;
  std::ifstream file(golden);
  EXPECT_EQ(text, std::string(std::istreambuf_iterator<char>(file), {})) << golden;
}

void TraceCommandTest::expect_bad_traces_named(const std::vector<std::string>& before,
                                               const std::vector<std::string>& after) {
  const auto complaint = [&](const std::string& name) {
    std::vector<std::string> arguments = before;
    arguments.push_back(name);
    arguments.insert(arguments.end(), after.begin(), after.end());
    const auto result = spillway(arguments);
    EXPECT_EQ(result.exit_code, 1) << name;
    EXPECT_EQ(result.out, "") << name;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(name));
    return result.err;
  };
  std::vector<std::byte> newer = tests::training_trace();
  newer[8] = std::byte{policy::trace::kVersion + 1};
  EXPECT_THAT(complaint(put("empty.swt", {})), HasSubstr("the file is empty"));
  EXPECT_THAT(complaint(put("foreign.swt", std::vector<std::byte>(100, std::byte{'x'}))),
              HasSubstr("not a Spillway trace"));
  EXPECT_THAT(complaint(put("newer.swt", newer)),
              HasSubstr("byte 8: the trace has format version " + std::to_string(policy::trace::kVersion + 1)));
  std::vector<std::byte> torn = tests::training_trace();
  torn.resize(100);
  EXPECT_THAT(complaint(put("torn.swt", torn)), HasSubstr("byte 20: too damaged to read"));
  EXPECT_THAT(complaint("missing.swt"), HasSubstr("No such file"));
  ::mkfifo((folder_ / "pipe.swt").c_str(), 0600);  // nobody writes to it
  EXPECT_THAT(complaint("pipe.swt"), HasSubstr("is no regular file"));
  std::filesystem::remove(folder_ / "pipe.swt");
  std::filesystem::create_directory(folder_ / "nothing");
  complaint("nothing");
}

}  // namespace spillway::tools
