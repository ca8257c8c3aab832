// What launches share with the rest of the shim: the address table and function table they read, the rings they write,
// and the one hook point for modes that must act before a launch.
#pragma once

#include <atomic>
#include <span>

#include "shim/address_table.hpp"
#include "shim/function_table.hpp"
#include "shim/ring_registry.hpp"
#include "shim/ticks.hpp"

namespace spillway::shim {

// Acts before the driver sees a launch, copy, fill or graph launch (demand mode). Called on the calling thread with the
// hooks guarded; may take locks and call the driver. Must never throw. The observer must outlive every call, so set it
// for good or not at all.
class LaunchObserver {
 public:
  // The record that will be published if the driver accepts the call; its time is not set yet.
  virtual void before_call(const RecordHeader& record) noexcept = 0;
  // The driver has answered; once after each before_call, on the same thread.
  virtual void after_call() noexcept = 0;

 protected:
  ~LaunchObserver() = default;
};

// Told about graphs, off the launch path. The session sets it once; null means that nobody asks.
struct GraphKernel {
  policy::FunctionId function;
  std::uint64_t threads = 0;
  std::span<const Touch> touches;
};
class GraphObserver {
 public:
  // After a successful instantiation or update: all kernel nodes, in the order cuGraphGetNodes gives, children
  // included.
  virtual void graph_seen(CUgraphExec executable, std::span<const GraphKernel> kernels) noexcept = 0;
  // One kernel node of an executable was given other arguments.
  virtual void graph_kernel_set(CUgraphExec, const GraphKernel&) noexcept {}
  // Before the executable is destroyed.
  virtual void graph_going(CUgraphExec executable) noexcept = 0;

 protected:
  ~GraphObserver() = default;
};

// What launches are to record events for, bits of LaunchPath::events.
inline constexpr unsigned kTimesWanted = 1;  // LaunchTimer: while a window is open
inline constexpr unsigned kMarksWanted = 2;  // ProgressMarks: of some of them

struct LaunchPath {
  AddressTable addresses;  // the session inserts and removes, under its own lock
  FunctionTable functions;
  RingRegistry rings;
  std::atomic<bool> recording{false};  // the session turns it on; off: launches are forwarded and nothing is read
  bool use_counter = false;            // of ticks(): set before `recording`, then left alone
  std::atomic<int> captures{0};        // streams being captured now; above 0 launches ask whether theirs is
  std::atomic<LaunchObserver*> observer{nullptr};
  std::atomic<GraphObserver*> graphs{nullptr};
  std::atomic<unsigned> events{0};  // nearly always none
};

// Constant-initialised and never destroyed: launches may come before main and after exit.
LaunchPath& launch_path();

// The stream of a call as the rings name it (launch_record.hpp). May map the thread's ring.
std::uint64_t stream_word(CUstream stream, bool per_thread);

// What the driver says of the stream of a call: NULL is the thread's own in a per-thread call. None if it does not say.
CUstreamCaptureStatus capture_status(CUstream stream, bool per_thread);

}  // namespace spillway::shim
