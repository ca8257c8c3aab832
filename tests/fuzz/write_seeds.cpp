// Writes the trace fuzzer's seed corpus into a folder: `write_seeds tests/fuzz/corpus/trace`, when the format changes.
#include <cstdio>
#include <fstream>
#include <string>

#include "policy/trace/frame.hpp"
#include "policy/trace/record_codec.hpp"
#include "tests/support/random_events.hpp"
#include "tests/support/sample_trace.hpp"

namespace {

using spillway::tests::SampleOptions;

void write(const std::string& path, std::vector<std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// Records without a file around them.
std::vector<std::byte> bare_records() {
  namespace trace = spillway::policy::trace;
  spillway::tests::RandomEvents random(3);
  std::vector<std::byte> bytes;
  std::vector<std::byte> place(trace::kMaximumRecordBytes);
  const auto add = [&](const auto& body) {
    const std::size_t size = trace::encode_record(place.data(), 7, body);
    if (size < 1000) bytes.insert(bytes.end(), place.begin(), place.begin() + static_cast<std::ptrdiff_t>(size));
  };
  for (std::size_t i = 0; i < std::variant_size_v<spillway::policy::EventBody>; ++i) add(random.event_body(i));
  for (std::size_t i = 0; i < std::variant_size_v<spillway::policy::DecisionBody>; ++i) add(random.decision(i));
  return bytes;
}

// The payload of a packed frame with nothing around it, after a byte that says how many 64 raw bytes it holds.
std::vector<std::byte> bare_packed() {
  namespace trace = spillway::policy::trace;
  std::vector<std::byte> records = bare_records();
  spillway::policy::EventBody launch = spillway::policy::Launched{{4}, {7}};
  while (records.size() % 64 != 0 || records.size() < 4096) {
    std::vector<std::byte> place(trace::kMaximumRecordBytes);
    const std::size_t room = 64 - records.size() % 64;
    if (room == 8) launch = spillway::policy::TimePassed{};
    const std::size_t size = trace::encode_record(place.data(), 9, launch);
    records.insert(records.end(), place.begin(), place.begin() + static_cast<std::ptrdiff_t>(size));
  }
  trace::FramePacker packer(1);
  std::vector<std::byte> bytes = packer.pack(records, 7);
  bytes.insert(bytes.begin(), static_cast<std::byte>(records.size() / 64 - 1));
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: write_seeds FOLDER\n", stderr), 2;
  const std::string folder = std::string(argv[1]) + "/";
  write(folder + "whole", spillway::tests::sample_trace());
  write(folder + "stored", spillway::tests::sample_trace({"", true, 512, 0}));
  std::vector<std::byte> cut = spillway::tests::sample_trace({"3", false, 1024, 1});
  cut.resize(cut.size() - 20);
  write(folder + "cut", cut);
  std::vector<std::byte> newer = spillway::tests::sample_trace();
  newer[8] = std::byte{spillway::policy::trace::kVersion + 1};
  write(folder + "newer", newer);
  write(folder + "bare_records", bare_records());
  write(folder + "bare_packed", bare_packed());
  return 0;
}
