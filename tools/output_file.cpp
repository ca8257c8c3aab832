#include "tools/output_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "policy/settings.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

std::optional<std::string> replaces_input(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code error;  // a file that is not there is nobody's
    if (std::filesystem::equivalent(output, input, error)) return output + ": is the trace itself; name another file";
  }
  return std::nullopt;
}

std::string cannot_be_written(const std::string& output, const std::string& problem) {
  const std::string folder = std::filesystem::path(output).parent_path().string();
  std::error_code error;
  const bool missing = !folder.empty() && !std::filesystem::exists(folder, error);
  return output + ": cannot be written: " + problem + "; " +
         (missing ? "create the folder " + folder : std::string("make room")) + ", or name another place";
}

std::string written_line(const std::string& output, const std::string& what) {
  if (output == "-") return {};
  std::error_code error;
  const auto size = std::filesystem::file_size(output, error);
  return harmless(output) + ": " + (error ? "" : policy::format_bytes(policy::Bytes(size)) + ", ") + what + "\n";
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

std::string OutputFile::reserve(const std::string& path) {
  path_ = path;
  partial_ = path + ".part" + std::to_string(::getpid());
  ::unlink(partial_.c_str());
  return partial_;
}

std::optional<std::string> OutputFile::open(const std::string& path) {
  if (path == "-") {
    file_ = stdout;
    return std::nullopt;
  }
  struct stat status {};
  // To rename over a device or a pipe would be to take it away.
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return S_ISDIR(status.st_mode) ? "is a folder" : "is no regular file";
  file_ = std::fopen(reserve(path).c_str(), "wbx");
  if (file_ != nullptr) return std::nullopt;
  partial_.clear();
  return std::string(std::strerror(errno));
}

void OutputFile::write(std::string_view bytes) {
  if (error_ != 0 || bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) error_ = errno != 0 ? errno : EIO;
}

std::optional<std::string> OutputFile::finish() {
  if (file_ == stdout) return std::nullopt;  // main looks after it
  if (std::FILE* const file = std::exchange(file_, nullptr); file != nullptr && std::fclose(file) != 0 && error_ == 0) {
    error_ = errno;
  }
  if (error_ == 0 && std::rename(partial_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ != 0) return std::string(std::strerror(error_));
  partial_.clear();
  return std::nullopt;
}

}  // namespace spillway::tools
