// Map-style memory by the driver's own functions: reserve a range, make physical memory, map it, allow access, and take
// it all apart.
#include <cuda.h>

#include "program.cuh"

using namespace compatibility;

namespace {

constexpr const char* kRow = "mapped";

void check_driver(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  const char* name = nullptr;
  cuGetErrorName(code, &name);
  end_with_error(kRow, std::string(what) + ": " + (name == nullptr ? "unknown code" : name),
                 code == CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace

int main() {
  check(kRow, cudaFree(nullptr), "cudaFree");  // makes the primary context
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr range = 0;
  check_driver(cuMemAddressReserve(&range, kBlocks * kBlockBytes, 0, 0, 0), "cuMemAddressReserve");
  std::vector<CUmemGenericAllocationHandle> handles(kBlocks);
  std::vector<unsigned*> blocks(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const CUdeviceptr place = range + i * kBlockBytes;
    check_driver(cuMemCreate(&handles[i], kBlockBytes, &properties, 0), "cuMemCreate");
    check_driver(cuMemMap(place, kBlockBytes, 0, handles[i], 0), "cuMemMap");
    check_driver(cuMemSetAccess(place, kBlockBytes, &access, 1), "cuMemSetAccess");
    blocks[i] = reinterpret_cast<unsigned*>(place);
  }
  const std::vector<double> values = work_on(kRow, blocks, kWords, nullptr);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    check_driver(cuMemUnmap(range + i * kBlockBytes, kBlockBytes), "cuMemUnmap");
    check_driver(cuMemRelease(handles[i]), "cuMemRelease");
  }
  check_driver(cuMemAddressFree(range, kBlocks * kBlockBytes), "cuMemAddressFree");
  return print_result(kRow, values, kBlocks * kBlockBytes, "cuMemCreate and cuMemMap");
}
