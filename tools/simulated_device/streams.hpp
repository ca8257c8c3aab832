// Streams and events. Work runs when it is enqueued, on the enqueuing thread, unless something it must follow is not
// done (a host function, a value to wait for): then it is queued and runs, in order, as soon as that is. World's lock
// held.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tools/simulated_device/entry_points.hpp"

namespace spillway::simulated {

struct Context;
struct Capture;
struct GraphNode;
struct Stream;

// "The first `ticket` operations of this stream are done."
struct Ticket {
  std::shared_ptr<Stream> stream;
  std::uint64_t count = 0;
  [[nodiscard]] bool done() const;
};

struct Operation {
  // Does the work; gets the virtual time it may start at, returns the time it ends.
  std::function<std::int64_t(std::int64_t start)> run;
  std::function<bool()> ready;          // optional: a value being waited for
  std::function<void()> host_function;  // runs on the host-function thread, without the lock
  std::vector<Ticket> after;
  std::int64_t not_before = 0;
};

enum class StreamKind { created, legacy_default, per_thread_default };

struct Stream {
  Context* context = nullptr;
  std::uint64_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  StreamKind kind = StreamKind::created;
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  std::int64_t ready_time = 0;  // virtual time at which its completed work ends
  bool host_running = false;
  std::deque<Operation> queue;
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> capture_tail;  // nodes the next captured one depends on
  [[nodiscard]] bool blocking() const { return (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  bool recorded = false;
  Ticket ticket;
  std::shared_ptr<std::int64_t> time;  // virtual time of completion, filled when it completes
  std::shared_ptr<Capture> capture;    // recorded in a capture
  std::vector<GraphNode*> capture_tail;
  [[nodiscard]] bool done() const { return !recorded || ticket.done(); }
};

// Handle to stream in the current context. Refuses legacy-stream use that a running capture forbids.
// Questions about a stream are refused too, but leave the capture intact.
enum class OnCapture { invalidate, only_refuse };
CUresult find_stream(CUstream handle, std::shared_ptr<Stream>& out, OnCapture action = OnCapture::invalidate);
CUresult find_event(CUevent handle, std::shared_ptr<Event>& out);

void enqueue(const std::shared_ptr<Stream>& stream, Operation operation);
void pump();  // runs what has become ready
bool idle(const Stream& stream);
void wait_for(const std::shared_ptr<Stream>& stream);
void wait_for_context(const Context& context);
void wait_for_device(int device);
bool anything_queued();
std::shared_ptr<Stream> make_stream(Context& context, unsigned flags, int priority, StreamKind kind);

}  // namespace spillway::simulated
