// The page of `spillway top`: an anonymous file in memory that this process writes and others may read.
//
// Off where the system gives none; nothing depends on it. Its descriptor is a high one, closed on exec and in the child
// of a fork; the memory is not the child's at all. It is sealed to its size, so nobody can cut it under us, and written
// only here. One thread at a time.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "policy/run_page.hpp"
#include "policy/settings.hpp"
#include "policy/trace/header.hpp"

namespace spillway::shim {

// Cuts, and ends with a zero.
void put_text(std::span<char> into, std::string_view text);

class RunPageFile {
 public:
  RunPageFile() = default;
  ~RunPageFile();
  RunPageFile(const RunPageFile&) = delete;
  RunPageFile& operator=(const RunPageFile&) = delete;

  void open(const policy::trace::TraceHeader& about, const policy::Settings& settings);
  [[nodiscard]] bool on() const { return shared_ != nullptr; }
  // What the next `publish` shows. Magic, names and sequence are not the caller's to change.
  [[nodiscard]] policy::RunPage& page() { return page_; }
  void publish();
  void after_fork_in_child();

 private:
  [[nodiscard]] bool still_ours() const;

  policy::RunPage page_;
  policy::RunPage* shared_ = nullptr;
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// Rates over the last two seconds, or as much of them as there is.
class RunPageRates {
 public:
  // Sets the rates of the page from its totals and its time.
  void add(policy::RunPage& page);

 private:
  struct Sample {
    std::int64_t time = 0;
    std::uint64_t launches = 0;
    std::array<std::uint64_t, 16> in{}, out{};
  };
  static constexpr std::size_t kSamples = 9;  // a quarter of a second apart
  std::array<Sample, kSamples> samples_{};
  std::size_t count_ = 0;
};

}  // namespace spillway::shim
