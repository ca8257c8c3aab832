#include "shim/captures.hpp"

#include <algorithm>
#include <iterator>

#include "shim/launch_path.hpp"

namespace spillway::shim {

void Captures::began(const Capture& capture) { put_back({capture}); }

Captures::Taken Captures::take(std::uint64_t stream) {
  return take_if([&](const Capture& capture) { return capture.stream == stream; });
}

Captures::Taken Captures::take_of(CUcontext context) {
  return take_if([&](const Capture& capture) { return capture.context == context; });
}

void Captures::put_back(const Taken& taken) {
  const std::lock_guard lock(mutex_);
  all_.insert(all_.end(), taken.begin(), taken.end());
  count();
}

template <class Ends>
Captures::Taken Captures::take_if(const Ends& ends) {
  Taken taken;
  const std::lock_guard lock(mutex_);
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(taken), ends);
  std::erase_if(all_, ends);
  count();
  return taken;
}

void Captures::count() const { launch_path().captures.store(static_cast<int>(all_.size()), std::memory_order_relaxed); }

Captures& open_captures() {
  static auto* const all = new Captures;
  return *all;
}

}  // namespace spillway::shim
