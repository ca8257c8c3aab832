#include "shim/trace_writer.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <span>
#include <utility>

#include "policy/trace/frame_builder.hpp"
#include "shim/own_threads.hpp"
#include "shim/service_signals.hpp"
#include "shim/trace_file.hpp"

namespace spillway::shim {

using policy::Nanoseconds;
using policy::trace::encode_loss;
using policy::trace::FrameBytes;
using policy::trace::FrameContents;
using policy::trace::FrameEncoder;
using policy::trace::FrameHeader;
using policy::trace::FrameIndex;
using policy::trace::FrameKind;
using policy::trace::parse_frame_header;

struct TraceWriter::State {
  explicit State(TraceWriterOptions given) : options(std::move(given)) {}

  // The writer thread.
  static void* thread_main(void* state);
  void run();
  void open_file();
  void write_frame(const FrameBytes& frame);
  void write_end();
  [[nodiscard]] bool fits(std::size_t more) const;
  void count_as_lost(const FrameHeader& header);
  void turn_off(const std::string& why);

  // With the lock held.
  bool enqueue(FrameBytes frame);
  void enqueue_loss();

  const TraceWriterOptions options;
  const pid_t owner = ::getpid();  // a vfork child shares our memory: what it calls here must do nothing
  pthread_t thread{};
  std::atomic<pid_t> thread_id{0};
  [[nodiscard]] bool is_writer_thread() const { return thread_id == ::gettid(); }
  TraceFile file;                       // the thread's
  FrameIndex index;                     // the thread's
  bool full = false;                    // the thread's
  std::uint64_t lost_to_the_limit = 0;  // the thread's: records that the file does not speak of yet
  Nanoseconds lost_to_the_limit_since;  // the thread's

  mutable std::mutex mutex;  // guards what follows; held for a few instructions, never across a call to the system
  std::condition_variable wake;
  std::condition_variable idle;
  std::deque<FrameBytes> queue;
  std::uint64_t lost_records = 0;  // since the last frame that was queued
  Nanoseconds lost_since;
  std::size_t queued_bytes = 0;  // the frame being written included
  bool writing = false;
  bool started = false;
  bool closing = false;
  bool with_end = false;
  bool finished = false;
  bool joined = false;
  std::string end_json;
  std::string path;

  std::atomic<bool> on{true};
  std::atomic<std::uint64_t> dropped_frames{0};
  std::atomic<std::uint64_t> dropped_records{0};
  std::atomic<std::uint64_t> bytes_written{0};
};

void* TraceWriter::State::thread_main(void* state) {
  pthread_setname_np(pthread_self(), "spillway-trace");
  const OwnThread counted;
  static_cast<State*>(state)->run();
  return nullptr;
}

void TraceWriter::State::run() {
  thread_id = ::gettid();
  open_file();
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [this] { return !queue.empty() || closing; });
    if (queue.empty()) break;
    const FrameBytes frame = std::move(queue.front());
    queue.pop_front();
    writing = true;
    lock.unlock();
    write_frame(frame);
    lock.lock();
    writing = false;
    queued_bytes -= frame.size();
    if (queue.empty()) idle.notify_all();
  }
  const bool end_wanted = with_end;
  lock.unlock();
  if (end_wanted) write_end();
  file.close();
  lock.lock();
  finished = true;
  idle.notify_all();
}

void TraceWriter::State::open_file() {
  const std::string wanted = expand_trace_path(options.path_pattern, options.names);
  auto problem = file.open(wanted);
  if (!problem && file.path() != wanted && options.renamed) options.renamed(file.path());
  if (!problem) {
    const std::scoped_lock lock(mutex);
    path = file.path();
  }
  if (!problem) problem = file.append(policy::trace::encode_file_start(options.header_json));
  if (problem) return turn_off(*problem);
  bytes_written = file.size();
}

void TraceWriter::State::write_frame(const FrameBytes& frame) {
  const std::optional<FrameHeader> header = parse_frame_header(frame);
  if (!header) return;
  const std::uint64_t offset = file.size();
  if (on && (full || !fits(frame.size()))) return count_as_lost(*header);
  if (on) {
    if (const auto problem = file.append(frame)) turn_off(*problem);
  }
  if (!on) {
    ++dropped_frames;
    dropped_records += header->records;
    return;
  }
  if (header->kind == FrameKind::records) index.add(offset, *header);
  bytes_written = file.size();
}

// With room left for what ends the file.
bool TraceWriter::State::fits(std::size_t more) const {
  constexpr std::size_t kEnd = std::size_t{16} << 10;
  const std::size_t for_index = (index.entries().size() + 2) * sizeof(policy::trace::IndexEntry);
  return options.most_bytes == 0 || file.size() + more + for_index + kEnd <= options.most_bytes;
}

void TraceWriter::State::count_as_lost(const FrameHeader& header) {
  ++dropped_frames;
  dropped_records += header.records;
  if (lost_to_the_limit == 0) lost_to_the_limit_since = Nanoseconds(header.first_time);
  lost_to_the_limit += header.records;
  if (std::exchange(full, true)) return;
  // Said at once, for a program that is killed later on.
  FrameEncoder encoder(0);
  if (const auto problem =
          file.append(encode_loss(encoder, lost_to_the_limit_since, std::exchange(lost_to_the_limit, 0)))) {
    return turn_off(*problem);
  }
  bytes_written = file.size();
  if (options.report) {
    options.report("the trace " + file.path() + " has reached " + std::to_string(options.most_bytes) +
                   " bytes (trace.max_size): what comes later is counted, not written; raise --trace-max-size "
                   "(SPILLWAY_TRACE_MAX_SIZE)");
  }
}

