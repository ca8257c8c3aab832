// Writes recordings again in today's version of the format, in place, and prints what a launch takes in each:
// `golden_rewrite tests/golden/traces/*.swt`. With --dry-run it only prints.
#include <cstdio>
#include <exception>
#include <fstream>
#include <string_view>

#include "tests/golden/golden.hpp"
#include "tests/golden/rewrite.hpp"

int main(int argc, char** argv) {
  using namespace spillway::golden;
  const bool dry = argc > 1 && std::string_view(argv[1]) == "--dry-run";
  const int first = dry ? 2 : 1;
  if (argc <= first) return std::fputs("usage: golden_rewrite [--dry-run] TRACE...\n", stderr), 2;
  for (int i = first; i < argc; ++i) {
    try {
      const std::vector<std::byte> before = bytes_of(argv[i]);
      const Rewritten now = rewrite(before);
      if (!now.whole) throw std::runtime_error("it is cut or damaged: record it again");
      const auto launches = static_cast<double>(now.launches);
      std::printf("%s: %zu bytes, %.2f a launch; now %zu, %.2f\n", argv[i], before.size(),
                  static_cast<double>(before.size()) / launches, now.file.size(),
                  static_cast<double>(now.file.size()) / launches);
      if (dry) continue;
      std::ofstream stream(argv[i], std::ios::binary);
      stream.write(reinterpret_cast<const char*>(now.file.data()), static_cast<std::streamsize>(now.file.size()));
      if (!stream.flush()) throw std::runtime_error("it cannot be written: is the disk full?");
    } catch (const std::exception& problem) {
      return std::fprintf(stderr, "golden_rewrite: %s: %s\n", argv[i], problem.what()), 1;
    }
  }
  return 0;
}
