// A file that is there whole or not at all: written under another name beside it, and renamed at the end. A link is
// followed.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::tools {

// What to complain of if writing to `output` would replace one of the files that are read; nothing if it would not.
std::optional<std::string> replaces_input(const std::string& output, const std::vector<std::string>& inputs);

// How files of one kind are known: these bytes begin no earlier and no later than that in them.
struct FileMark {
  std::string_view bytes;
  std::size_t earliest = 0;
  std::size_t latest = 0;
};

// What to complain of if a file that is not of the kind would be lost; `is_not` says what it is not. Empty files are
// nobody's, and what is no regular file is left to open().
std::optional<std::string> replaces_foreign(const std::string& output, const FileMark& mark, const std::string& is_not);

// Where something else than `text` is in the file that will be replaced, copies it to "FILE.old", or "FILE.1.old" and
// so on where that is taken.
struct KeptFile {
  std::string name;                    // empty: nothing had to be kept
  std::optional<std::string> problem;  // a sentence with the remedy
};
KeptFile keep_old(const std::string& output, std::string_view text);

// What to complain of once open() or finish() has said `problem`, with the remedy.
std::string cannot_be_written(const std::string& output, const std::string& problem);

// ", in place of an earlier one" if there is a file that will be replaced; asked before it is.
std::string in_place_of(const std::string& output);

// "run.pftrace: 1.2 MiB, iterations 3 to 9\n", of a file that was written; nothing for standard output.
std::string written_line(const std::string& output, const std::string& what);

class OutputFile {
 public:
  OutputFile() = default;
  ~OutputFile();  // what was not finished is removed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // "-" is standard output. The problem is a reason without the file's name.
  std::optional<std::string> open(const std::string& path);
  // As open(), but no "-", for who writes by other means: an empty file of the name partial() is there, and nothing is
  // open.
  std::optional<std::string> reserve(const std::string& path);
  [[nodiscard]] const std::string& partial() const { return partial_; }
  void write(std::string_view bytes);
  [[nodiscard]] bool failed() const { return error_ != 0; }
  std::optional<std::string> finish();

 private:
  std::string path_;
  std::string partial_;
  std::FILE* file_ = nullptr;
  int error_ = 0;
};

}  // namespace spillway::tools
