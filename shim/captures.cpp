#include "shim/captures.hpp"

#include <algorithm>
#include <iterator>

#include "shim/launch_path.hpp"

namespace spillway::shim {

Captures::Taken Captures::begin(const Capture& capture) {
  Taken taken{capture};
  const std::lock_guard lock(mutex_);
  ++taken_;
  count();
  return taken;
}

Captures::Taken Captures::take(std::uint64_t stream) {
  return take_if([&](const Capture& capture) { return capture.stream == stream; });
}

Captures::Taken Captures::take_of(CUcontext context) {
  return take_if([&](const Capture& capture) { return capture.context == context; });
}

void Captures::settle(const Taken& taken, Now now) {
  const std::lock_guard lock(mutex_);
  if (now == Now::captured) all_.insert(all_.end(), taken.begin(), taken.end());
  taken_ -= taken.size();
  count();
}

template <class Ends>
Captures::Taken Captures::take_if(const Ends& ends) {
  Taken taken;
  const std::lock_guard lock(mutex_);
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(taken), ends);
  std::erase_if(all_, ends);
  taken_ += taken.size();
  return taken;
}

void Captures::count() const {
  launch_path().captures.store(static_cast<int>(all_.size() + taken_), std::memory_order_relaxed);
}

Captures& open_captures() {
  static auto* const all = new Captures;
  return *all;
}

}  // namespace spillway::shim
