// What both example programs share: checked CUDA calls, device tensors, flags, timing. Nothing here knows of anything
// but the CUDA runtime.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace program {

inline const char* name = "program";  // set by main; begins every message
inline std::size_t bytes_allocated = 0;

inline double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Ends the program with exit code 1 when a call failed.
inline void check(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  const char* slash = std::strrchr(file, '/');
  std::fprintf(stderr, "%s: %s:%d: %s: %s (%s)\n", name, slash == nullptr ? file : slash + 1, line, call,
               cudaGetErrorString(error), cudaGetErrorName(error));
  std::exit(1);
}
#define CHECK(call) ::program::check((call), #call, __FILE__, __LINE__)
// After a launch: its configuration errors. Errors of the kernel itself come with the next synchronizing call.
#define CHECK_LAUNCH() ::program::check(cudaGetLastError(), "kernel launch", __FILE__, __LINE__)

// One cudaMalloc, freed with the object. Moves, never copies.
template <class T>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::size_t count) : count_(count) {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes());
    if (error == cudaErrorMemoryAllocation) {
      std::fprintf(stderr, "%s: out of memory: %.1f MiB asked for with %.1f MiB allocated before\n", name,
                   mebibytes(bytes()), mebibytes(bytes_allocated));
      std::exit(1);
    }
    CHECK(error);
    data_ = static_cast<T*>(memory);
    bytes_allocated += bytes();
  }
  Tensor(Tensor&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Tensor() {
    if (data_ != nullptr) cudaFree(data_);  // at exit there is nobody left to tell
  }
  T* get() const { return data_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  void zero() { CHECK(cudaMemset(data_, 0, bytes())); }
  void upload(const std::vector<T>& host) {
    CHECK(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> download() const { return download(count_); }
  std::vector<T> download(std::size_t count) const {
    std::vector<T> host(count);
    CHECK(cudaMemcpy(host.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Flags "--name value" or "--name=value", each a whole number within a range, or a file's name. A mistake is one line
// and exit code 2.
class Flags {
 public:
  explicit Flags(const char* purpose) : purpose_(purpose) {}

  void number(const char* flag, long long* value, long long least, long long most, const char* help) {
    rows_.push_back({flag, value, nullptr, least, most, help});
  }
  void text(const char* flag, std::string* value, const char* help) {
    rows_.push_back({flag, nullptr, value, 0, 0, help});
  }

  void parse(int argc, char** argv) const {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--help") == 0) print_help();
      const std::string word = argv[i];
      const std::size_t equals = std::min(word.find('='), word.size());
      const std::string flag = word.substr(0, equals);
      const Row* row = find(flag.c_str());
      if (row == nullptr) fail("%s is no flag of this program; see --help", flag.c_str());
      if (equals == word.size() && ++i == argc) fail("%s needs a value; see --help", flag.c_str());
      const std::string value = equals == word.size() ? argv[i] : word.substr(equals + 1);
      if (row->text == nullptr) {
        set_number(*row, value.c_str());
      } else if (value.empty()) {
        fail("%s needs the name of a file; see --help", row->flag);
      } else {
        *row->text = value;
      }
    }
  }

  template <class... Arguments>
  [[noreturn]] static void fail(const char* format, Arguments... arguments) {
    std::fprintf(stderr, "%s: ", name);
    std::fprintf(stderr, format, arguments...);
    std::fprintf(stderr, "\n");
    std::exit(2);
  }

 private:
  struct Row {
    const char* flag;
    long long* number;
    std::string* text;
    long long least, most;
    const char* help;
  };

  const Row* find(const char* flag) const {
    for (const Row& row : rows_) {
      if (std::strcmp(row.flag, flag) == 0) return &row;
    }
    return nullptr;
  }

  static void set_number(const Row& row, const char* value) {
    char* end = nullptr;
    const long long parsed = std::strtoll(value, &end, 10);
    if (end == value || *end != '\0' || parsed < row.least || parsed > row.most) {
      fail("%s %s is not a whole number from %lld to %lld", row.flag, value, row.least, row.most);
    }
    *row.number = parsed;
  }

  [[noreturn]] void print_help() const {
    std::printf("%s: %s\n", name, purpose_);
    for (const Row& row : rows_) {
      if (row.number != nullptr)
        std::printf("  %-16s %s (%lld to %lld; default %lld)\n", row.flag, row.help, row.least, row.most, *row.number);
      else
        std::printf("  %-16s %s\n", row.flag, row.help);
    }
    std::printf("Exit code: 0 verified, 1 out of memory, a CUDA error or a mismatch, 2 a bad flag.\n");
    std::exit(0);
  }

  const char* purpose_;
  std::vector<Row> rows_;
};

// A file that a flag names, opened before the program's work so that a place that cannot be written is told at once,
// and closed with what went wrong: exit code 2 and 1. Without a name it is not wanted.
class OutputFile {
 public:
  OutputFile(const char* flag, const std::string& path) : flag_(flag), path_(path) {
    if (path.empty()) return;
    file_ = std::fopen(path.c_str(), "w");
    if (file_ == nullptr) {
      Flags::fail("%s %s cannot be written (%s); name another file", flag, path.c_str(), std::strerror(errno));
    }
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() { close(); }

  [[nodiscard]] bool wanted() const { return file_ != nullptr; }
  [[nodiscard]] std::FILE* get() const { return file_; }
  void close() {
    if (file_ == nullptr) return;
    std::FILE* file = std::exchange(file_, nullptr);
    const bool written = std::ferror(file) == 0;
    if (std::fclose(file) == 0 && written) return;
    std::fprintf(stderr, "%s: %s %s could not be written to its end (%s); name another file\n", name, flag_,
                 path_.c_str(), std::strerror(errno));
    std::exit(1);
  }

 private:
  const char* flag_;
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace program