void TraceWriter::State::write_end() {
  if (!on) return;
  FrameEncoder encoder;
  std::optional<std::string> problem;
  if (lost_to_the_limit != 0) {
    FrameEncoder plain(0);
    problem = file.append(encode_loss(plain, lost_to_the_limit_since, lost_to_the_limit));
  }
  if (!problem) problem = file.append(index.encode(encoder));
  FrameContents contents;
  contents.kind = FrameKind::end;
  if (!problem) problem = file.append(encoder.encode(std::as_bytes(std::span(end_json)), contents));
  if (problem) turn_off(*problem);
  bytes_written = file.size();
}

void TraceWriter::State::turn_off(const std::string& why) {
  if (on.exchange(false) && options.report) options.report(why);
}

bool TraceWriter::State::enqueue(FrameBytes frame) {
  if (!on || closing || queued_bytes + frame.size() > options.queue_bytes) return false;
  enqueue_loss();
  queued_bytes += frame.size();
  queue.push_back(std::move(frame));
  return true;
}

// Where something was lost, a frame says so. A few bytes, so whatever the queue's limit.
void TraceWriter::State::enqueue_loss() {
  if (lost_records == 0 || !on) return;
  FrameEncoder encoder(0);
  queue.push_back(encode_loss(encoder, lost_since, std::exchange(lost_records, 0)));
  queued_bytes += queue.back().size();
}

TraceWriter::TraceWriter(TraceWriterOptions options) : state_(std::make_unique<State>(std::move(options))) {}

bool TraceWriter::start(State& state) {
  const sigset_t all = signals_of_the_program();
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits this
  const int error = pthread_create(&state.thread, nullptr, State::thread_main, &state);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) return true;
  state.turn_off("tracing is off: cannot start the writer thread (" + std::string(std::strerror(error)) +
                 "): raise the limit on processes (ulimit -u)");
  return false;
}

bool TraceWriter::submit(FrameBytes frame) {
  State* const state = state_.get();
  if (state == nullptr) return false;
  const auto header = parse_frame_header(frame);
  if (!header) return false;
  std::unique_lock lock(state->mutex);
  if (state->enqueue(std::move(frame))) {
    const bool running = std::exchange(state->started, true);
    lock.unlock();
    if (running) {
      state->wake.notify_one();
      return true;
    }
    if (start(*state)) return true;
    lock.lock();
    state->started = false;
    state->queue.clear();
    state->queued_bytes = 0;
  }
  if (state->lost_records == 0) state->lost_since = Nanoseconds(header->first_time);
  state->lost_records += header->records;
  ++state->dropped_frames;
  state->dropped_records += header->records;
  return false;
}

void TraceWriter::flush_now(std::chrono::milliseconds limit) {
  State* const state = state_.get();
  if (state == nullptr || state->owner != ::getpid() || state->is_writer_thread()) return;
  std::unique_lock lock(state->mutex);
  if (!state->started) return;
  state->idle.wait_for(lock, limit, [state] { return (state->queue.empty() && !state->writing) || state->finished; });
}

void TraceWriter::close(std::string_view end_json) {
  State* const state = state_.get();
  if (state == nullptr || state->owner != ::getpid()) return;
  std::unique_lock lock(state->mutex);
  if (state->closing || !state->started) return;
  state->enqueue_loss();
  state->closing = true;
  state->with_end = true;
  state->end_json = end_json;
  state->wake.notify_one();
  if (state->is_writer_thread()) return;
  if (!state->idle.wait_for(lock, kLongestWait, [state] { return state->finished; })) return;
  state->joined = true;
  lock.unlock();
  pthread_join(state->thread, nullptr);
}

TraceWriter::~TraceWriter() {
  State* const state = state_.get();
  if (state == nullptr) return;
  if (state->owner != ::getpid()) {
    static_cast<void>(state_.release());  // a child that was not told: the locks may be held by nobody
    return;
  }
  std::unique_lock lock(state->mutex);
  if (!state->started || state->joined) return;
  state->closing = true;
  state->wake.notify_one();
  if (!state->idle.wait_for(lock, kLongestWait, [state] { return state->finished; })) {
    // The disk hangs. The thread keeps its state and goes with the process.
    pthread_detach(state->thread);
    lock.unlock();
    static_cast<void>(state_.release());
    return;
  }
  lock.unlock();
  pthread_join(state->thread, nullptr);
}

void TraceWriter::after_fork_in_child() {
  // Leaked on purpose: its thread does not exist here, its mutex may be locked, its descriptor is closed on exec.
  static_cast<void>(state_.release());
}

bool TraceWriter::is_on() const { return state_ != nullptr && state_->on; }
std::uint64_t TraceWriter::dropped_frames() const { return state_ == nullptr ? 0 : state_->dropped_frames.load(); }
std::uint64_t TraceWriter::dropped_records() const { return state_ == nullptr ? 0 : state_->dropped_records.load(); }
std::uint64_t TraceWriter::bytes_written() const { return state_ == nullptr ? 0 : state_->bytes_written.load(); }

std::string TraceWriter::path() const {
  if (state_ == nullptr) return {};
  const std::scoped_lock lock(state_->mutex);
  return state_->path;
}

}  // namespace spillway::shim
