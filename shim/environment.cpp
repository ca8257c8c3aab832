#include "shim/environment.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace spillway::shim {

const char* read_environment(const char* name) { return secure_getenv(name); }

std::vector<std::string_view> environment_names() {
  std::vector<std::string_view> names;
  if (environ == nullptr || ::getauxval(AT_SECURE) != 0) return names;
  for (char** entry = environ; *entry != nullptr; ++entry) names.emplace_back(*entry, std::strcspn(*entry, "="));
  return names;
}

}  // namespace spillway::shim
