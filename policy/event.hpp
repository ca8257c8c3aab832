// What happens in the program, in the order policy decides on it. Events are policy's only input and the trace's main
// content: the same events give the same decisions on any machine (docs/design.md, promise 8).
//
// The shim makes events from driver calls; `replay` reads them from a trace; tests write them by hand.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "policy/units.hpp"

namespace spillway::policy {

// How the program asked for memory. What is linear, pitched or a pool's arena can be spilled, what is stretchable put
// on the host for good; the others are counted and passed on.
enum class AllocationKind : std::uint8_t {
  linear = 0,           // cuMemAlloc
  pitched = 1,          // cuMemAllocPitch
  stream_ordered = 2,   // cuMemAllocAsync, cuMemAllocFromPoolAsync
  program_managed = 3,  // the program's own cuMemAllocManaged: left alone
  physical = 4,         // cuMemCreate handle (VMM); mapped later
  imported = 5,         // IPC or external memory: not ours to count
  array = 6,            // cuArrayCreate and relatives: opaque layout, counted
  unspillable = 7,      // linear, after the driver refused managed memory for it
  stretchable = 8,      // cuMemCreate handle like `physical`, for which host memory can stand in
  pool_arena = 9,       // ours: stream-ordered requests are served from it
};

// What an allocation is made of, once settled. `managed` of the stretchable kind is host memory under a map-style
// handle: mapped on the device, and there for good.
enum class Backing : std::uint8_t { device = 0, managed = 1 };

// Where the pages of a chunk of managed memory are.
enum class Placement : std::uint8_t {
  unpopulated = 0,  // no page yet
  device = 1,       // in HBM
  host = 2,         // in host memory, mapped on the device (AccessedBy): read and written over the link
  duplicated = 3,   // read-mostly: a copy in both
};
constexpr bool in_hbm(Placement at) { return at == Placement::device || at == Placement::duplicated; }

// CUresult as the driver gave it; 0 is success. Policy never needs more than "worked or not".
struct DriverResult {
  std::int32_t code = 0;
  [[nodiscard]] bool ok() const { return code == 0; }
  friend bool operator==(DriverResult, DriverResult) = default;
};

struct DeviceSeen {
  DeviceIndex device;
  std::array<std::uint8_t, 16> uuid{};
  Bytes total;             // the card
  Bytes free;              // free when first seen: the default budget comes from it
  bool can_spill = false;  // managed memory with concurrentManagedAccess
  std::string name;
  friend bool operator==(const DeviceSeen&, const DeviceSeen&) = default;
};

// Host memory that may hold spilled bytes, after cgroup limit and free memory.
struct HostMemorySeen {
  Bytes available;
  friend bool operator==(const HostMemorySeen&, const HostMemorySeen&) = default;
};

// Device memory that our own context took, in which pages move: counted against the budget. It is made now.
struct DeviceReserved {
  DeviceIndex device;
  Bytes bytes;
  std::string purpose;
  friend bool operator==(const DeviceReserved&, const DeviceReserved&) = default;
};

struct FunctionSeen {
  FunctionId function;
  std::string name;  // mangled, as the driver gives it
  friend bool operator==(const FunctionSeen&, const FunctionSeen&) = default;
};

struct CallerSeen {
  CallerId caller;
  std::string library;  // path of the object that called
  friend bool operator==(const CallerSeen&, const CallerSeen&) = default;
};

// The program asks for memory. Answered by exactly one BackAllocation or RefuseAllocation, before the driver is called.
struct AllocationRequested {
  AllocationId allocation;
  DeviceIndex device;
  Bytes bytes;
  AllocationKind kind = AllocationKind::linear;
  CallerId caller;
  StreamId stream;         // stream-ordered kinds only
  bool capturing = false;  // asked for during stream capture
  friend bool operator==(const AllocationRequested&, const AllocationRequested&) = default;
};

// How it ended. A failure ends the allocation's life.
struct AllocationSettled {
  AllocationId allocation;
  Address address;
  Bytes bytes;  // may exceed what was requested (pitch)
  Backing backing = Backing::device;
  DriverResult result;
  friend bool operator==(const AllocationSettled&, const AllocationSettled&) = default;
};

// Noted before the driver frees: from here on no decision names the allocation. Its bytes still count.
struct FreeRequested {
  AllocationId allocation;
  StreamId stream;  // stream-ordered kinds only
  friend bool operator==(const FreeRequested&, const FreeRequested&) = default;
};

// The driver has answered. A failure (a lost context, say) leaves the allocation live.
struct Freed {
  AllocationId allocation;
  DriverResult result;
  friend bool operator==(const Freed&, const Freed&) = default;
};

// A pointer argument that names a live allocation: offset of the argument in the parameter list, and its value.
struct PointerArgument {
  std::uint16_t index = 0;  // parameter number; pointers inside a by-value struct share its number
  Address address;
  friend bool operator==(const PointerArgument&, const PointerArgument&) = default;
};

// The first launch of this function with this grid and these pointers. Later launches name it by id.
struct LaunchShapeSeen {
  LaunchShapeId shape;
  FunctionId function;
  std::uint64_t threads = 0;  // grid x block
  std::vector<PointerArgument> arguments;
  friend bool operator==(const LaunchShapeSeen&, const LaunchShapeSeen&) = default;
};

struct Launched {
  LaunchShapeId shape;
  StreamId stream;
  friend bool operator==(const Launched&, const Launched&) = default;
};

enum class CopyKind : std::uint8_t { host_to_device = 0, device_to_host = 1, device_to_device = 2, unknown = 3 };

struct Copied {
  StreamId stream;
  CopyKind kind = CopyKind::unknown;
  Address destination;
  Address source;
  Bytes bytes;
  friend bool operator==(const Copied&, const Copied&) = default;
};

struct Filled {
  StreamId stream;
  Address address;
  Bytes bytes;
  friend bool operator==(const Filled&, const Filled&) = default;
};

// An executable graph and the kernels in it, in topological order; seen again after an update.
struct GraphSeen {
  GraphId graph;
  std::vector<LaunchShapeId> shapes;
  friend bool operator==(const GraphSeen&, const GraphSeen&) = default;
};

// One event per graph launch; it counts as one launch in LaunchNumber.
struct GraphLaunched {
  GraphId graph;
  StreamId stream;
  friend bool operator==(const GraphLaunched&, const GraphLaunched&) = default;
};

// A MoveRange decision has been carried out, cancelled or refused by the driver. Residency changes only here.
enum class MoveOutcome : std::uint8_t { done = 0, failed = 1, cancelled = 2 };
struct MoveFinished {
  DecisionId decision;
  MoveOutcome outcome = MoveOutcome::done;
  DriverResult result;
  Nanoseconds took;  // inside the driver call(s)
  friend bool operator==(const MoveFinished&, const MoveFinished&) = default;
};

// Telemetry (CUPTI or driver events); absent when neither is free.
struct KernelTimed {
  LaunchNumber launch;
  Nanoseconds start;
  Nanoseconds duration;
  friend bool operator==(const KernelTimed&, const KernelTimed&) = default;
};

enum class PageTraffic : std::uint8_t {
  host_to_device = 0,
  device_to_host = 1,
  gpu_fault = 2,
  cpu_fault = 3,
  remote_map = 4,  // a fault mapped host pages where they are: a probe was used
};
struct PagesObserved {
  PageTraffic traffic = PageTraffic::gpu_fault;
  Address address;
  Bytes bytes;  // for faults: 0
  friend bool operator==(const PagesObserved&, const PagesObserved&) = default;
};

// Events that did not fit a ring were dropped here: the rest is not an exact replay.
struct EventsDropped {
  std::uint64_t count = 0;
  friend bool operator==(const EventsDropped&, const EventsDropped&) = default;
};

// Time as an event, so that a decision that waits for time is replayed as well. A few a second.
struct TimePassed {
  friend bool operator==(const TimePassed&, const TimePassed&) = default;
};

// How telemetry fares: said when it changes, for people; `window_lost` whenever a window's kernel times could not be
// told apart and were thrown away. Between `pages_watched` and the next `pages_lost` each use of a probe is told.
// `by_events`: kernel times come from the driver's events now, page traffic from nowhere; `events_refused` ends that.
enum class TelemetryState : std::uint8_t {
  running = 0,
  absent = 1,
  refused = 2,
  yielded = 3,
  window_lost = 4,
  pages_watched = 5,
  pages_lost = 6,
  by_events = 7,
  events_refused = 8,
};
struct TelemetryChanged {
  TelemetryState state = TelemetryState::running;
  std::string detail;  // the library that is used, or what was refused
  friend bool operator==(const TelemetryChanged&, const TelemetryChanged&) = default;
};

// Where the program sees physical memory: a whole handle was mapped at `address`, or, if that is 0, is not any more. Of
// several mappings the last one counts; a mapping of a part of a handle is not told.
struct Mapped {
  AllocationId allocation;
  Address address;
  friend bool operator==(const Mapped&, const Mapped&) = default;
};

// The program has called this function of the driver, told once; within a quarter of a second, and of the hooked ones.
struct CallSeen {
  std::string symbol;  // as exported: "cuIpcGetMemHandle"
  friend bool operator==(const CallSeen&, const CallSeen&) = default;
};

// The driver gave us no context of our own on this device: nothing can move there.
struct ContextRefused {
  DeviceIndex device;
  DriverResult result;
  friend bool operator==(const ContextRefused&, const ContextRefused&) = default;
};

// The device has done this launch, and what came before it in its stream; it may be further. A failure: the driver
// gives no events here, and nothing more is told.
struct MarkPassed {
  LaunchNumber launch;
  DriverResult result;
  friend bool operator==(const MarkPassed&, const MarkPassed&) = default;
};

// The order of alternatives is the trace's record number: append only.
using EventBody =
    std::variant<DeviceSeen, HostMemorySeen, DeviceReserved, FunctionSeen, CallerSeen, AllocationRequested,
                 AllocationSettled, FreeRequested, Freed, LaunchShapeSeen, Launched, Copied, Filled, GraphSeen,
                 GraphLaunched, MoveFinished, KernelTimed, PagesObserved, EventsDropped, TimePassed, TelemetryChanged,
                 Mapped, CallSeen, ContextRefused, MarkPassed>;

struct Event {
  Nanoseconds time;
  EventBody body;
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace spillway::policy
