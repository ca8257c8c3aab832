// One trace file on disk: never another's, never overwritten, given up rather than a nuisance.
//
// Belongs to the writer thread. No exceptions; a problem is a sentence with the path and the reason.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace spillway::shim {

class TraceFile {
 public:
  TraceFile() = default;
  ~TraceFile() { close(); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Creates `path`; where "a.swt" exists, "a.1.swt", "a.2.swt" and so on (the number last if it ends otherwise). A
  // character device (/dev/null) is written as it is, a folder is refused. The descriptor is a high one, out of the way
  // of programs that count on low numbers, and closed on exec.
  [[nodiscard]] std::optional<std::string> open(const std::string& path);

  // Appends all of `bytes`. On a problem (a full disk) the file is cut back to what it held before, so that it stays
  // readable, and closed. Notices when the program has closed our descriptor and the number is something else now.
  [[nodiscard]] std::optional<std::string> append(std::span<const std::byte> bytes);

  void close();

  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  [[nodiscard]] bool still_ours() const;
  [[nodiscard]] std::string problem(const char* doing, int error) const;

  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::string path_;
  std::uint64_t size_ = 0;
};

}  // namespace spillway::shim
