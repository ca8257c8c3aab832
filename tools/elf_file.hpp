// What the loader would see of an ELF file, read by ourselves and without trust: damaged files give a `problem`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway::tools {

struct ElfFile {
  bool is_elf = false;
  bool is_64_bit = false;
  std::uint16_t machine = 0;           // EM_X86_64 ...
  bool is_dynamic = false;             // has a dynamic section
  std::string interpreter;             // PT_INTERP; empty if none
  std::string script_interpreter;      // of a "#!" line, when this is a script
  std::string script_argument;         // its one argument
  std::string highest_glibc;           // "2.34": what the file needs of the C library; empty if nothing
  std::optional<std::string> problem;  // cannot be opened or read, or is cut
};

ElfFile read_elf(const std::string& path);

// The name of an ELF machine number, for messages.
std::string machine_name(std::uint16_t machine);
// What this program was built for.
std::uint16_t own_machine();

}  // namespace spillway::tools
