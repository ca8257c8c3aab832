// cuFFT: signals of 256 MiB there and back; the library takes a work area of its own.
#include <cufft.h>

#include "program.cuh"

using namespace compatibility;

namespace {

constexpr const char* kRow = "cufft";
constexpr int kLength = 1 << 20, kBatch = 32;
constexpr std::size_t kCount = std::size_t{kLength} * kBatch;

__global__ void fill(cufftComplex* signal, unsigned seed) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < kCount; i += std::size_t{gridDim.x} * blockDim.x) {
    signal[i] = {static_cast<float>((i + seed) % 17), static_cast<float>((i * 3 + seed) % 13)};
  }
}

void check_fft(cufftResult code, const char* what) {
  if (code != CUFFT_SUCCESS)
    end_with_error(kRow, std::string(what) + ": code " + std::to_string(code), code == CUFFT_ALLOC_FAILED);
}

}  // namespace

int main() {
  std::vector<cufftComplex*> signals(5);
  for (cufftComplex*& signal : signals) check(kRow, cudaMalloc(&signal, kCount * sizeof(cufftComplex)), "cudaMalloc");
  cufftHandle plan = 0;
  check_fft(cufftCreate(&plan), "cufftCreate");
  std::size_t work_bytes = 0;
  check_fft(cufftMakePlan1d(plan, kLength, CUFFT_C2C, kBatch, &work_bytes), "cufftMakePlan1d");
  std::vector<double> values;
  std::vector<cufftComplex> some(4096);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < signals.size(); ++i) {
      fill<<<1024, 256>>>(signals[i], static_cast<unsigned>(i));
      check_fft(cufftExecC2C(plan, signals[i], signals[i], CUFFT_FORWARD), "cufftExecC2C forward");
      check_fft(cufftExecC2C(plan, signals[i], signals[i], CUFFT_INVERSE), "cufftExecC2C inverse");
    }
    for (cufftComplex* signal : signals) {
      check(kRow,
            cudaMemcpy(some.data(), signal + kCount / 2, some.size() * sizeof(cufftComplex), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
      double sum = 0;
      for (const cufftComplex& one : some) sum += one.x + 2.0 * one.y;
      values.push_back(sum / kLength);
    }
  }
  check_fft(cufftDestroy(plan), "cufftDestroy");
  return print_result(kRow, values, signals.size() * kCount * sizeof(cufftComplex) + work_bytes,
                      "cudaMalloc and the library's work area");
}
