// Every __global__ function in kernels/ and examples/ has a host twin, under the very name that the built programs
// register with the CUDA runtime; and no twin is left over from a kernel that is gone.
#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "tests/kernels/launch.hpp"

namespace spillway::kernels {
namespace {

std::set<std::string> twin_names() {
  const HostTwin* first = nullptr;
  const std::size_t count = spillway_host_twins(&first);
  std::set<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.insert(first[i].name);
  EXPECT_EQ(names.size(), count) << "two twins of one name";
  return names;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// "adam_step" of "_ZN8workload9adam_step..."; plain names stay.
std::string base_name(const std::string& mangled) {
  if (mangled.rfind("_ZN", 0) != 0) return mangled;
  std::size_t at = 3;
  std::string last;
  while (at < mangled.size() && std::isdigit(static_cast<unsigned char>(mangled[at])) != 0) {
    std::size_t digits = 0;
    const std::size_t length = std::stoul(mangled.substr(at), &digits);
    last = mangled.substr(at + digits, length);
    at += digits + length;
  }
  return last;
}

// Names of the kernels defined in a source text. (No std::regex: g++ 12 warns inside it under the sanitizers.)
void collect_kernels(const std::string& text, std::set<std::string>& names) {
  static const std::string kMark = "__global__ void ";
  for (std::size_t at = 0; (at = text.find(kMark, at)) != std::string::npos;) {
    at += kMark.size();
    std::size_t end = at;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
    names.insert(text.substr(at, end - at));
  }
}

std::set<std::string> kernels_in_sources() {
  std::set<std::string> names;
  for (const char* folder : {"kernels", "examples"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(SPILLWAY_SOURCE_DIR) / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".cu" && extension != ".cuh") continue;
      collect_kernels(read_file(entry.path()), names);
    }
  }
  return names;
}

TEST(TwinNames, EveryKernelInTheSourcesHasOneAndNoneIsLeftOver) {
  std::set<std::string> twins;
  for (const std::string& name : twin_names()) twins.insert(base_name(name));
  EXPECT_EQ(kernels_in_sources(), twins);
}

#ifdef SPILLWAY_EXAMPLE_PROGRAMS
// Read-only data of a built program: the names it registers are there as text (the device code is in a section of its
// own).
std::string read_only_data(const std::string& file) {
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof header);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, names;
    std::memcpy(&section, file.data() + header.e_shoff + i * sizeof section, sizeof section);
    std::memcpy(&names, file.data() + header.e_shoff + header.e_shstrndx * sizeof names, sizeof names);
    if (std::strcmp(file.data() + names.sh_offset + section.sh_name, ".rodata") == 0)
      return file.substr(section.sh_offset, section.sh_size);
  }
  return {};
}

TEST(TwinNames, BuiltProgramsRegisterThem) {
  const std::set<std::string> twins = twin_names();
  std::istringstream programs(SPILLWAY_EXAMPLE_PROGRAMS);
  std::size_t checked = 0;
  for (std::string program; std::getline(programs, program, ':');) {
    const std::string data = read_only_data(read_file(program));
    std::size_t found = 0;
    for (std::size_t at = 0; (at = data.find("_Z", at)) != std::string::npos; ++at) {
      if (at != 0 && data[at - 1] != '\0') continue;  // the middle of another text
      const std::string name = data.c_str() + at;
      EXPECT_TRUE(twins.contains(name)) << program << " registers " << name << ", which has no twin";
      ++found;
    }
    EXPECT_GT(found, 5U) << program;
    ++checked;
  }
  EXPECT_EQ(checked, 2U);
}
#endif

}  // namespace
}  // namespace spillway::kernels
