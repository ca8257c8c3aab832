// Capture: what is recorded, what is forbidden, and what the relaxed mode allows.
#include <thread>

#include "tests/simulated_device/driver_fixture.hpp"

namespace spillway::simulated {
namespace {

class Capture : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    stream_ = stream();
    data_ = managed(kTestChunk);
    ASSERT_EQ(cuMemsetD8_v2(data_, 0, kTestChunk), CUDA_SUCCESS);
  }
  void begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_EQ(cuStreamBeginCapture_v2(stream_, mode), CUDA_SUCCESS);
    ASSERT_EQ(launch(data_, kTestChunk, stream_), CUDA_SUCCESS);
  }
  CUresult end(CUgraph* graph = nullptr) {
    CUgraph unused = nullptr;
    return cuStreamEndCapture(stream_, graph != nullptr ? graph : &unused);
  }

  CUstream stream_ = nullptr;
  CUdeviceptr data_ = 0;
};

TEST_F(Capture, RecordsKernelCopyAndFillAndRunsThem) {
  const CUdeviceptr copy = plain(kTestChunk);
  begin();
  ASSERT_EQ(cuMemcpyDtoDAsync_v2(copy, data_, kTestChunk, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32Async(data_, 0, kTestChunk / 4, stream_), CUDA_SUCCESS);
  EXPECT_EQ(statistics().launches, before_.launches);  // nothing ran yet
  CUgraph graph = nullptr;
  ASSERT_EQ(end(&graph), CUDA_SUCCESS);
  std::size_t count = 3;
  std::array<CUgraphNode, 3> nodes{};
  ASSERT_EQ(cuGraphGetNodes(graph, nodes.data(), &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 3U);
  std::array<CUgraphNodeType, 3> types{};
  for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(cuGraphNodeGetType(nodes[i], &types[i]), CUDA_SUCCESS);
  EXPECT_EQ(types, (std::array{CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET}));
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(at(copy), 1.0F);
  EXPECT_EQ(at(data_), 0.0F);
  EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(Capture, KernelNodeParametersNameTheKernelAndItsPointers) {
  begin();
  CUgraph graph = nullptr;
  ASSERT_EQ(end(&graph), CUDA_SUCCESS);
  CUgraphNode node = nullptr;
  std::size_t count = 1;
  ASSERT_EQ(cuGraphGetNodes(graph, &node, &count), CUDA_SUCCESS);
  CUDA_KERNEL_NODE_PARAMS parameters{};
  ASSERT_EQ(cuGraphKernelNodeGetParams_v2(node, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(parameters.kern, add_one_);
  EXPECT_EQ(reinterpret_cast<CUkernel>(parameters.func), add_one_);
  EXPECT_EQ(*static_cast<CUdeviceptr*>(parameters.kernelParams[0]), data_);

  const CUdeviceptr other = plain(kTestChunk);
  ASSERT_EQ(cuMemsetD8_v2(other, 0, kTestChunk), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuGraphInstantiate_v2(&executable, graph, nullptr, nullptr, 0), CUDA_SUCCESS);
  CUdeviceptr changed = other;
  int elements = 4;
  void* values[] = {&changed, &elements};
  parameters.kernelParams = values;
  ASSERT_EQ(cuGraphExecKernelNodeSetParams_v2(executable, node, &parameters), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(at(other), 1.0F);
  EXPECT_EQ(at(data_), 0.0F);
  CUgraphExecUpdateResultInfo result{};
  ASSERT_EQ(cuGraphExecUpdate_v2(executable, graph, &result), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(at(data_), 1.0F);
}

TEST_F(Capture, PrefetchOnTheCapturingStreamFailsAndSpoilsIt) {
  begin();
  EXPECT_EQ(cuMemPrefetchAsync_v2(data_, kTestChunk, kOnDevice, 0, stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(launch(data_, kTestChunk, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, PrefetchOnAnotherStreamIsFineFromAnyThread) {
  const CUstream other = stream();
  begin();
  EXPECT_EQ(cuMemPrefetchAsync_v2(data_, kTestChunk, kOnDevice, 0, other), CUDA_SUCCESS);
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemPrefetchAsync_v2(data_, kTestChunk, kOnHost, 0, other), CUDA_SUCCESS);
  }).join();
  EXPECT_EQ(end(), CUDA_SUCCESS);
}

TEST_F(Capture, ManagedAllocationInGlobalModeFailsAndSpoilsIt) {
  begin();
  CUdeviceptr p = 0;
  EXPECT_EQ(cuMemAllocManaged(&p, kTestChunk, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, AGlobalCaptureOfAnotherThreadForbidsToo) {
  begin();
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    CUdeviceptr p = 0;
    EXPECT_EQ(cuMemAlloc_v2(&p, kTestChunk), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, AThreadLocalCaptureLeavesOtherThreadsAlone) {
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    CUdeviceptr p = 0;
    EXPECT_EQ(cuMemAlloc_v2(&p, kTestChunk), CUDA_SUCCESS);
  }).join();
  EXPECT_EQ(end(), CUDA_SUCCESS);
}

TEST_F(Capture, RelaxedExchangeAllowsAllocationAdviceAndPrefetchElsewhere) {
  const CUstream other = stream();
  for (const auto mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    begin(mode);
    CUstreamCaptureMode exchanged = CU_STREAM_CAPTURE_MODE_RELAXED;
    ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&exchanged), CUDA_SUCCESS);
    EXPECT_EQ(exchanged, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr p = 0;
    EXPECT_EQ(cuMemAllocManaged(&p, kTestChunk, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAdvise_v2(p, kTestChunk, CU_MEM_ADVISE_SET_ACCESSED_BY, kOnDevice), CUDA_SUCCESS);
    EXPECT_EQ(cuMemPrefetchAsync_v2(p, kTestChunk, kOnDevice, 0, other), CUDA_SUCCESS);
    ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&exchanged), CUDA_SUCCESS);
    EXPECT_EQ(exchanged, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(end(), CUDA_SUCCESS);
  }
}

TEST_F(Capture, SynchronizingOrQueryingTheCapturingStreamSpoilsIt) {
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, TheLegacyStreamIsRefusedWhileABlockingStreamCaptures) {
  stream_ = stream(CU_STREAM_DEFAULT);
  begin();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  ASSERT_EQ(cuStreamIsCapturing(stream_, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);  // asking does no harm
  EXPECT_EQ(launch(data_, kTestChunk, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(Capture, EndsWithItsStreamAndItsContext) {
  CUdeviceptr memory = 0;
  begin();
  EXPECT_EQ(cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&memory, kTestChunk), CUDA_SUCCESS);
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream_, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_SUCCESS);
  EXPECT_EQ(launch(data_, kTestChunk, nullptr), CUDA_SUCCESS);
}

TEST_F(Capture, StreamsJoinThroughEventsAndMustJoinBack) {
  const CUstream side = stream();
  CUevent fork = nullptr;
  CUevent join = nullptr;
  ASSERT_EQ(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  for (const bool joins_back : {true, false}) {
    begin();
    ASSERT_EQ(cuEventRecord(fork, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamWaitEvent(side, fork, 0), CUDA_SUCCESS);
    ASSERT_EQ(launch(data_, kTestChunk, side), CUDA_SUCCESS);
    if (joins_back) {
      ASSERT_EQ(cuEventRecord(join, side), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamWaitEvent(stream_, join, 0), CUDA_SUCCESS);
    }
    EXPECT_EQ(end(), joins_back ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  }
}

}  // namespace
}  // namespace spillway::simulated
