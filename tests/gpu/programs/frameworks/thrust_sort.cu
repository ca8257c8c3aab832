// Thrust: device vectors filled, sorted and reduced; the sort takes temporary memory of the vectors' size.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/tabulate.h>

#include <new>

#include "program.cuh"

using namespace compatibility;

namespace {

constexpr const char* kRow = "thrust";
constexpr std::size_t kVectors = 40, kCount = std::size_t{8} << 20;

struct Scattered {
  unsigned seed;
  __host__ __device__ unsigned operator()(std::size_t i) const { return static_cast<unsigned>(i) * 2654435761u + seed; }
};

std::vector<double> sort_all() {
  std::vector<thrust::device_vector<unsigned>> vectors(kVectors);
  std::vector<double> values;
  for (std::size_t i = 0; i < kVectors; ++i) {
    vectors[i].resize(kCount);
    thrust::tabulate(vectors[i].begin(), vectors[i].end(), Scattered{static_cast<unsigned>(i)});
  }
  // A few of them: on the host a sort's scattered writes cross the link by 32 bytes each.
  for (std::size_t i = 0; i < kVectors; i += 8) {
    thrust::device_vector<unsigned>& vector = vectors[i];
    thrust::sort(vector.begin(), vector.end());
    values.push_back(static_cast<double>(thrust::reduce(vector.begin(), vector.end(), 0ull)));
    for (const std::size_t place : {kCount / 7, kCount / 2, kCount - 1}) values.push_back(vector[place]);
  }
  return values;
}

}  // namespace

int main() {
  try {
    return print_result(kRow, sort_all(), (kVectors + 1) * kCount * sizeof(unsigned),
                        "cudaMalloc by thrust::device_vector");
  } catch (const std::bad_alloc& error) {
    end_with_error(kRow, error.what(), true);
  } catch (const std::exception& error) {
    end_with_error(kRow, error.what(), false);
  }
}
