#include "tools/probe_bench.hpp"

#include <algorithm>
#include <array>

namespace spillway::tools {
namespace {

constexpr unsigned kNonBlocking = 1;   // CU_STREAM_NON_BLOCKING
constexpr unsigned kAttachGlobal = 1;  // CU_MEM_ATTACH_GLOBAL
// No repetition begins after this; the longest takes well below the rest.
constexpr int kLatest = 12;  // seconds

}  // namespace

ProbeBench::ProbeBench(CudaDriver& driver, int device) : driver_(driver), device_(device), began_(driver.clock()) {
  driver_.check(driver_.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  driver_.check(driver_.context_set(context_), "cuCtxSetCurrent");
}

ProbeBench::~ProbeBench() {
  if (sink_ != 0) driver_.free(sink_);
  for (void* event : {begin_, end_}) {
    if (event != nullptr) driver_.event_destroy(event);
  }
  if (stream_ != nullptr) driver_.stream_destroy(stream_);
  if (module_ != nullptr) driver_.module_unload(module_);
  driver_.context_release(device_);
}

policy::Bytes ProbeBench::free_memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  driver_.check(driver_.memory_info(&free, &total), "cuMemGetInfo");
  return policy::Bytes(free);
}

void ProbeBench::load_kernels() {
  driver_.check(driver_.stream_create(&stream_, kNonBlocking), "cuStreamCreate");
  driver_.check(driver_.event_create(&begin_, 0), "cuEventCreate");
  driver_.check(driver_.event_create(&end_, 0), "cuEventCreate");
  driver_.check(driver_.module_load(&module_, kernels::calibration_image().data()), "cuModuleLoadData");
  driver_.check(driver_.allocate(&sink_, sizeof(std::uint64_t)), "cuMemAlloc");
}

double ProbeBench::seconds(const std::function<void()>& work) {
  throw_if_late();
  synchronize();
  driver_.check(driver_.event_record(begin_, stream_), "cuEventRecord");
  work();
  driver_.check(driver_.event_record(end_, stream_), "cuEventRecord");
  driver_.check(driver_.event_synchronize(end_), "cuEventSynchronize");
  float milliseconds = 0;
  driver_.check(driver_.event_elapsed(&milliseconds, begin_, end_), "cuEventElapsedTime");
  if (!(milliseconds > 0)) throw DriverFailure("cuEventElapsedTime says that no time has passed");
  return static_cast<double>(milliseconds) / 1e3;
}

double ProbeBench::median(const std::function<void()>& prepare, const std::function<void()>& work) {
  std::array<double, 3> times{};
  for (double& time : times) {
    prepare();
    time = seconds(work);
  }
  std::sort(times.begin(), times.end());
  return times[1];
}

void ProbeBench::synchronize() { driver_.check(driver_.stream_synchronize(stream_), "cuStreamSynchronize"); }

void ProbeBench::launch_named(const char* name, void** arguments, unsigned blocks) {
  void* function = nullptr;
  driver_.check(driver_.module_function(&function, module_, name), "cuModuleGetFunction");
  driver_.check(driver_.launch(function, blocks, 1, 1, kernels::kBlockThreads, 1, 1, 0, stream_, arguments, nullptr),
                "cuLaunchKernel");
}

void ProbeBench::prefetch(DeviceAddress address, policy::Bytes bytes, int where) {
  driver_.check(driver_.prefetch(address, bytes.count(), where, stream_), "cuMemPrefetchAsync");
}

void ProbeBench::advise(DeviceAddress address, policy::Bytes bytes, MemoryAdvice advice, int where) {
  driver_.check(driver_.advise(address, bytes.count(), static_cast<int>(advice), where), "cuMemAdvise");
}

void ProbeBench::throw_if_late() const {
  if (driver_.clock() - began_ > kLatest)
    throw DriverFailure("measuring took more than " + std::to_string(kLatest) + " s");
}

DeviceBlock::DeviceBlock(ProbeBench& bench, policy::Bytes bytes, Kind kind) : bench_(bench), bytes_(bytes) {
  const CudaDriver& driver = bench.driver();
  if (kind == Kind::plain) {
    driver.check(driver.allocate(&address_, bytes.count()), "cuMemAlloc");
  } else {
    driver.check(driver.allocate_managed(&address_, bytes.count(), kAttachGlobal), "cuMemAllocManaged");
  }
}

PinnedBlock::PinnedBlock(ProbeBench& bench, policy::Bytes bytes) : bench_(bench) {
  const CudaDriver& driver = bench.driver();
  driver.check(driver.allocate_host(&at_, bytes.count(), 0), "cuMemHostAlloc");
}

}  // namespace spillway::tools
