// Writes the traces that the browser tests open: make_traces FOLDER EVENTS.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "policy/trace/frame_builder.hpp"
#include "policy/trace/header.hpp"
#include "tests/support/long_trace.hpp"
#include "tests/support/sample_trace.hpp"

namespace {

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// Every name in it would like to be part of the page.
std::vector<std::byte> hostile_trace() {
  using namespace spillway::policy;
  using namespace spillway::policy::trace;
  const std::string name = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!-- \xff\x01 ' \"";
  TraceHeader header;
  header.program = header.host = header.rank = header.start = name;
  header.arguments = {name, name};
  header.settings = {{name, name}};
  std::vector<std::byte> file = encode_file_start(encode_header(header));
  FrameBuilder builder;
  static_cast<void>(builder.add({{}, DeviceSeen{{0}, {}, 1_GiB, 1_GiB, true, name}}));
  static_cast<void>(builder.add({{}, CallerSeen{{1}, name}}));
  static_cast<void>(builder.add({{}, FunctionSeen{{1}, name}}));
  static_cast<void>(builder.add({{}, AllocationRequested{{1}, {0}, 8_MiB, AllocationKind::linear, {1}, {}, false}}));
  static_cast<void>(builder.add({{}, AllocationSettled{{1}, {0x7f0000000000}, 8_MiB, Backing::managed, {}}}));
  static_cast<void>(builder.add({{}, LaunchShapeSeen{{1}, {1}, 32, {{0, {0x7f0000000000}}}}}));
  static_cast<void>(builder.add({Nanoseconds(500'000), Launched{{1}, {0}}}));
  static_cast<void>(builder.add(Nanoseconds(1'000'000), Decision{{1}, {}, Note{{}, {}, {}, name}}));
  static_cast<void>(builder.add(Nanoseconds(1'000'000), Decision{{2}, {}, Note{{1}, {}, {}, name}}));
  const auto frame = builder.finish();
  file.insert(file.end(), frame->begin(), frame->end());
  return file;
}

// As in mode demand: bytes moved, and no decision asked for them.
std::vector<std::byte> faulted_trace() {
  using namespace spillway::policy;
  using namespace spillway::policy::trace;
  std::vector<std::byte> file = encode_file_start(encode_header({}));
  FrameBuilder builder;
  static_cast<void>(builder.add({{}, DeviceSeen{{0}, {}, 1_GiB, 1_GiB, true, "A device"}}));
  static_cast<void>(builder.add({Nanoseconds(500'000), Launched{{1}, {0}}}));
  const auto records = builder.finish();
  file.insert(file.end(), records->begin(), records->end());
  TraceEnd end;
  end.reason = "exit";
  end.devices.emplace_back();
  end.devices.front().totals.moved_in = 24_MiB;
  const std::string text = encode_end(end);
  FrameContents contents;
  contents.kind = FrameKind::end;
  const FrameBytes frame = builder.encoder().encode(std::as_bytes(std::span(text)), contents);
  file.insert(file.end(), frame.begin(), frame.end());
  return file;
}

// A program that loads for eight seconds before it first launches anything, and runs for two.
std::vector<std::byte> late_trace() {
  using namespace spillway::policy;
  using namespace spillway::policy::trace;
  std::vector<std::byte> file = encode_file_start(encode_header({}));
  FrameBuilder builder;
  const auto put = [&file](const std::optional<FrameBytes>& frame) {
    if (frame) file.insert(file.end(), frame->begin(), frame->end());
  };
  put(builder.add({{}, DeviceSeen{{0}, {}, 1_GiB, 1_GiB, true, "A device"}}));
  for (std::int64_t i = 0; i <= 200; ++i)
    put(builder.add({Nanoseconds(8'000'000'000 + i * 10'000'000), Launched{{1}, {0}}}));
  put(builder.finish());
  return file;
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
  write_file(folder + "/hostile.swt", hostile_trace());
  write_file(folder + "/late.swt", late_trace());
  write_file(folder + "/faulted.swt", faulted_trace());
  // Three ranks; the last one was killed. By name, 10 comes before 2.
  std::filesystem::create_directories(folder + "/ranks");
  for (const char* const rank : {"0", "2", "10"}) {
    write_file(folder + "/ranks/run." + rank + ".swt", sample_trace({rank, std::string_view(rank) != "10"}));
  }
  LongTrace options;
  options.events = std::strtoull(arguments[2], nullptr, 10);
  std::ofstream file(folder + "/long.swt", std::ios::binary);
  const std::uint64_t records = write_long_trace(options, [&](std::span<const std::byte> bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  std::printf("%llu records\n", static_cast<unsigned long long>(records));
  return file.flush() ? 0 : 1;
}
