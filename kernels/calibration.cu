// What `spillway probe` runs to learn a machine, and page check-sums. Built to a fat binary of its own and loaded
// through the driver (no CUDA runtime enters the host program). Names and parameters: kernels/calibration.hpp. A
// "vector" is 16 bytes. Whatever is read ends in *sink by exclusive or, so that no read can be optimised away and a
// host twin gives the same value.
#include "kernels/arithmetic.hpp"

namespace {

using Word = unsigned long long;

__device__ Word first_vector() { return Word{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ Word vector_stride() { return Word{gridDim.x} * blockDim.x; }
__device__ Word fold(const ulonglong2& vector) { return vector.x ^ vector.y; }

__device__ void into_sink(Word* sink, Word value) {
  for (int lane = 16; lane > 0; lane /= 2) value ^= __shfl_down_sync(0xFFFFFFFFU, value, lane);
  if (threadIdx.x % 32 == 0) atomicXor(sink, value);
}

}  // namespace

extern "C" __global__ void spillway_stream_read(const ulonglong2* source, Word vectors, Word* sink) {
  Word value = 0;
  for (Word i = first_vector(); i < vectors; i += vector_stride()) value ^= fold(source[i]);
  into_sink(sink, value);
}

extern "C" __global__ void spillway_stream_write(ulonglong2* destination, Word vectors, Word value) {
  for (Word i = first_vector(); i < vectors; i += vector_stride())
    destination[i] = make_ulonglong2(value ^ i, value + i);
}

// May be in place: then it reads and writes every vector once.
extern "C" __global__ void spillway_stream_copy(ulonglong2* destination, const ulonglong2* source, Word vectors) {
  for (Word i = first_vector(); i < vectors; i += vector_stride()) destination[i] = source[i];
}

// Reads `reads` rows, chosen by a counter-based generator; a warp a row.
extern "C" __global__ void spillway_gather(const ulonglong2* source, Word rows, Word vectors_per_row, Word reads,
                                           Word seed, Word* sink) {
  Word value = 0;
  const Word warps = vector_stride() / 32;
  for (Word read = first_vector() / 32; read < reads; read += warps) {
    const Word row = workload::mix(seed ^ workload::mix(read)) % rows;
    for (Word i = threadIdx.x % 32; i < vectors_per_row; i += 32) value ^= fold(source[row * vectors_per_row + i]);
  }
  into_sink(sink, value);
}

// Reads everything `passes` times, tile by tile, each pass by another block: as the blocks of a large product read an
// operand again. An even number of passes leaves *sink as it was.
extern "C" __global__ void spillway_tiled_reread(const ulonglong2* source, Word vectors, Word vectors_per_tile,
                                                 Word passes, Word* sink) {
  Word value = 0;
  const Word tiles = (vectors + vectors_per_tile - 1) / vectors_per_tile;
  for (Word pass = 0; pass < passes; ++pass) {
    for (Word tile = (blockIdx.x + pass) % gridDim.x; tile < tiles; tile += gridDim.x) {
      const Word end = min(vectors, (tile + 1) * vectors_per_tile);
      for (Word i = tile * vectors_per_tile + threadIdx.x; i < end; i += blockDim.x) value ^= fold(source[i]);
    }
  }
  into_sink(sink, value);
}

// One sum per page, equal only if the page is (but for one chance in 2^64); a block a page, pages beyond the grid by
// stride.
extern "C" __global__ void spillway_page_checksums(const ulonglong2* source, Word vectors, Word vectors_per_page,
                                                   Word* checksums) {
  __shared__ Word partial[32];
  const Word pages = (vectors + vectors_per_page - 1) / vectors_per_page;
  for (Word page = blockIdx.x; page < pages; page += gridDim.x) {
    const Word begin = page * vectors_per_page;
    const Word end = min(vectors, begin + vectors_per_page);
    Word sum = 0;
    for (Word i = begin + threadIdx.x; i < end; i += blockDim.x) {
      sum += workload::mix(workload::mix(2 * (i - begin)) ^ source[i].x);
      sum += workload::mix(workload::mix(2 * (i - begin) + 1) ^ source[i].y);
    }
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xFFFFFFFFU, sum, lane);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += partial[warp];
      checksums[page] = sum;
    }
    __syncthreads();
  }
}
