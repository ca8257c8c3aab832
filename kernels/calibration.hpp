// The calibration and check-sum kernels, for whoever loads them through the driver: names, and parameters in order.
//
//   CUmodule module; cuModuleLoadData(&module, calibration_image().data());
//   cuModuleGetFunction(&function, module, StreamRead::kName);
//   StreamRead read{.source = address, .vectors = bytes / kVectorBytes, .sink = sink};
//   auto arguments = read.arguments(); cuLaunchKernel(function, blocks,1,1, kBlockThreads,1,1, 0, stream,
//   arguments.data(), nullptr);
//
// Every block has kBlockThreads threads; any number of blocks is right. Addresses are device pointers, 16-byte aligned.
// `sink` points at 8 bytes of device memory that take the exclusive or of everything read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace spillway::kernels {

inline constexpr unsigned kBlockThreads = 256;
inline constexpr std::size_t kVectorBytes = 16;

// The fat binary (sm_80, sm_90 and PTX for later ones), linked into Spillway::calibration_kernels. Never changes; empty
// in a build without the CUDA toolkit.
std::span<const std::byte> calibration_image();

struct StreamRead {
  static constexpr const char* kName = "spillway_stream_read";
  std::uint64_t source = 0, vectors = 0, sink = 0;
  std::array<void*, 3> arguments() { return {&source, &vectors, &sink}; }
};

struct StreamWrite {
  static constexpr const char* kName = "spillway_stream_write";
  std::uint64_t destination = 0, vectors = 0, value = 0;
  std::array<void*, 3> arguments() { return {&destination, &vectors, &value}; }
};

// destination == source is allowed: every vector is read and written once, in place.
struct StreamCopy {
  static constexpr const char* kName = "spillway_stream_copy";
  std::uint64_t destination = 0, source = 0, vectors = 0;
  std::array<void*, 3> arguments() { return {&destination, &source, &vectors}; }
};

// `reads` random rows of `vectors_per_row` vectors out of `rows`.
struct Gather {
  static constexpr const char* kName = "spillway_gather";
  std::uint64_t source = 0, rows = 0, vectors_per_row = 0, reads = 0, seed = 0, sink = 0;
  std::array<void*, 6> arguments() { return {&source, &rows, &vectors_per_row, &reads, &seed, &sink}; }
};

// Everything `passes` times, tile by tile, each pass by another block.
struct TiledReread {
  static constexpr const char* kName = "spillway_tiled_reread";
  std::uint64_t source = 0, vectors = 0, vectors_per_tile = 0, passes = 0, sink = 0;
  std::array<void*, 5> arguments() { return {&source, &vectors, &vectors_per_tile, &passes, &sink}; }
};

// `checksums` takes one 8-byte sum for each page of `vectors_per_page` vectors, the last page possibly short.
struct PageChecksums {
  static constexpr const char* kName = "spillway_page_checksums";
  std::uint64_t source = 0, vectors = 0, vectors_per_page = 0, checksums = 0;
  std::array<void*, 4> arguments() { return {&source, &vectors, &vectors_per_page, &checksums}; }
};

}  // namespace spillway::kernels
