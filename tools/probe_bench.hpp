// What `probe` measures with: a context on one device, a stream, a clock made of events, and memory that is given back.
//
// Every failure is a DriverFailure. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "kernels/calibration.hpp"
#include "policy/units.hpp"
#include "tools/cuda_driver.hpp"

namespace spillway::tools {

class ProbeBench {
 public:
  ProbeBench(CudaDriver& driver, int device);
  ~ProbeBench();
  ProbeBench(const ProbeBench&) = delete;
  ProbeBench& operator=(const ProbeBench&) = delete;

  [[nodiscard]] CudaDriver& driver() const { return driver_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] DeviceAddress sink() const { return sink_; }
  [[nodiscard]] policy::Bytes free_memory() const;
  void load_kernels();

  // Seconds from before `work` to the end of all that it put into the stream, what it waited for inside calls included.
  double seconds(const std::function<void()>& work);
  // The median of three; `prepare` comes before each and is not counted. Throws when the time is up.
  double median(const std::function<void()>& prepare, const std::function<void()>& work);
  void synchronize();

  template <class Kernel>
  void launch(Kernel kernel, unsigned blocks = kBlocks) {
    auto arguments = kernel.arguments();
    launch_named(Kernel::kName, arguments.data(), blocks);
  }
  void prefetch(DeviceAddress address, policy::Bytes bytes, int where);
  void advise(DeviceAddress address, policy::Bytes bytes, MemoryAdvice advice, int where);

 private:
  static constexpr unsigned kBlocks = 2048;  // enough to fill any card
  void launch_named(const char* name, void** arguments, unsigned blocks);
  void throw_if_late() const;

  CudaDriver& driver_;
  int device_;
  const double began_;  // by the driver's clock
  void* context_ = nullptr;
  void* stream_ = nullptr;
  void* begin_ = nullptr;
  void* end_ = nullptr;
  void* module_ = nullptr;
  DeviceAddress sink_ = 0;
};

class DeviceBlock {
 public:
  enum class Kind : std::uint8_t { plain, managed };
  DeviceBlock(ProbeBench& bench, policy::Bytes bytes, Kind kind);
  ~DeviceBlock() { bench_.driver().free(address_); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  [[nodiscard]] DeviceAddress address() const { return address_; }
  [[nodiscard]] policy::Bytes bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t vectors() const { return bytes_.count() / kernels::kVectorBytes; }

 private:
  ProbeBench& bench_;
  policy::Bytes bytes_;
  DeviceAddress address_ = 0;
};

class PinnedBlock {
 public:
  PinnedBlock(ProbeBench& bench, policy::Bytes bytes);
  ~PinnedBlock() { bench_.driver().free_host(at_); }
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;
  [[nodiscard]] void* at() const { return at_; }

 private:
  ProbeBench& bench_;
  void* at_ = nullptr;
};

}  // namespace spillway::tools
