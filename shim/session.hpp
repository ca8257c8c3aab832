// One run of Spillway inside the program: takes what the hooks saw to policy, in one order, and carries out what policy
// decides.
//
// Made by the first successful cuInit, never destroyed (threads of the program may still be calling at exit). One lock
// orders events; no driver call, no file and no wait happens under it. Migration's lock is taken inside it, never
// around. Every member is safe from any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/engine.hpp"
#include "policy/launch_shapes.hpp"
#include "shim/hook.hpp"
#include "shim/launch_path.hpp"
#include "shim/launch_turns.hpp"
#include "shim/library.hpp"
#include "shim/migration.hpp"
#include "shim/progress_marks.hpp"
#include "shim/registry.hpp"
#include "shim/room_watch.hpp"
#include "shim/run_page.hpp"
#include "shim/settings_source.hpp"
#include "shim/telemetry.hpp"
#include "shim/trace_log.hpp"

namespace spillway::shim {

struct AllocationRequest {
  policy::DeviceIndex device;
  policy::Bytes bytes;
  policy::AllocationKind kind = policy::AllocationKind::linear;
  std::uint64_t stream = 0;  // as the rings name it
  bool capturing = false;
  const void* caller = nullptr;  // return address in the program
  CUcontext context = nullptr;   // the allocation's life ends with it
};

struct AllocationAnswer {
  policy::AllocationId id;
  policy::Backing backing = policy::Backing::device;
  bool refused = false;  // the program gets CUDA_ERROR_OUT_OF_MEMORY
  // Of a refusal.
  policy::Reason reason = policy::Reason::mode;
  policy::Bytes missing;
  bool host_is_full = false;  // all host memory that there is is used, whatever the budget says
  policy::Bytes host_memory;  // that there is, filled by what spilled included
  std::string kept_plain_by;  // what keeps it from spilling, if a setting or a rule does
};

// Memory as the program sees it.
struct ReportedMemory {
  policy::Bytes free;
  policy::Bytes total;
};

class Session final : public LaunchObserver, public GraphObserver {
 public:
  // Null before the first cuInit, when everything is switched off, and in the child of a fork.
  static Session* get();
  // After a successful cuInit. Does nothing if there is a session, or nothing to do for one.
  static void start();

  // An allocation: ask before the driver is called, tell afterwards (also when it failed).
  AllocationAnswer request(const AllocationRequest& request);
  void settle(const AllocationAnswer& answer, const AllocationRequest& request, policy::Address address,
              policy::Bytes bytes, CUresult result);
  // Whether such a request would get memory that can spill, if it was made now. Changes nothing.
  bool may_spill(const AllocationRequest& request);
  policy::Bytes budget(policy::DeviceIndex device);  // that this process may fill
  // A free: tell before and after. Nothing if the address begins no allocation that we know.
  std::optional<policy::AllocationId> begin_free(policy::Address address, std::uint64_t stream);
  void end_free(policy::AllocationId allocation, CUresult result);

  // Physical memory, registered under its handle, is seen at an address, or not any more.
  void mapped(policy::Address registered, policy::Address address);
  void unmapped(policy::Address registered, policy::Address address);

  // What is registered at or around an address.
  std::optional<Registered> registered(policy::Address address);

  // Nothing where the program shall see the driver's own figures. `real_*` are the driver's.
  std::optional<ReportedMemory> reported_memory(policy::DeviceIndex device, policy::Bytes real_free,
                                                policy::Bytes real_total);
  std::optional<policy::Bytes> reported_total(policy::DeviceIndex device, policy::Bytes real_total);

  // The program's context on this device exists: what is free can be asked now. False for a device that the driver
  // would not tell us of: its memory is none of our business.
  bool device_used(policy::DeviceIndex device);
  // A context is going, and all memory made in it goes with it: tell before and after, as for a free.
  std::vector<policy::AllocationId> begin_context_end(CUcontext context);
  void end_context_end(std::span<const policy::AllocationId> allocations, CUresult result);

  // The driver may give the handle to another stream.
  void stream_going(CUstream stream);
  // A module or library is about to be unloaded: what was launched from it is told before.
  void code_going();

