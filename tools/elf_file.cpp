#include "tools/elf_file.hpp"

#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace spillway::tools {
namespace {

constexpr std::size_t kLongestName = 4096;
constexpr std::size_t kMostEntries = 4096;  // of anything counted in the file: more is damage

// Reads a structure at an offset; false past the end.
class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path, std::ios::binary) {}
  [[nodiscard]] bool good() const { return file_.is_open(); }
  template <class Struct>
  bool at(std::uint64_t offset, Struct& value) {
    return bytes(offset, reinterpret_cast<char*>(&value), sizeof value) == sizeof value;
  }
  std::size_t bytes(std::uint64_t offset, char* place, std::size_t size) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset & 0x7FFFFFFFFFFFFFFFU));
    file_.read(place, static_cast<std::streamsize>(size));
    return file_.gcount() > 0 ? static_cast<std::size_t>(file_.gcount()) : 0;
  }
  std::string text(std::uint64_t offset, std::size_t longest) {
    std::string text(longest, '\0');
    text.resize(bytes(offset, text.data(), longest));
    return text.substr(0, text.find('\0'));
  }

 private:
  std::ifstream file_;
};

void read_script_line(Reader& reader, ElfFile& file) {
  std::string line = reader.text(2, 256);  // the kernel reads no more than 256 bytes either
  line = line.substr(0, line.find('\n'));
  const std::size_t start = line.find_first_not_of(" \t");
  if (start == std::string::npos) return;
  const std::size_t end = line.find_first_of(" \t\r", start);
  file.script_interpreter = line.substr(start, end - start);
  if (end == std::string::npos) return;
  const std::size_t argument = line.find_first_not_of(" \t", end);
  if (argument != std::string::npos && line[argument] != '\r') {
    file.script_argument = line.substr(argument, line.find_last_not_of(" \t\r") + 1 - argument);
  }
}

bool version_less(const std::string& a, const std::string& b) {
  int a_major = 0, a_minor = 0, b_major = 0, b_minor = 0;
  std::sscanf(a.c_str(), "%d.%d", &a_major, &a_minor);
  std::sscanf(b.c_str(), "%d.%d", &b_major, &b_minor);
  return a_major != b_major ? a_major < b_major : a_minor < b_minor;
}

// The highest GLIBC_x.y among the versions needed.
void read_needed_versions(Reader& reader, const Elf64_Ehdr& header, ElfFile& file) {
  for (std::size_t i = 0; i < header.e_shnum && i < kMostEntries; ++i) {
    Elf64_Shdr section{};
    Elf64_Shdr strings{};
    if (!reader.at(header.e_shoff + i * header.e_shentsize, section)) return;
    if (section.sh_type != SHT_GNU_verneed) continue;
    if (!reader.at(header.e_shoff + std::uint64_t{section.sh_link} * header.e_shentsize, strings)) return;
    std::uint64_t at = section.sh_offset;
    for (std::size_t n = 0; n < section.sh_info && n < kMostEntries; ++n) {
      Elf64_Verneed need{};
      if (!reader.at(at, need)) return;
      std::uint64_t entry = at + need.vn_aux;
      for (std::size_t k = 0; k < need.vn_cnt && k < kMostEntries; ++k) {
        Elf64_Vernaux version{};
        if (!reader.at(entry, version)) return;
        const std::string name = reader.text(strings.sh_offset + version.vna_name, 64);
        if (name.starts_with("GLIBC_2.") && version_less(file.highest_glibc, name.substr(6))) {
          file.highest_glibc = name.substr(6);
        }
        if (version.vna_next == 0) break;
        entry += version.vna_next;
      }
      if (need.vn_next == 0) break;
      at += need.vn_next;
    }
  }
}

void read_segments(Reader& reader, const Elf64_Ehdr& header, ElfFile& file) {
  for (std::size_t i = 0; i < header.e_phnum && i < kMostEntries; ++i) {
    Elf64_Phdr segment{};
    if (!reader.at(header.e_phoff + i * header.e_phentsize, segment)) {
      file.problem = "is cut: it ends inside its program headers";
      return;
    }
    if (segment.p_type == PT_DYNAMIC) file.is_dynamic = true;
    if (segment.p_type == PT_INTERP) {
      file.interpreter = reader.text(segment.p_offset, std::min<std::uint64_t>(segment.p_filesz, kLongestName));
    }
  }
}

}  // namespace

ElfFile read_elf(const std::string& path) {
  ElfFile file;
  Reader reader(path);
  if (!reader.good()) {
    file.problem = std::string("cannot be read: ") + std::strerror(errno);
    return file;
  }
  unsigned char ident[EI_NIDENT] = {};
  const std::size_t got = reader.bytes(0, reinterpret_cast<char*>(ident), sizeof ident);
  if (got >= 2 && ident[0] == '#' && ident[1] == '!') {
    read_script_line(reader, file);
    return file;
  }
  file.is_elf = got == sizeof ident && std::memcmp(ident, ELFMAG, SELFMAG) == 0;
  if (!file.is_elf) return file;
  file.is_64_bit = ident[EI_CLASS] == ELFCLASS64;
  Elf64_Ehdr header{};  // machine is at the same place in both classes
  if (!reader.at(0, header)) {
    file.problem = "is cut: it ends inside its ELF header";
    return file;
  }
  file.machine = header.e_machine;
  if (!file.is_64_bit || ident[EI_DATA] != ELFDATA2LSB) return file;
  read_segments(reader, header, file);
  if (!file.problem) read_needed_versions(reader, header, file);
  return file;
}

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "x86 (32-bit)";
    case EM_X86_64:
      return "x86-64";
    case EM_ARM:
      return "ARM (32-bit)";
    case EM_AARCH64:
      return "aarch64";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "RISC-V";
    default:
      return "machine " + std::to_string(machine);
  }
}

std::uint16_t own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
#error "Spillway serves x86-64 and aarch64"
#endif
}

}  // namespace spillway::tools
