#include "tools/iteration_finder.hpp"

#include <unordered_set>

namespace spillway::tools {

using namespace policy;

namespace {

// Layers of a model look alike, but use other weights: two periods are iterations if most of their pointers agree.
constexpr double kSamePointers = 0.6;

// A few kernels that follow each other are a loop within an iteration; one graph may be a whole one.
constexpr std::uint64_t kShortest = 8;

}  // namespace

bool IterationFinder::long_enough(LaunchCount period) const {
  if (period.count() >= kShortest) return true;
  const std::uint64_t last = forecast_->launches().value;
  for (std::uint64_t launch = last - period.count() + 1; launch <= last; ++launch) {
    if ((forecast_->shape_at({launch}).value & kGraphShape) != 0) return true;
  }
  return false;
}

bool IterationFinder::same_memory(LaunchCount period, const PointersOf& pointers) const {
  const std::uint64_t last = forecast_->launches().value;
  const std::uint64_t count = period.count();
  std::unordered_set<std::uint64_t> older, newer;
  for (std::uint64_t launch = last - 2 * count + 1; launch <= last; ++launch) {
    auto& set = launch + count <= last ? older : newer;
    for (const std::uint64_t address : pointers(forecast_->shape_at({launch}))) set.insert(address);
  }
  std::size_t shared = 0;
  for (const std::uint64_t address : newer) shared += older.count(address);
  const std::size_t all = older.size() + newer.size() - shared;
  return all == 0 || static_cast<double>(shared) >= kSamePointers * static_cast<double>(all);
}

bool IterationFinder::launched(LaunchKey key, LaunchShapeId shape, const PointersOf& pointers) {
  if (!forecast_) forecast_ = std::make_unique<Forecast>();
  const std::uint64_t locks = forecast_->locks();
  forecast_->launched(key, shape);
  if (const LaunchCount candidate = forecast_->candidate(); candidate != LaunchCount()) {
    if (long_enough(candidate) && same_memory(candidate, pointers)) {
      forecast_->accept();
    } else {
      forecast_->reject();
    }
  }
  if (!forecast_->boundary() && forecast_->locks() == locks) return false;
  ++iteration_;
  return true;
}

}  // namespace spillway::tools
