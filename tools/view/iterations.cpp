#include "tools/view/iterations.hpp"

namespace spillway::tools::view {

using namespace policy;

void Iterations::shape(const LaunchShapeSeen& event) { keys_[event.shape] = launch_key(event.function, event.threads); }

void Iterations::launched(Nanoseconds time, LaunchShapeId shape) {
  const auto found = keys_.find(shape);
  step(time, found == keys_.end() ? LaunchKey() : found->second, shape);
}

// A graph is one launch. Its key only has to be its own: threads of 2^63 and more belong to no kernel.
void Iterations::launched(Nanoseconds time, GraphId graph) {
  step(time, launch_key({graph.value}, ~std::uint64_t{0}), {});
}

void Iterations::step(Nanoseconds time, LaunchKey key, LaunchShapeId shape) {
  if (forecast_.candidate() != LaunchCount()) forecast_.reject();  // no note came after it
  forecast_.launched(key, shape);
  last_ = time;
  if (forecast_.boundary() && boundaries_.size() < kMost)
    boundaries_.push_back({time, forecast_.launches().value, false});
}

void Iterations::note(std::string_view text) {
  if (!text.starts_with("an iteration of ") || forecast_.candidate() == LaunchCount()) return;
  forecast_.accept();
  if (boundaries_.size() < kMost) boundaries_.push_back({last_, forecast_.launches().value, true});
}

Json Iterations::to_json(Blocks& blocks) const {
  Column time, launches, found;
  for (const Boundary& boundary : boundaries_) {
    time.add(boundary.time.count());
    launches.add(boundary.launches);
    found.add(std::uint32_t{boundary.found});
  }
  return blocks.add({{"time", &time}, {"launches", &launches}, {"found", &found}});
}

}  // namespace spillway::tools::view
