#include "tools/probe.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "policy/settings.hpp"
#include "tools/machine.hpp"
#include "tools/probe_bench.hpp"

namespace spillway::tools {
namespace {

using kernels::StreamCopy;
using kernels::StreamRead;
using kernels::StreamWrite;
using policy::Bytes;
using policy::CostTable;
using policy::format_bytes;
using policy::kChunk;

constexpr int kConcurrentManagedAccess = 89;              // CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
constexpr Bytes kLargestBlock{std::uint64_t{512} << 20};  // of which two are alive at a time
constexpr Bytes kSmallestBlock = kChunk * 4;
constexpr std::uint64_t kMostCalls = 64;
constexpr int kLaunches = 1000;

const auto kNothing = [] {};

// One measurement each, in an order in which memory is where the next one wants it.
class Probe {
 public:
  Probe(ProbeBench& bench, Bytes block) : bench_(bench), block_(block) {}

  void measure(ProbeResult& result) {
    link_copies(result.figures);
    hbm_and_launch(result.costs);
    moves(result.costs);
    mapped(result);
    faults(result.costs);
    read_only(result.costs);
  }

 private:
  [[nodiscard]] double rate(double seconds, double times = 1) const {
    return times * static_cast<double>(block_.count()) / seconds;
  }
  void read(const DeviceBlock& block) { bench_.launch(StreamRead{block.address(), block.vectors(), bench_.sink()}); }
  void write(const DeviceBlock& block) { bench_.launch(StreamWrite{block.address(), block.vectors(), 1}); }
  void send(const DeviceBlock& block, int where) { bench_.prefetch(block.address(), block.bytes(), where); }
  [[nodiscard]] int own() const { return bench_.device(); }

  void link_copies(std::vector<ProbeFigure>& figures);
  void hbm_and_launch(CostTable& costs);
  void moves(CostTable& costs);
  void move_calls(const DeviceBlock& block, CostTable& costs);
  void mapped(ProbeResult& result);
  void faults(CostTable& costs);
  void read_only(CostTable& costs);

