#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "shim/library.hpp"

namespace spillway::shim {
namespace {

// The loader's own answer.
Library by_dladdr(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) == 0 ? Library{} : Library{info.dli_fbase, info.dli_fname};
}

TEST(Caller, IsWhatTheLoaderSays) {
  const void* const in_a_library = reinterpret_cast<const void*>(&std::abort);
  const void* const in_the_program = reinterpret_cast<const void*>(&by_dladdr);
  for (const void* address :
       {dlsym(RTLD_DEFAULT, "strtol"), const_cast<void*>(in_a_library), const_cast<void*>(in_the_program)}) {
    const Library found = library_at(address);
    EXPECT_NE(found.base, nullptr);
    EXPECT_EQ(found.base, by_dladdr(address).base) << found.path;
    EXPECT_EQ(found.path, by_dladdr(address).path);
  }
}

TEST(Caller, IsUnknownOutsideOfAllCode) {
  EXPECT_EQ(library_at(nullptr).base, nullptr);
  EXPECT_EQ(library_at(std::getenv("PATH")).base, nullptr);
}

}  // namespace
}  // namespace spillway::shim
