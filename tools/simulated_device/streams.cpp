#include "tools/simulated_device/streams.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <thread>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

std::uint64_t queued = 0;  // operations not run at once and not completed yet; world's lock

bool ready(const Operation& operation) {
  if (operation.ready && !operation.ready()) return false;
  return std::all_of(operation.after.begin(), operation.after.end(),
                     [](const Ticket& ticket) { return ticket.done(); });
}

std::int64_t start_time(const Stream& stream, const Operation& operation) {
  std::int64_t start = std::max(stream.ready_time, operation.not_before);
  for (const Ticket& ticket : operation.after) start = std::max(start, ticket.stream->ready_time);
  return start;
}

void complete(Stream& stream, std::int64_t end) {
  stream.ready_time = std::max(stream.ready_time, end);
  ++stream.completed;
  note_time(stream.ready_time);
}

// Host functions run here, one after the other, without the world's lock, as the real driver's own thread does.
class HostFunctionThread {
 public:
  void post(std::shared_ptr<Stream> stream, std::function<void()> function, std::int64_t start) {
    if (!started_) {
      started_ = true;
      std::thread([this] { serve(); }).detach();
    }
    jobs_.push_back({std::move(stream), std::move(function), start});
    wake_.notify_one();
  }

 private:
  struct Job {
    std::shared_ptr<Stream> stream;
    std::function<void()> function;
    std::int64_t start;
  };

  void serve() {
    std::unique_lock lock(world().mutex);
    while (true) {
      wake_.wait(lock, [this] { return !jobs_.empty(); });
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job.function();
      lock.lock();
      job.stream->host_running = false;
      --queued;
      complete(*job.stream, job.start);
      pump();
      world().changed.notify_all();
    }
  }

  bool started_ = false;
  std::deque<Job> jobs_;  // world's lock
  std::condition_variable_any wake_;
};

HostFunctionThread& host_functions() {
  static HostFunctionThread* const instance = new HostFunctionThread;  // outlives the program, like its thread
  return *instance;
}

// Runs or hands out the operation; its stream's queue no longer holds it.
void execute(const std::shared_ptr<Stream>& stream, Operation operation) {
  const std::int64_t start = start_time(*stream, operation);
  if (operation.host_function) {
    stream->host_running = true;
    ++queued;
    host_functions().post(stream, std::move(operation.host_function), start);
    return;
  }
  complete(*stream, operation.run ? operation.run(start) : start);
}

bool pump_stream(const std::shared_ptr<Stream>& stream) {
  bool progress = false;
  while (!stream->host_running && !stream->queue.empty() && ready(stream->queue.front())) {
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    --queued;
    execute(stream, std::move(operation));
    progress = true;
  }
  return progress;
}

std::vector<std::shared_ptr<Stream>> all_streams() {
  std::vector<std::shared_ptr<Stream>> all;
  for (const auto& [handle, stream] : world().streams) all.push_back(stream);
  for (const auto& [handle, context] : world().contexts) {
    all.push_back(context->legacy);
    for (const auto& [thread, stream] : context->per_thread) all.push_back(stream);
  }
  return all;
}

// What legacy-stream ordering adds: the legacy stream follows all blocking streams of its context, and they follow it.
void add_legacy_order(const Stream& stream, Operation& operation) {
  const auto follow = [&](const std::shared_ptr<Stream>& other) {
    if (other.get() != &stream && other->blocking()) operation.after.push_back({other, other->enqueued});
  };
  if (stream.kind != StreamKind::legacy_default) {
    if (stream.blocking()) follow(stream.context->legacy);
    return;
  }
  for (const auto& [handle, other] : world().streams) {
    if (other->context == stream.context) follow(other);
  }
  for (const auto& [thread, other] : stream.context->per_thread) follow(other);
}

}  // namespace

bool Ticket::done() const { return !stream || stream->completed >= count; }

void enqueue(const std::shared_ptr<Stream>& stream, Operation operation) {
  operation.not_before = std::max(operation.not_before, thread_time());
  add_legacy_order(*stream, operation);
  ++stream->enqueued;
  if (!stream->host_running && stream->queue.empty() && ready(operation)) {
    execute(stream, std::move(operation));
    if (queued != 0) pump();
    return;
  }
  stream->queue.push_back(std::move(operation));
  ++queued;
}

void pump() {
  if (queued == 0) return;
  bool progress = true;
  while (progress) {
    progress = false;
    for (const auto& stream : all_streams()) progress = pump_stream(stream) || progress;
  }
  world().changed.notify_all();
}

bool anything_queued() { return queued != 0; }

bool idle(const Stream& stream) { return stream.completed == stream.enqueued; }

void wait_for(const std::shared_ptr<Stream>& stream) {
  const std::uint64_t target = stream->enqueued;
  wait_until([&] { return stream->completed >= target; });
  advance_thread_to(stream->ready_time);
}

void wait_for_context(const Context& context) {
  for (const auto& stream : all_streams()) {
    if (stream->context == &context) wait_for(stream);
  }
}

void wait_for_device(int device) {
  for (const auto& stream : all_streams()) {
    if (stream->context->device == device) wait_for(stream);
  }
}

std::shared_ptr<Stream> make_stream(Context& context, unsigned flags, int priority, StreamKind kind) {
  auto stream = std::make_shared<Stream>();
  stream->context = &context;
  stream->id = world().next_id++;
  stream->flags = flags;
  stream->priority = priority;
  stream->kind = kind;
  stream->ready_time = thread_time();
  return stream;
}

CUresult find_stream(CUstream handle, std::shared_ptr<Stream>& out, OnCapture action) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (handle == nullptr) {
    handle = default_stream_of_call() == DefaultStream::per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  }
  if (handle == CU_STREAM_LEGACY) {
    out = context->legacy;
    return forbid_legacy_use(*context, action);
  }
  if (handle == CU_STREAM_PER_THREAD) {
    auto& own = context->per_thread[std::this_thread::get_id()];
    if (!own) own = make_stream(*context, 0, 0, StreamKind::per_thread_default);
    out = own;
    return CUDA_SUCCESS;
  }
  const auto found = world().streams.find(handle);
  if (found == world().streams.end()) return CUDA_ERROR_INVALID_HANDLE;
  out = found->second;
  return CUDA_SUCCESS;
}

CUresult find_event(CUevent handle, std::shared_ptr<Event>& out) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const auto found = world().events.find(handle);
  if (found == world().events.end()) return CUDA_ERROR_INVALID_HANDLE;
  out = found->second;
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated
