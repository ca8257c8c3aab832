// Host twins of kernels/calibration.cu; exact, since everything there is integers. Two words make a vector of 16 bytes.
#include <algorithm>
#include <cstring>

#include "kernels/arithmetic.hpp"
#include "kernels/calibration.hpp"
#include "kernels/twins/twin.hpp"

namespace spillway::kernels {
namespace {

using Word = std::uint64_t;

Word fold(const Word* words, Word count) {
  Word value = 0;
  for (Word i = 0; i < count; ++i) value ^= words[i];
  return value;
}

void run_stream_read(const LaunchGeometry&, const Word* source, Word vectors, Word* sink) {
  *sink ^= fold(source, 2 * vectors);
}
void touch_stream_read(Touched& touched, const Word* source, Word vectors, Word* sink) {
  touched.reads(source, 2 * vectors);
  touched.writes(sink, 1);
}

void run_stream_write(const LaunchGeometry&, Word* destination, Word vectors, Word value) {
  for (Word i = 0; i < vectors; ++i) {
    destination[2 * i] = value ^ i;
    destination[2 * i + 1] = value + i;
  }
}
void touch_stream_write(Touched& touched, Word* destination, Word vectors, Word) {
  touched.writes(destination, 2 * vectors);
}

void run_stream_copy(const LaunchGeometry&, Word* destination, const Word* source, Word vectors) {
  std::memmove(destination, source, vectors * kVectorBytes);
}
void touch_stream_copy(Touched& touched, Word* destination, const Word* source, Word vectors) {
  if (source != destination) touched.reads(source, 2 * vectors);
  touched.writes(destination, 2 * vectors);
}

Word gathered_row(Word seed, Word read, Word rows) { return workload::mix(seed ^ workload::mix(read)) % rows; }

void run_gather(const LaunchGeometry&, const Word* source, Word rows, Word vectors_per_row, Word reads, Word seed,
                Word* sink) {
  for (Word read = 0; read < reads; ++read) {
    *sink ^= fold(source + 2 * vectors_per_row * gathered_row(seed, read, rows), 2 * vectors_per_row);
  }
}
void touch_gather(Touched& touched, const Word* source, Word rows, Word vectors_per_row, Word reads, Word seed,
                  Word* sink) {
  for (Word read = 0; read < reads; ++read) {
    touched.reads(source + 2 * vectors_per_row * gathered_row(seed, read, rows), 2 * vectors_per_row);
  }
  touched.writes(sink, 1);
}

void run_tiled_reread(const LaunchGeometry&, const Word* source, Word vectors, Word, Word passes, Word* sink) {
  // Reading twice cancels out, on the device as well.
  if (passes % 2 == 1) *sink ^= fold(source, 2 * vectors);
}
void touch_tiled_reread(Touched& touched, const Word* source, Word vectors, Word, Word passes, Word* sink) {
  touched.reads(source, 2 * vectors, static_cast<float>(passes));
  touched.writes(sink, 1);
}

void run_page_checksums(const LaunchGeometry&, const Word* source, Word vectors, Word vectors_per_page,
                        Word* checksums) {
  for (Word begin = 0; begin < vectors; begin += vectors_per_page) {
    const Word words = 2 * std::min(vectors_per_page, vectors - begin);
    Word sum = 0;
    for (Word i = 0; i < words; ++i) sum += workload::mix(workload::mix(i) ^ source[2 * begin + i]);
    checksums[begin / vectors_per_page] = sum;
  }
}
void touch_page_checksums(Touched& touched, const Word* source, Word vectors, Word vectors_per_page, Word* checksums) {
  touched.reads(source, 2 * vectors);
  touched.writes(checksums, (vectors + vectors_per_page - 1) / vectors_per_page);
}

}  // namespace

std::vector<HostTwin> calibration_twins() {
  return {
      make_twin<&run_stream_read, &touch_stream_read>(StreamRead::kName, 2),
      make_twin<&run_stream_write, &touch_stream_write>(StreamWrite::kName, 2),
      make_twin<&run_stream_copy, &touch_stream_copy>(StreamCopy::kName, 0),
      make_twin<&run_gather, &touch_gather>(Gather::kName, 8),
      make_twin<&run_tiled_reread, &touch_tiled_reread>(TiledReread::kName, 2),
      make_twin<&run_page_checksums, &touch_page_checksums>(PageChecksums::kName, 16),
  };
}

}  // namespace spillway::kernels
