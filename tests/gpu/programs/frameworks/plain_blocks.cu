// cudaMalloc with the static or the shared CUDA runtime: 1.5 GiB in blocks that are mixed with each other.
#include "program.cuh"

using namespace compatibility;

int main() {
  std::vector<unsigned*> blocks(kBlocks);
  for (unsigned*& block : blocks) check("plain", cudaMalloc(&block, kBlockBytes), "cudaMalloc");
  const std::vector<double> values = work_on("plain", blocks, kWords, nullptr);
  for (unsigned* block : blocks) check("plain", cudaFree(block), "cudaFree");
  return print_result("plain", values, kBlocks * kBlockBytes, "cudaMalloc");
}
