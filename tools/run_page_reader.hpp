// Reads the page that a process under Spillway keeps of itself in shared memory (policy/run_page.hpp).
#pragma once

#include <optional>
#include <string>

#include "policy/run_page.hpp"
#include "tools/top_frame.hpp"

namespace spillway::tools {

// Keeps the page open: it can be read when the process has gone, too.
class RunPageReader {
 public:
  RunPageReader() = default;
  ~RunPageReader();
  RunPageReader(const RunPageReader&) = delete;
  RunPageReader& operator=(const RunPageReader&) = delete;

  // A sentence about what is wrong; nothing if it is a page that we can read.
  [[nodiscard]] std::optional<std::string> open(const std::string& path);
  // Nothing while its writer is in the middle of it, for longer than a writer ever is.
  [[nodiscard]] std::optional<policy::RunPage> read() const;

 private:
  int descriptor_ = -1;
};

// With `top` allocations at most. `running`: whether the process is there.
[[nodiscard]] TopFrame frame_of(const policy::RunPage& page, bool running, std::size_t top);

}  // namespace spillway::tools
