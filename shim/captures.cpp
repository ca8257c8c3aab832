#include "shim/captures.hpp"

#include <algorithm>

#include "shim/launch_path.hpp"

namespace spillway::shim {

void Captures::began(std::uint64_t stream, CUcontext context) {
  const std::lock_guard lock(mutex_);
  all_.push_back({stream, context});
  count();
}

void Captures::ended(std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [&](const Capture& capture) { return capture.stream == stream; });
  count();
}

void Captures::context_ended(CUcontext context) {
  const std::lock_guard lock(mutex_);
  std::erase_if(all_, [&](const Capture& capture) { return capture.context == context; });
  count();
}

void Captures::count() const { launch_path().captures.store(static_cast<int>(all_.size()), std::memory_order_relaxed); }

Captures& open_captures() {
  static auto* const all = new Captures;
  return *all;
}

}  // namespace spillway::shim
