// cuBLAS: a chain of matrix products, 1.75 GiB of matrices of small whole numbers, so that the results are exact.
#include <cublas_v2.h>

#include "program.cuh"

using namespace compatibility;

namespace {

constexpr const char* kRow = "cublas";
constexpr int kSide = 8192;
constexpr std::size_t kCount = std::size_t{kSide} * kSide;

__global__ void fill(float* matrix, unsigned seed) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kCount; i += std::size_t{gridDim.x} * blockDim.x) {
    matrix[i] = static_cast<float>((i * 2654435761u + seed) >> 7 & 1);
  }
}

void check_blas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    end_with_error(kRow, std::string(what) + ": " + cublasGetStatusName(status), status == CUBLAS_STATUS_ALLOC_FAILED);
}

}  // namespace

int main() {
  std::vector<float*> matrices(7);
  for (float*& matrix : matrices) check(kRow, cudaMalloc(&matrix, kCount * sizeof(float)), "cudaMalloc");
  for (std::size_t i = 0; i < matrices.size(); ++i) fill<<<1024, 256>>>(matrices[i], static_cast<unsigned>(i));
  cublasHandle_t handle = nullptr;
  check_blas(cublasCreate(&handle), "cublasCreate");
  const float one = 1, zero = 0;
  std::vector<double> values;
  for (std::size_t i = 0; i + 2 < matrices.size(); i += 2) {
    check_blas(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide, kSide, kSide, &one, matrices[i], kSide,
                           matrices[i + 1], kSide, &zero, matrices.back(), kSide),
               "cublasSgemm");
    float sum = 0;
    check_blas(cublasSasum(handle, kSide, matrices.back() + i * kSide, 1, &sum), "cublasSasum");
    values.push_back(sum);
  }
  check(kRow, cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_blas(cublasDestroy(handle), "cublasDestroy");
  return print_result(kRow, values, matrices.size() * kCount * sizeof(float), "cudaMalloc and the library's workspace");
}
