#include "shim/window_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway::shim {
namespace {

using policy::Nanoseconds;
using policy::SeenKernel;

TEST(WindowKernels, AGraphLaunchIsOneHoweverManyKernelsItHas) {
  constexpr std::uint64_t kKernels = 1000, kLaunches = 50;
  WindowKernels kernels;
  kernels.add(std::vector<KernelRecord>{{{7}, 1, {42}, 1100, 1400, false}});
  // In any order, and of several launches at a time.
  for (std::uint64_t i = kKernels; i-- > 0;) {
    for (std::uint64_t launch = 0; launch < kLaunches; ++launch) {
      const std::uint64_t start = 10'000 * (launch + 1) + i;
      kernels.add(std::vector<KernelRecord>{{{8 + i % 3}, 2 + launch, {i}, start, start + 5, true}});
    }
  }
  EXPECT_EQ(kernels.kept(), 1 + kLaunches);
  std::vector<SeenKernel> seen = kernels.launches(1000);
  ASSERT_EQ(seen.size(), 1 + kLaunches);
  EXPECT_EQ(seen[0].stream, policy::DeviceStreamId{7});
  EXPECT_EQ(seen[0].key, policy::KernelKey{42});
  EXPECT_EQ(seen[0].start, Nanoseconds(100));
  EXPECT_EQ(seen[0].duration, Nanoseconds(300));
  for (std::uint64_t launch = 0; launch < kLaunches; ++launch) {
    const SeenKernel& graph = seen[1 + launch];
    EXPECT_EQ(graph.stream, policy::kGraphDeviceLane);
    EXPECT_EQ(graph.order, 2 + launch);
    EXPECT_EQ(graph.key, policy::graph_key(kKernels));
    EXPECT_EQ(graph.start, Nanoseconds(static_cast<std::int64_t>(10'000 * (launch + 1) - 1000)));
    EXPECT_EQ(graph.duration, Nanoseconds(kKernels + 4));
  }
  kernels.clear();
  EXPECT_EQ(kernels.kept(), 0U);
}

TEST(WindowKernels, ATimeThatIsNotKnownIsNone) {
  WindowKernels kernels;
  kernels.add(std::vector<KernelRecord>{
      {{7}, 1, {42}, 0, 0, false}, {{7}, 2, {1}, 2000, 2100, true}, {{7}, 2, {1}, 0, 0, true}});
  for (const SeenKernel& seen : kernels.launches(0)) EXPECT_EQ(seen.duration, Nanoseconds());
}

}  // namespace
}  // namespace spillway::shim
