// Stands in for libspillway.so: says that it was loaded, in the file named by FAKE_MARK. On FAKE_TRACE it leaves a
// trace there, as the real one would.
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace {

[[gnu::constructor]] void loaded() {
  if (const char* mark = std::getenv("FAKE_MARK")) std::ofstream(mark, std::ios::app) << ::getpid() << "\n";
  const char* trace = std::getenv("FAKE_TRACE");
  const char* pattern = std::getenv("SPILLWAY_TRACE_PATH");
  if (trace == nullptr || pattern == nullptr) return;
  std::string path = pattern;
  if (const std::size_t at = path.find("%p"); at != std::string::npos) path.replace(at, 2, std::to_string(::getpid()));
  std::ifstream from(trace, std::ios::binary);
  std::ofstream(path, std::ios::binary) << std::string(std::istreambuf_iterator<char>(from), {});
}

}  // namespace
