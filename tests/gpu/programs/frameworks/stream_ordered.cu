// Stream-ordered memory, from the device's own pool or from one that the program makes: 1.5 GiB at once, and again
// after it was freed.
//   stream_ordered default | explicit
#include <cstring>

#include "program.cuh"

using namespace compatibility;

namespace {

constexpr const char* kRow = "pool";

std::vector<double> round_of(cudaMemPool_t pool, cudaStream_t stream) {
  std::vector<unsigned*> blocks(kBlocks);
  for (unsigned*& block : blocks) {
    void* memory = nullptr;
    check(kRow,
          pool == nullptr ? cudaMallocAsync(&memory, kBlockBytes, stream)
                          : cudaMallocFromPoolAsync(&memory, kBlockBytes, pool, stream),
          "cudaMallocAsync");
    block = static_cast<unsigned*>(memory);
  }
  std::vector<double> values = work_on(kRow, blocks, kWords, stream);
  for (unsigned* block : blocks) check(kRow, cudaFreeAsync(block, stream), "cudaFreeAsync");
  check(kRow, cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return values;
}

}  // namespace

int main(int count, char** words) {
  const bool own = count > 1 && std::strcmp(words[1], "explicit") == 0;
  cudaStream_t stream = nullptr;
  check(kRow, cudaStreamCreate(&stream), "cudaStreamCreate");
  cudaMemPool_t pool = nullptr;
  if (own) {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = 0;
    check(kRow, cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  }
  std::vector<double> values = round_of(pool, stream);
  for (const double value : round_of(pool, stream)) values.push_back(value);
  if (own) check(kRow, cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  return print_result(kRow, values, kBlocks * kBlockBytes, own ? "cudaMallocFromPoolAsync" : "cudaMallocAsync");
}
