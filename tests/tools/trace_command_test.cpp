#include "tests/tools/trace_command_test.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace spillway::tools {

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

}  // namespace spillway::tools
