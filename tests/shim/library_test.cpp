// The built file: what it needs, what it shows, and how little it asks of the loader.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <sstream>
#include <string>

#include "shim/hook.hpp"

namespace {

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(command.c_str(), "r");
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) text.push_back(static_cast<char>(c));
  if (pipe != nullptr) pclose(pipe);
  return text;
}

std::set<std::string> words_of(const std::string& command) {
  std::istringstream stream(output_of(command));
  std::set<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

const std::string kFile = SPILLWAY_LIBRARY;

TEST(Library, NeedsTheCLibraryOnly) {
  const auto needed = words_of("readelf -dW " + kFile + " | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p'");
  ASSERT_FALSE(needed.empty());
  const std::set<std::string> family{"libc.so.6",
                                     "libm.so.6",
                                     "libdl.so.2",
                                     "libpthread.so.0",
                                     "librt.so.1",
                                     "ld-linux-x86-64.so.2",
                                     "ld-linux-aarch64.so.1"};
  for (const std::string& library : needed) EXPECT_TRUE(family.contains(library)) << library;
}

TEST(Library, ExportsTheHookListsAndDlsym) {
  std::set<std::string> expected{
      "dlsym",
#define CUPTI_HOOK(symbol) #symbol,
#include "shim/cupti_hook_list.def"
  };
  for (const auto& row : spillway::shim::kHooks) expected.insert(row.symbol);
  // Without version; the names of the version nodes themselves are absolute symbols.
  EXPECT_EQ(words_of("nm -D --defined-only " + kFile + " | awk '$2 != \"A\" {sub(/@.*/, \"\", $3); print $3}'"),
            expected);
}

// README states the floor: glibc 2.35.
TEST(Library, KeepsTheStatedGlibcFloor) {
  const auto versions = words_of("readelf -VW " + kFile + " | grep -o 'GLIBC_[A-Za-z0-9.]*' | sort -u");
  ASSERT_FALSE(versions.empty());
  for (const std::string& version : versions) {
    EXPECT_NE(version, "GLIBC_PRIVATE");
    int major = 0;
    int minor = 0;
    if (std::sscanf(version.c_str(), "GLIBC_%d.%d", &major, &minor) == 2) {
      EXPECT_LE(major * 1000 + minor, 2035) << version;
    }
  }
}

TEST(Library, AsksForNoStaticTlsAndLittleOfTheOther) {
  EXPECT_EQ(output_of("readelf -dW " + kFile + " | grep STATIC_TLS"), "");
  const std::string bytes = output_of("readelf -lW " + kFile + " | awk '$1 == \"TLS\" {print $6}'");
  EXPECT_LE(bytes.empty() ? 0 : std::stoul(bytes, nullptr, 16), 512U);
}

TEST(Library, StaysAndBindsAtOnce) {
  const std::string dynamic = output_of("readelf -dW " + kFile);
  EXPECT_NE(dynamic.find("NODELETE"), std::string::npos);
  EXPECT_NE(dynamic.find("NOW"), std::string::npos);
}

TEST(Library, RunsNextToNothingWhenLoaded) {
  // Nine of the C++ run-time and the compiler's own, one that notes the launch path's empty destructor, and one that
  // notes which file standard error is.
  const std::string size = output_of("readelf -SW " + kFile + " | awk '/ .init_array/ {print $(NF-5)}'");
  ASSERT_FALSE(size.empty());
  EXPECT_LE(std::stoul(size, nullptr, 16), 11U * 8) << "a global of ours has a constructor";
}

}  // namespace
