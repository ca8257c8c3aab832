// The session's trace: events and decisions become frames as they are decided; a TraceWriter puts them into the file.
//
// `add` and `flush` under the session's lock; `close` without it.
#pragma once

#include <memory>

#include "policy/decision.hpp"
#include "policy/event.hpp"
#include "policy/settings.hpp"
#include "policy/trace/frame_builder.hpp"
#include "policy/trace/header.hpp"
#include "shim/trace_writer.hpp"

namespace spillway::shim {

class TraceLog {
 public:
  // Stays off when the settings name no path.
  void open(const policy::Settings& settings, const policy::trace::TraceHeader& header);
  [[nodiscard]] bool on() const { return writer_ != nullptr && writer_->is_on(); }
  // What was added so far is in the file, or that takes long: a program that dies at once leaves a trace. Before any
  // other thread adds.
  void begin();
  void add(const policy::Event& event);
  void add(policy::Nanoseconds time, const policy::Decision& decision);
  // Hands over what is in the open frame, so that a killed program loses no more than since the last call.
  void flush();
  void close(policy::trace::TraceEnd end);
  void after_fork_in_child();

 private:
  void submit(std::optional<policy::trace::FrameBytes> frame);

  std::unique_ptr<policy::trace::FrameBuilder> builder_;
  std::unique_ptr<TraceWriter> writer_;
};

}  // namespace spillway::shim