  void before_call(const RecordHeader& record) noexcept override;
  void after_call() noexcept override;
  void graph_seen(CUgraphExec executable, std::span<const GraphKernel> kernels) noexcept override;
  void graph_going(CUgraphExec executable) noexcept override;

  [[nodiscard]] const policy::Settings& settings() const { return settings_; }

 private:
  // What is to be done once the lock is released.
  struct Work {
    std::vector<policy::Decision> decisions;
    std::vector<std::optional<Registered>> targets;  // of each decision; nothing if it has none or it is gone
    [[nodiscard]] bool blocking() const;
  };
  Session(RunSettings run, std::uint32_t device_count);
  void see_devices(std::uint32_t count);
  void announce() const;
  void announce(policy::DeviceIndex device);  // without the lock
  [[nodiscard]] policy::trace::TraceHeader header() const;

  // With the lock held.
  // Of now. What the program did before is told first, at its own times: time never runs back.
  void decide(policy::EventBody body, Work& work);
  void decide_at(policy::Nanoseconds time, policy::EventBody body, Work& work);
  void drain(Work& work);
  void take(const RecordHeader& record, Work& work);
  void tell(const RecordHeader& record, std::int64_t moment, Work& work);  // CLOCK_MONOTONIC
  policy::LaunchShapeId shape_of(policy::FunctionId function, std::uint64_t threads, std::span<const Touch> touches,
                                 policy::Nanoseconds time, Work& work);
  // For telemetry, right after policy heard of it.
  void watch_launch(policy::LaunchShapeId shape, policy::StreamId stream, policy::KernelKey key, std::int64_t time);
  policy::StreamId stream_of(std::uint64_t word);
  policy::CallerId caller_of(const Library& library, Work& work);
  void refresh_host_memory(Work& work);
  void tell_calls(Work& work);  // that were not told yet
  void tell_marks(const ProgressMarks::Progress& progress, Work& work);
  policy::Nanoseconds since_start(std::int64_t monotonic);

  // Without the lock.
  struct Refusal {
    policy::Reason reason = policy::Reason::mode;
    policy::Bytes missing;
    std::uint16_t rule = 0;  // that keeps the memory from spilling
    bool ask_again = false;  // nothing was decided, or what was decided did not come true
  };
  // What policy hears when the room of plain memory was lost to another thread: that it may be asked for anew, or that
  // the device is full, after which what can spill does.
  enum class Lost : std::uint8_t { to_another, for_good };
  AllocationAnswer ask(const AllocationRequest& request, const Library& library, Lost lost, Refusal& refusal);
  class Asking;
  void explain(const AllocationRequest& request, const Refusal& refusal, AllocationAnswer& answer);
  [[nodiscard]] bool needs_context(const AllocationRequest& request);  // with the lock
  // Our context takes device memory: it is made, and counted, before the first allocation that may spill is placed.
  void prepare_to_spill(const AllocationRequest& request);
  // That memory has spilled without it.
  void say_unmoved(policy::DeviceIndex device);
  // Plain memory that needs the place of what is being freed. With the lock. False if that did not end in time.
  bool wait_for_frees(std::unique_lock<std::mutex>& lock, const AllocationRequest& request);
  void carry_out(const Work& work);
  // And what is decided in answer is not carried out yet.
  Work carry_out_these(const Work& work);
  // Calls `body` unless this memory is gone, or going, since something was decided about it; a free waits for its end.
  void while_it_lives(policy::AllocationId allocation, const std::function<void()>& body);
  enum class Queued : std::uint8_t { yes, no, no_context };
  // `no` if the memory is gone, or going, since the move was decided.
  Queued queue(policy::DecisionId decision, const policy::MoveRange& move, const Registered& target);
  // Where there is no context of ours: population on the host, in the call that asked for the memory.
  void move_from_here(policy::DecisionId decision, const policy::MoveRange& move, const Registered& target,
                      Work& answers);
  void move_ended(policy::DecisionId decision, policy::MoveOutcome outcome, policy::DriverResult result,
                  policy::Nanoseconds took, Work& answers);
  void ask_for_marks(policy::DecisionId decision, const policy::MarkProgress& marks, Work& answers);
  bool wait_for_room(const Work& work);
  // In the modes that act before launches one thread at a time brings pages in and launches, or makes room: else what
  // one has just brought in leaves for the other before its launch, which faults it in again behind the ledger's back.
  void take_turn();
  void give_turn();
  // What leaves may be in use by launches in flight: waits for them. With the turn.
  void finish_launches(const Work& work) const;
  void start_telemetry(std::uint32_t device_count);
  [[nodiscard]] Telemetry::Use telemetry_use() const;  // with the lock
  // A little of it, in passing: it wakes CUPTI's page counters.
  void make_managed_memory();
  void telemetry_reports(std::vector<policy::EventBody> events);
  void run_policy_thread();
  // What `top` sees. By the policy thread, and at the end. `ended_by`: empty while the program runs.
  void publish(std::string_view ended_by);
  void put_allocations(policy::RunPage& page) const;  // with the lock
  // The program has no thread left; does not return.
  [[noreturn]] static void end_process();
  void leave_driver_alone();  // our threads end; may be called again
  void finish(const char* reason);

