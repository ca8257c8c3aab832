// Writes the traces that the browser tests open: make_traces FOLDER EVENTS.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/long_trace.hpp"
#include "tests/support/sample_trace.hpp"

namespace {

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int count, char** arguments) {
  using namespace spillway::tests;
  if (count != 3) {
    std::fprintf(stderr, "usage: make_traces FOLDER EVENTS\n");
    return 2;
  }
  const std::string folder = arguments[1];
  const std::vector<std::byte> sample = sample_trace();
  write_file(folder + "/sample.swt", sample);
  // Cut inside a frame, and with a byte of the middle turned over.
  write_file(folder + "/cut.swt", std::span(sample).first(sample.size() * 2 / 3));
  std::vector<std::byte> damaged = sample;
  damaged[damaged.size() / 2] ^= std::byte{0x40};
  write_file(folder + "/damaged.swt", damaged);
  LongTrace options;
  options.events = std::strtoull(arguments[2], nullptr, 10);
  std::ofstream file(folder + "/long.swt", std::ios::binary);
  const std::uint64_t records = write_long_trace(options, [&](std::span<const std::byte> bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  std::printf("%llu records\n", static_cast<unsigned long long>(records));
  return file.flush() ? 0 : 1;
}
