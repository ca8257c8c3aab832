// Host twins of the tests' kernels.
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/host_twin.hpp"
#include "tests/simulated_device/test_kernels.hpp"

namespace {

using spillway::kernels::Access;
using spillway::kernels::HostTwin;
using spillway::kernels::LaunchGeometry;

template <class T>
T parameter(void* const* parameters, std::size_t index) {
  return *static_cast<const T*>(parameters[index]);
}

std::uint64_t address(const float* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

void run_add_one(const LaunchGeometry& geometry, void* const* p) {
  auto* data = parameter<float*>(p, 0);
  const auto threads = static_cast<int>(geometry.grid.x * geometry.block.x);
  for (int i = 0; i < parameter<int>(p, 1) && i < threads; ++i) data[i] += 1.0F;
}
void add_one_accesses(const LaunchGeometry&, void* const* p, std::vector<Access>& out) {
  const auto bytes = static_cast<std::uint64_t>(parameter<int>(p, 1)) * sizeof(float);
  out.push_back({address(parameter<float*>(p, 0)), bytes, false, 1.0F});
  out.push_back({address(parameter<float*>(p, 0)), bytes, true, 1.0F});
}

void run_scale(const LaunchGeometry&, void* const* p) {
  const auto extent = parameter<Extent>(p, 3);
  for (int i = 0; i < extent.count; i += extent.stride)
    parameter<float*>(p, 1)[i] = parameter<const float*>(p, 0)[i] * parameter<float>(p, 2);
}
void scale_accesses(const LaunchGeometry&, void* const* p, std::vector<Access>& out) {
  const auto bytes = static_cast<std::uint64_t>(parameter<Extent>(p, 3).count) * sizeof(float);
  out.push_back({address(parameter<const float*>(p, 0)), bytes, false, 1.0F});
  out.push_back({address(parameter<float*>(p, 1)), bytes, true, 1.0F});
}

void run_read_all(const LaunchGeometry&, void* const* p) {
  float sum = 0;
  for (std::size_t i = 0; i < parameter<std::size_t>(p, 2); ++i) sum += parameter<const float*>(p, 0)[i];
  *parameter<float*>(p, 1) = sum;
}
void read_all_accesses(const LaunchGeometry&, void* const* p, std::vector<Access>& out) {
  out.push_back({address(parameter<const float*>(p, 0)), parameter<std::size_t>(p, 2) * sizeof(float), false, 1.0F});
  out.push_back({address(parameter<float*>(p, 1)), sizeof(float), true, 1.0F});
}

// Whole chunks of the pool, which the table names.
constexpr std::uint64_t kChunkBytes = std::uint64_t{2} << 20;
const float* chunk_of(void* const* p, int index) {
  return parameter<const float*>(p, 0) + static_cast<std::size_t>(parameter<const int*>(p, 1)[index]) * kChunkBytes / 4;
}
void run_read_some(const LaunchGeometry&, void* const* p) {
  float sum = 0;
  for (int i = 0; i < parameter<int>(p, 3); ++i) sum += *chunk_of(p, i);
  *parameter<float*>(p, 2) = sum;
}
void read_some_accesses(const LaunchGeometry&, void* const* p, std::vector<Access>& out) {
  for (int i = 0; i < parameter<int>(p, 3); ++i) out.push_back({address(chunk_of(p, i)), kChunkBytes, false, 1.0F});
  out.push_back({address(parameter<float*>(p, 2)), sizeof(float), true, 1.0F});
}

constexpr std::array<std::size_t, 2> kAddOneSizes{8, 4};
constexpr std::array<std::size_t, 2> kAddOneOffsets{0, 8};
constexpr std::array<std::size_t, 4> kScaleSizes{8, 8, 4, 8};
constexpr std::array<std::size_t, 4> kScaleOffsets{0, 8, 16, 20};
constexpr std::array<std::size_t, 3> kReadAllSizes{8, 8, 8};
constexpr std::array<std::size_t, 3> kReadAllOffsets{0, 8, 16};

constexpr std::array<std::size_t, 4> kReadSomeSizes{8, 8, 8, 4};
constexpr std::array<std::size_t, 4> kReadSomeOffsets{0, 8, 16, 24};

constexpr std::array<HostTwin, 4> kTwins{{
    {kAddOne, kAddOneSizes, kAddOneOffsets, run_add_one, add_one_accesses, 1},
    {kScale, kScaleSizes, kScaleOffsets, run_scale, scale_accesses, 1},
    {kReadAll, kReadAllSizes, kReadAllOffsets, run_read_all, read_all_accesses, 1},
    {kReadSome, kReadSomeSizes, kReadSomeOffsets, run_read_some, read_some_accesses, 1},
}};

}  // namespace

extern "C" __attribute__((visibility("default"))) std::size_t spillway::kernels::spillway_host_twins(
    const HostTwin** first) {
  *first = kTwins.data();
  return kTwins.size();
}