  friend struct SessionProcess;  // fork and exit

  // Population in HBM runs at hundreds of GB/s, room for plain memory at 9 or more: a wait beyond this is a stuck
  // driver. A single move that is stuck ends the wait sooner (StuckAfter).
  static constexpr std::chrono::milliseconds kWaitForMoves{10000};
  static constexpr std::chrono::milliseconds kWaitForFree{5000};
  static constexpr std::chrono::seconds kWaitForTurn{2};

  const policy::Settings settings_;
  const bool has_rules_;
  const bool all_plain_;  // nothing may spill, so host memory is promised to nobody
  const std::string policy_file_;
  const std::optional<policy::CostTable> costs_;  // as probed
  const std::vector<policy::trace::RuleSeen> rules_seen_;
  const std::int64_t started_;
  const bool acts_before_launches_;  // the modes in which pages come by faults
  LaunchTurns turns_{kWaitForTurn};

  std::mutex mutex_;
  TickClock ticks_;
  policy::Engine engine_;
  policy::LaunchShapes shapes_;
  Registry registry_;
  TraceLog trace_;
  std::map<std::uint32_t, policy::DeviceSeen> devices_;
  std::set<std::uint32_t> devices_with_context_;
  // Our own, in which pages move; `made` and counted, or taking long.
  enum class OwnContext : std::uint8_t { none, made, refused };
  std::map<std::uint32_t, OwnContext> own_contexts_;  // by device
  std::set<std::uint32_t> said_unmoved_;              // devices
  RoomWatch room_;
  policy::DecisionId marks_asked_;  // the latest decision
  bool marks_refused_ = false;      // and policy was told
  std::unordered_map<std::uint64_t, policy::StreamId> streams_;
  std::unordered_map<CUgraphExec, policy::GraphId> graphs_;
  std::unordered_map<const void*, policy::CallerId> callers_;  // by load address of the library
  std::vector<bool> functions_told_;
  std::vector<policy::KernelKey> function_keys_;                         // by id, of those told
  std::unordered_map<policy::GraphId, std::uint64_t> kernels_of_graph_;  // how many
  std::vector<policy::PointerArgument> arguments_;                       // scratch
  std::uint32_t last_allocation_ = 0;
  std::uint32_t last_graph_ = 0;
  std::uint32_t last_stream_ = 0;
  policy::Nanoseconds last_time_;
  policy::Bytes host_available_;
  policy::Bytes host_total_;  // reported with the virtual total; fixed at the start, as a card's size is
  std::int64_t host_read_at_ = 0;
  int host_proc_error_ = 0;  // of the latest figure
  std::array<bool, kHookCount> calls_told_{};
  std::uint64_t events_ = 0;
  std::uint64_t decided_ = 0;
  std::uint64_t dropped_ = 0;

  RunPageFile page_;               // who calls `publish`
  RunPageRates page_rates_;        // the same
  std::uint64_t page_events_ = 0;  // the same: those that the page knows

  Migration migration_;
  std::unique_ptr<Telemetry> telemetry_;  // null if nobody asks for it; made before the policy thread
  std::atomic<bool> stopping_{false};
  std::thread policy_thread_;
  bool policy_thread_ended_ = false;
  std::condition_variable policy_thread_ends_;
};

}  // namespace spillway::shim
