// The name of a trace file: %p pid, %t start time, %h host, %r rank, %% a percent sign. Pure.
#pragma once

#include <string>
#include <string_view>

namespace spillway::shim {

// What the placeholders stand for. The shim's settings file reads them from the process and its environment.
struct TraceNames {
  std::string pid;
  std::string start;  // sortable and without colons: "20260102T030405"
  std::string host;
  std::string rank;  // of OMPI_COMM_WORLD_RANK, RANK, SLURM_PROCID or PMI_RANK; empty becomes "0"
};

// Slashes and control characters in the names become '_', so that a name cannot leave its folder. An unknown
// placeholder stays as it is.
std::string expand_trace_path(std::string_view pattern, const TraceNames& names);

}  // namespace spillway::shim
