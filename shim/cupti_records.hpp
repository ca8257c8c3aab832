// The buffers that CUPTI fills while telemetry has it, and what was read out of them. CUPTI calls from threads of its
// own and of the program; nothing here locks for long or calls the driver. One of these a process, never destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "policy/event.hpp"
#include "policy/kernel_matching.hpp"
#include "shim/cupti.hpp"

namespace spillway::shim {

struct KernelRecord {
  policy::DeviceStreamId stream;
  std::uint64_t correlation = 0;
  policy::KernelKey key;
  std::uint64_t start = 0;  // CUPTI's clock; 0: not known
  std::uint64_t end = 0;
  bool of_graph = false;
};

struct CuptiRecords {
  std::vector<KernelRecord> kernels;
  std::vector<policy::PagesObserved> pages;  // neighbours that followed each other are one, and all maps of a chunk
  std::size_t dropped = 0;                   // by CUPTI, or for want of memory
};

class CuptiBuffers {
 public:
  // From now on CUPTI's buffers are ours, and what the program's hold goes on to the program.
  CUptiResult take_over(const Cupti& cupti);
  // The program's callbacks are put back, if it has any. All buffers should have come back before (a forced flush).
  void give_back(const Cupti& cupti);
  // What has come since the last call.
  CuptiRecords take();

 private:
  static void CUPTIAPI request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most);
  static void CUPTIAPI complete(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                                std::size_t valid);
  bool forget(const std::uint8_t* buffer);  // true if it was ours
  void read(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t valid);

  static std::atomic<CuptiBuffers*> instance;
  std::atomic<const Cupti*> cupti_{nullptr};
  std::mutex mutex_;
  std::unordered_set<const std::uint8_t*> ours_;
  CuptiRecords records_;
};

}  // namespace spillway::shim
