// Trace files from disk, in pieces: whatever the size of the file, one frame is in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "policy/trace/trace_reader.hpp"

namespace spillway::tools {

// Who is told what while a trace is read. Any may be empty.
struct TraceVisitor {
  std::function<void(const policy::trace::TraceReader&)> opened;  // the header is known
  std::function<void(const policy::trace::Record&)> record;
  std::function<void(const policy::trace::TraceReader&)> finished;  // at the end: header, report and end
  // At the end of what there is of a file that may still be written: true to look again, false to stop. Empty: stop.
  std::function<bool()> wait_for_more;
  // False ends the reading early, as if the file ended here. Asked every now and then. Empty: never.
  std::function<bool()> wants_more;
};

// Feeds every record of the file at `path` to the visitor. Says nothing on stderr but a progress line for long files,
// where stderr is a terminal.
// Returns what is wrong with a file that cannot be read at all: one sentence with path, offset and remedy.
std::optional<std::string> read_trace(const std::string& path, const TraceVisitor& visitor);
std::optional<std::string> read_trace(const std::string& path,
                                      const std::function<void(const policy::trace::Record&)>& record,
                                      const std::function<void(const policy::trace::TraceReader&)>& finished);

// The traces meant by the arguments: a file is itself; a folder is the *.swt files in it (with numbered ones, *.swt.1),
// sorted by name. A problem is one sentence.
struct TraceList {
  std::vector<std::string> paths;
  std::vector<std::string> problems;
};
TraceList list_traces(const std::vector<std::string>& arguments);

// The one trace that an argument means: a file, or the only one in a folder. `path` becomes its path.
std::optional<std::string> one_trace(std::string& path);

// "whole", or what is wrong with it, with the offset.
std::string completeness(const policy::trace::TraceReader& reader);
// The file was full: what came later is counted in it, not written (trace.max_size).
bool reached_max_size(const policy::trace::TraceReader& reader);
// Of a trace without an end whose program runs no more: "killed, or its disk was full".
std::string why_no_end(const policy::trace::TraceReader& reader);
// The line for somebody who reads a result and not that: "a.swt: exported as far as it goes: cut at byte 90". Empty for
// a whole trace.
std::string as_far_as_it_goes(const std::string& path, const char* done, const std::string& completeness);

}  // namespace spillway::tools
