#include "tools/run_page_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

namespace spillway::tools {

using policy::Bytes;
using policy::RunPage;

namespace {

// The writer is done within microseconds, unless it was stopped or killed in the middle.
constexpr int kMostTries = 100;
constexpr std::chrono::milliseconds kBetweenTries{1};

// By read calls, never by a mapping: a page that is cut while we look gives less, instead of a signal.
bool read_at(int descriptor, void* into, std::size_t bytes, std::size_t offset) {
  ssize_t got = 0;
  do {
    got = ::pread(descriptor, into, bytes, static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(bytes);
}

template <std::size_t Size>
std::string text_of(const policy::PageText<Size>& text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

TopDevice device_of(const policy::RunPageDevice& row) {
  TopDevice device;
  device.device = row.device;
  device.name = text_of(row.name);
  device.budget = Bytes(row.budget);
  device.plain = Bytes(row.plain);
  device.reserved = Bytes(row.reserved);
  device.managed = Bytes(row.managed);
  device.resident = Bytes(row.resident);
  device.on_host = Bytes(row.on_host);
  device.resident_peak = Bytes(row.resident_peak);
  device.moved_in = Bytes(row.moved_in);
  device.moved_out = Bytes(row.moved_out);
  device.in_per_second = row.in_per_second;
  device.out_per_second = row.out_per_second;
  return device;
}

std::string no_iteration(const std::string& mode) {
  return mode == "adaptive" ? "no iteration found yet" : "mode " + mode + " looks for no iterations";
}

}  // namespace

RunPageReader::~RunPageReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::string> RunPageReader::open(const std::string& path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) return "its page cannot be opened (" + std::string(std::strerror(errno)) + ")";
  RunPage page;
  constexpr std::size_t kHead = offsetof(RunPage, sequence);
  struct stat status {};
  const bool whole = ::fstat(descriptor_, &status) == 0 && status.st_size >= static_cast<off_t>(kHead);
  if (!whole || !read_at(descriptor_, &page, kHead, 0) || page.magic != policy::kRunPageMagic)
    return "what it shows of itself is no page of Spillway's";
  const bool fits = page.size == sizeof(RunPage) && status.st_size == static_cast<off_t>(sizeof(RunPage));
  if (page.version == policy::kRunPageVersion && !fits) return "its page is damaged";
  if (page.version != policy::kRunPageVersion) {
    return "its page has version " + std::to_string(page.version) + ", this command reads " +
           std::to_string(policy::kRunPageVersion) + ": use the command that came with the library in the process";
  }
  return std::nullopt;
}

std::optional<RunPage> RunPageReader::read() const {
  constexpr std::size_t kSequence = offsetof(RunPage, sequence);
  for (int tries = 0; tries < kMostTries; ++tries) {
    RunPage page;
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    // Each is a call of the kernel's, and they are made in this order.
    if (!read_at(descriptor_, &before, sizeof before, kSequence)) return std::nullopt;
    if (!read_at(descriptor_, &page, sizeof page, 0)) return std::nullopt;
    if (!read_at(descriptor_, &after, sizeof after, kSequence)) return std::nullopt;
    if (before == after && before != 0 && before % 2 == 0) return page;
    std::this_thread::sleep_for(kBetweenTries);
  }
  return std::nullopt;
}

TopFrame frame_of(const RunPage& page, bool running, std::size_t top) {
  TopFrame frame;
  frame.program = text_of(page.program);
  frame.host = text_of(page.host);
  frame.rank = text_of(page.rank);
  frame.pid = page.pid;
  const std::string end = text_of(page.ended_by);
  frame.ended = !end.empty();
  frame.state = frame.ended ? "ended by " + end : running ? "running" : "killed";
  frame.time = policy::Nanoseconds(page.time);
  if (!frame.ended) frame.quiet_seconds = std::max<std::int64_t>(page.time - page.last_event, 0) / 1'000'000'000;
  frame.launches = page.launches;
  frame.launches_per_second = page.launches_per_second;
  frame.iteration = page.iteration;
  if (page.iteration != 0 && page.launches >= page.iteration_began)
    frame.iteration_launches = page.launches - page.iteration_began;
  frame.iteration_took = policy::Nanoseconds(page.iteration_took);
  frame.no_iteration = no_iteration(text_of(page.mode));
  frame.no_budget = text_of(page.mode) == "off" ? "none (off)" : "not known yet";
  const std::size_t devices = std::min<std::size_t>(page.device_count, page.devices.size());
  for (std::size_t i = 0; i < devices; ++i) frame.devices.push_back(device_of(page.devices[i]));
  const std::size_t allocations = std::min({top, std::size_t{page.allocation_count}, page.allocations.size()});
  for (std::size_t i = 0; i < allocations; ++i) {
    const policy::RunPageAllocation& row = page.allocations[i];
    frame.allocations.push_back({row.allocation, Bytes(row.bytes), Bytes(row.in_hbm), Bytes(row.on_host),
                                 Bytes(row.crossed), row.span_class, text_of(row.caller)});
  }
  if (frame.ended) take_rates_of_whole_run(frame);
  return frame;
}

}  // namespace spillway::tools
