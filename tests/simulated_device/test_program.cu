// An ordinary CUDA program: allocates, copies, launches, captures a graph, asks questions. Exit code 0 when all is
// right; the first wrong thing is named on stderr.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/simulated_device/test_kernels.hpp"

__device__ float bias[4];

__global__ void add_one(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += 1.0F;
}
__global__ void scale(const float* from, float* to, float factor, Extent extent) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * extent.stride;
  if (i < extent.count) to[i] = from[i] * factor;
}
__global__ void no_twin(float* data) { data[0] = 0; }

static void expect(bool right, const char* what, int line) {
  if (right) return;
  std::fprintf(stderr, "line %d: wrong: %s (last error %s)\n", line, what, cudaGetErrorName(cudaPeekAtLastError()));
  std::exit(1);
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define WORKS(call) expect((call) == cudaSuccess, #call, __LINE__)

static void copies_and_launches() {
  constexpr int count = 100'000;
  std::vector<float> host(count, 1.0F);
  float* a = nullptr;
  float* b = nullptr;
  WORKS(cudaMalloc(&a, count * sizeof(float)));
  WORKS(cudaMalloc(&b, count * sizeof(float)));
  WORKS(cudaMemcpy(a, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  WORKS(cudaMemset(b, 0, count * sizeof(float)));
  add_one<<<(count + 255) / 256, 256>>>(a, count);
  scale<<<(count + 255) / 256, 256>>>(a, b, 3.0F, Extent{count, 1});
  WORKS(cudaGetLastError());
  WORKS(cudaMemcpy(host.data(), b, count * sizeof(float), cudaMemcpyDeviceToHost));
  for (float value : host) EXPECT(value == 6.0F);
  WORKS(cudaFree(a));
  WORKS(cudaFree(b));
}

static void streams_events_graphs() {
  constexpr int count = 4096;
  float* managed = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  WORKS(cudaMallocManaged(&managed, count * sizeof(float)));
  WORKS(cudaStreamCreate(&stream));
  WORKS(cudaEventCreate(&start));
  WORKS(cudaEventCreate(&end));
  WORKS(cudaMemPrefetchAsync(managed, count * sizeof(float), cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0, stream));
  WORKS(cudaMemsetAsync(managed, 0, count * sizeof(float), stream));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add_one<<<count / 256, 256, 0, stream>>>(managed, count);
  add_one<<<count / 256, 256, 0, stream>>>(managed, count);
  WORKS(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  WORKS(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 2);
  WORKS(cudaGraphInstantiate(&executable, graph, 0));
  WORKS(cudaEventRecord(start, stream));
  for (int i = 0; i < 3; ++i) WORKS(cudaGraphLaunch(executable, stream));
  WORKS(cudaEventRecord(end, stream));
  WORKS(cudaStreamSynchronize(stream));
  float milliseconds = 0;
  WORKS(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds > 0);
  EXPECT(managed[0] == 6.0F && managed[count - 1] == 6.0F);
  WORKS(cudaGraphExecDestroy(executable));
  WORKS(cudaGraphDestroy(graph));
  WORKS(cudaEventDestroy(start));
  WORKS(cudaEventDestroy(end));
  WORKS(cudaStreamDestroy(stream));
  WORKS(cudaFree(managed));
}

static void questions() {
  int count = 0;
  WORKS(cudaGetDeviceCount(&count));
  EXPECT(count == 1);
  cudaDeviceProp properties;
  WORKS(cudaGetDeviceProperties(&properties, 0));
  size_t free = 0;
  size_t total = 0;
  WORKS(cudaMemGetInfo(&free, &total));
  EXPECT(total == properties.totalGlobalMem && free < total);
  void* host = nullptr;
  void* device = nullptr;
  WORKS(cudaMallocHost(&host, 64));
  WORKS(cudaMallocAsync(&device, 1 << 20, 0));
  cudaPointerAttributes attributes;
  WORKS(cudaPointerGetAttributes(&attributes, host));
  EXPECT(attributes.type == cudaMemoryTypeHost);
  WORKS(cudaPointerGetAttributes(&attributes, device));
  EXPECT(attributes.type == cudaMemoryTypeDevice);
  WORKS(cudaPointerGetAttributes(&attributes, &count));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  const float values[4] = {1, 2, 3, 4};
  float back[4] = {};
  WORKS(cudaMemcpyToSymbol(bias, values, sizeof values));
  WORKS(cudaMemcpyFromSymbol(back, bias, sizeof back));
  EXPECT(back[3] == 4);
  int blocks = 0;
  WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add_one, 256, 0));
  EXPECT(blocks == 8);
  WORKS(cudaFreeAsync(device, 0));
  WORKS(cudaFreeHost(host));
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  WORKS(cudaGetDriverEntryPointByVersion("cuMemAlloc", &entry, 12000, cudaEnableDefault, &found));
  EXPECT(entry != nullptr && found == cudaDriverEntryPointSuccess);
}

static void errors() {
  void* pointer = nullptr;
  EXPECT(cudaMalloc(&pointer, size_t{1} << 40) == cudaErrorMemoryAllocation);
  EXPECT(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaSuccess);
  no_twin<<<1, 1>>>(static_cast<float*>(nullptr));
  EXPECT(cudaGetLastError() == cudaErrorSymbolNotFound);
}

int main(int argc, char**) {
  copies_and_launches();
  streams_events_graphs();
  questions();
  if (argc > 1) errors();
  WORKS(cudaDeviceSynchronize());
  std::puts("all right");
  return 0;
}