  ProbeBench& bench_;
  Bytes block_;
};

// What copies between pinned memory and the device reach: the link's limit.
void Probe::link_copies(std::vector<ProbeFigure>& figures) {
  CudaDriver& driver = bench_.driver();
  const PinnedBlock source(bench_, block_);
  const PinnedBlock target(bench_, block_);
  const DeviceBlock a(bench_, block_, DeviceBlock::Kind::plain);
  const DeviceBlock b(bench_, block_, DeviceBlock::Kind::plain);
  const auto in = [&] {
    driver.check(driver.copy_in(a.address(), source.at(), block_.count(), bench_.stream()), "cuMemcpyHtoDAsync");
  };
  const auto out = [&](void* stream) {
    driver.check(driver.copy_out(target.at(), b.address(), block_.count(), stream), "cuMemcpyDtoHAsync");
  };
  figures.push_back({"copy_in", "bytes/s", rate(bench_.median(kNothing, in)), "Pinned copy to the device."});
  figures.push_back({"copy_out", "bytes/s", rate(bench_.median(kNothing, [&] { out(bench_.stream()); })),
                     "Pinned copy to the host."});
  void* other = nullptr;
  void* began = nullptr;
  void* done = nullptr;
  driver.check(driver.stream_create(&other, 1), "cuStreamCreate");
  driver.check(driver.event_create(&began, 0), "cuEventCreate");
  driver.check(driver.event_create(&done, 0), "cuEventCreate");
  const double both = bench_.median(kNothing, [&] {
    driver.check(driver.event_record(began, bench_.stream()), "cuEventRecord");
    driver.check(driver.stream_wait(other, began, 0), "cuStreamWaitEvent");
    in();
    out(other);
    driver.check(driver.event_record(done, other), "cuEventRecord");
    driver.check(driver.stream_wait(bench_.stream(), done, 0), "cuStreamWaitEvent");
  });
  driver.event_destroy(done);
  driver.event_destroy(began);
  driver.stream_destroy(other);
  figures.push_back({"copy_both", "bytes/s", rate(both, 2), "Pinned copies both ways at once, summed."});
}

void Probe::hbm_and_launch(CostTable& costs) {
  const DeviceBlock block(bench_, block_, DeviceBlock::Kind::plain);
  write(block);
  // Several at a time, so that what a launch costs is hidden behind the one before.
  constexpr int kReads = 8;
  const double reads = bench_.median(kNothing, [&] {
    for (int i = 0; i < kReads; ++i) read(block);
  });
  costs.hbm = rate(reads, kReads);
  const double launches = bench_.median(kNothing, [&] {
    for (int i = 0; i < kLaunches; ++i) bench_.launch(StreamRead{block.address(), 0, bench_.sink()}, 1);
  });
  costs.launch = launches / kLaunches;
}

void Probe::moves(CostTable& costs) {
  std::array<double, 3> populate{};
  std::array<double, 3> first_out{};
  for (std::size_t i = 0; i < populate.size(); ++i) {
    const DeviceBlock block(bench_, block_, DeviceBlock::Kind::managed);
    populate[i] = bench_.seconds([&] { send(block, own()); });
    first_out[i] = bench_.seconds([&] { send(block, kCpuDevice); });
    if (i + 1 < populate.size()) continue;
    const double in = bench_.median([&] { send(block, kCpuDevice); }, [&] { send(block, own()); });
    const double out = bench_.median([&] { send(block, own()); }, [&] { send(block, kCpuDevice); });
    costs.move_in = rate(in);
    costs.move_out = rate(out);
    costs.stream_dirty = rate(in + out);
    move_calls(block, costs);
  }
  std::sort(populate.begin(), populate.end());
  std::sort(first_out.begin(), first_out.end());
  costs.populate = rate(populate[1]);
  costs.move_out_first = rate(first_out[1]);
}

// In calls of a chunk, and what that tells of the size that is worth its call.
void Probe::move_calls(const DeviceBlock& block, CostTable& costs) {
  const std::uint64_t calls = std::min(kMostCalls, block.bytes().count() / kChunk.count());
  const double time = bench_.median([&] { send(block, kCpuDevice); },
                                    [&] {
                                      for (std::uint64_t i = 0; i < calls; ++i)
                                        bench_.prefetch(block.address() + i * kChunk.count(), kChunk, own());
                                    });
  costs.move_call = time / static_cast<double>(calls);
  const auto chunk = static_cast<double>(kChunk.count());
  // rate = move_in / (1 + half / size)
  costs.move_in_half_batch = std::max(1.0, chunk * (costs.move_in * costs.move_call / chunk - 1));
}

void Probe::mapped(ProbeResult& result) {
  const DeviceBlock block(bench_, block_, DeviceBlock::Kind::managed);
  send(block, own());
  send(block, kCpuDevice);
  const double advice =
      bench_.seconds([&] { bench_.advise(block.address(), block.bytes(), MemoryAdvice::set_accessed_by, own()); });
  result.figures.push_back({"map_chunk", "s",
                            advice * static_cast<double>(kChunk.count()) / static_cast<double>(block_.count()),
                            "Advice that maps 2 MiB of host pages."});
  result.costs.link_in = rate(bench_.median(kNothing, [&] { read(block); }));
  result.costs.link_out = rate(bench_.median(kNothing, [&] { write(block); }));
  const double both = bench_.median(kNothing, [&] {
    bench_.launch(StreamCopy{block.address(), block.address(), block.vectors()});
  });
  result.costs.link_both = rate(both, 2);
}

// The preferred location is left alone, so that a fault brings the page in.
void Probe::faults(CostTable& costs) {
  {
    const DeviceBlock block(bench_, block_, DeviceBlock::Kind::managed);
    send(block, own());
    costs.fault_in = rate(bench_.median([&] { send(block, kCpuDevice); }, [&] { read(block); }));
  }
  const DeviceBlock block(bench_, block_, DeviceBlock::Kind::managed);
  costs.fault_first_touch = rate(bench_.seconds([&] { write(block); }));
}

// Bring in a copy and drop it again, as read-only streaming would.
void Probe::read_only(CostTable& costs) {
  const DeviceBlock block(bench_, block_, DeviceBlock::Kind::managed);
  const auto advise = [&](MemoryAdvice advice, int where) {
    bench_.advise(block.address(), block.bytes(), advice, where);
  };
  const auto drop = [&] {
    advise(MemoryAdvice::unset_read_mostly, own());
    advise(MemoryAdvice::set_read_mostly, own());
  };
  send(block, own());
  send(block, kCpuDevice);
  bench_.synchronize();
  advise(MemoryAdvice::set_preferred, kCpuDevice);
  advise(MemoryAdvice::set_read_mostly, own());
  const double in = bench_.median(
      [&] {
        bench_.synchronize();
        drop();
      },
      [&] { send(block, own()); });
  const double dropping = bench_.median(
      [&] {
        send(block, own());
        bench_.synchronize();
      },
      drop);
  costs.drop_read_only = rate(dropping);
  costs.stream_read_only = rate(in + dropping);
}

// What may be used, or why nothing may be.
std::optional<Bytes> block_size(Bytes free, bool simulated, std::string& problem) {
  const Bytes allowed = std::min(kMostMemory, Bytes(free.count() / 4));
  const Bytes block = kChunk * (std::min(kLargestBlock, Bytes(allowed.count() / 2)).count() / kChunk.count());
  if (block < kSmallestBlock) {
    problem = "the probe needs " + format_bytes(kSmallestBlock * 8) + " of free device memory, of which it uses a " +
              "quarter, and " + format_bytes(free) + " are free: " +
              (simulated ? "raise SPILLWAY_SIMULATED_MEMORY, to 256MiB say" : "end other programs on the card");
    return std::nullopt;
  }
  const Bytes host(std::min(available_host_memory(), cgroup_memory_limit() != 0 ? cgroup_memory_limit() : UINT64_MAX));
  if (host < block * 4) {
    problem = format_bytes(host) + " of host memory are available; the probe needs " + format_bytes(block * 4) +
              ": free some, or raise the container's limit";
    return std::nullopt;
  }
  return block;
}

policy::ProbedDevice describe(CudaDriver& driver, int device) {
  std::array<char, 256> name{};
  std::array<std::uint8_t, 16> uuid{};
  int version = 0;
  driver.check(driver.device_name(name.data(), static_cast<int>(name.size()) - 1, device), "cuDeviceGetName");
  driver.check(driver.device_uuid(uuid.data(), device), "cuDeviceGetUuid");
  driver.check(driver.driver_version(&version), "cuDriverGetVersion");
  return {policy::uuid_text(uuid), name.data(), version_text(version)};
}

}  // namespace

std::optional<ProbeResult> probe_device(CudaDriver& driver, int index, std::string& problem) try {
  if (kernels::calibration_image().empty()) {
    problem =
        "this spillway was built without the CUDA toolkit and has no kernels to measure with; use a build with it";
    return std::nullopt;
  }
  driver.check(driver.init(0), "cuInit");
  int count = 0;
  driver.check(driver.device_count(&count), "cuDeviceGetCount");
  if (index < 0 || index >= count) {
    problem = "there is no device " + std::to_string(index) + ": the driver shows " + std::to_string(count) +
              "; see --device and CUDA_VISIBLE_DEVICES";
    return std::nullopt;
  }
  int device = 0;
  int concurrent = 0;
  driver.check(driver.device_get(&device, index), "cuDeviceGet");
  driver.check(driver.device_attribute(&concurrent, kConcurrentManagedAccess, device), "cuDeviceGetAttribute");
  ProbeResult result;
  result.device = describe(driver, device);
  result.simulated = driver.simulated();
  if (concurrent == 0) {
    problem =
        result.device.name + " has no concurrent managed access: nothing spills there, so there is nothing to measure";
    return std::nullopt;
  }
  ProbeBench bench(driver, device);
  const std::optional<Bytes> block = block_size(bench.free_memory(), driver.simulated(), problem);
  if (!block) return std::nullopt;
  bench.load_kernels();
  result.used = *block * 2;
  Probe(bench, *block).measure(result);
  for (const policy::CostRow& row : policy::cost_rows()) {
    if (policy::possible_cost(row, result.costs.*row.field)) continue;
    problem = std::string(row.key) + " came out as " + policy::cost_text(result.costs.*row.field) + " " +
              std::string(row.unit) + ", which cannot be; is the card busy? Try again when it is idle";
    return std::nullopt;
  }
  return result;
} catch (const DriverFailure& failure) {
  problem = std::string(failure.what()) + "; is the card busy, or out of memory? Try again when it is idle";
  return std::nullopt;
}

}  // namespace spillway::tools
