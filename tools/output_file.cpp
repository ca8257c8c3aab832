#include "tools/output_file.hpp"

#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include "policy/settings.hpp"
#include "tools/regular_file.hpp"
#include "tools/text_table.hpp"

namespace spillway::tools {

std::optional<std::string> replaces_input(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code error;  // a file that is not there is nobody's
    if (std::filesystem::equivalent(output, input, error)) return output + ": is the trace itself; name another file";
  }
  return std::nullopt;
}

std::optional<std::string> replaces_foreign(const std::string& output, const FileMark& mark,
                                            const std::string& is_not) {
  std::error_code error;  // what cannot be looked at is left to open()
  if (output == "-" || !std::filesystem::is_regular_file(output, error)) return std::nullopt;
  std::string why;
  const auto begin = read_regular(output, mark.latest + mark.bytes.size(), why);
  if (begin && (begin->empty() || begin->find(mark.bytes, mark.earliest) != std::string::npos)) return std::nullopt;
  return output + ": exists, and " + is_not + "; name another file with -o, or remove this one";
}

KeptFile keep_old(const std::string& output, std::string_view text) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (output == "-" || !fs::is_regular_file(output, error)) return {};
  std::string why;
  const auto there = read_regular(output, text.size() + 1, why);
  if (there && (there->empty() || *there == text)) return {};
  std::string name = output + ".old";
  for (int number = 1; fs::exists(fs::symlink_status(name, error)); ++number)
    name = output + "." + std::to_string(number) + ".old";
  if (fs::copy_file(output, name, error)) return {name, std::nullopt};
  return {"", output + ": would be replaced, and cannot be kept as " + name + ": " + error.message() +
                  "; name another file with -o"};
}

std::string cannot_be_written(const std::string& output, const std::string& problem) {
  const auto is = [&problem](std::initializer_list<int> errors) {
    return std::any_of(errors.begin(), errors.end(), [&](int error) { return problem == std::strerror(error); });
  };
  const std::string folder = std::filesystem::path(output).parent_path().string();
  std::error_code error;
  std::string remedy = "name another place";
  if (is({ENOENT}) && !folder.empty() && !std::filesystem::exists(folder, error)) {
    remedy = "create the folder " + folder + ", or name another place";
  } else if (is({ENOSPC, EDQUOT, EFBIG})) {
    remedy = "make room, or name another place";
  } else if (is({EACCES, EPERM, EROFS})) {
    remedy = "name a place where you may write";
  } else if (problem == kIsFolder) {
    remedy = "name a file in it";
  }
  return output + ": cannot be written: " + problem + "; " + remedy;
}

std::string in_place_of(const std::string& output) {
  std::error_code error;
  const bool replaced = output != "-" && std::filesystem::is_regular_file(output, error) &&
                        std::filesystem::file_size(output, error) > 0 && !error;
  return replaced ? ", in place of an earlier one" : "";
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

std::optional<std::string> OutputFile::open(const std::string& path) {
  if (path == "-") {
    file_ = stdout;
    return std::nullopt;
  }
  struct stat status {};
  // To rename over a device or a pipe would be to take it away.
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return S_ISDIR(status.st_mode) ? kIsFolder : "is no regular file";
  // Nor is a link taken away: what it leads to is replaced.
  std::error_code error;
  path_ = path;
  if (std::filesystem::is_symlink(path, error)) path_ = std::filesystem::canonical(path, error).string();
  if (path_.empty() && !path.empty()) return "is a link that leads nowhere";
  partial_ = path_ + ".part" + std::to_string(::getpid());
  ::unlink(partial_.c_str());
  file_ = std::fopen(partial_.c_str(), "wbx");
  if (file_ != nullptr) return std::nullopt;
  partial_.clear();
  return std::string(std::strerror(errno));
}

std::optional<std::string> OutputFile::reserve(const std::string& path) {
  if (auto problem = open(path)) return problem;
  std::fclose(std::exchange(file_, nullptr));
  return std::nullopt;
}

void OutputFile::write(std::string_view bytes) {
  if (error_ != 0 || bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) error_ = errno != 0 ? errno : EIO;
}

std::optional<std::string> OutputFile::finish() {
  if (file_ == stdout) {
    if (error_ == 0) return std::nullopt;  // main looks after what is not written yet
    // The reason is known here only: main is not to ask again. A reader that has gone away is no problem.
    ::__fpurge(stdout);
    std::clearerr(stdout);
    return error_ == EPIPE ? std::nullopt : std::optional(std::string(std::strerror(error_)));
  }
  if (std::FILE* const file = std::exchange(file_, nullptr); file != nullptr && std::fclose(file) != 0 && error_ == 0) {
    error_ = errno;
  }
  if (error_ == 0 && std::rename(partial_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ != 0) return std::string(std::strerror(error_));
  partial_.clear();
  return std::nullopt;
}

}  // namespace spillway::tools
