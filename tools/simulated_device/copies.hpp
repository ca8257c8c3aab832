// Copies and fills, in one form each: up to three dimensions, addresses resolved. World's lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tools/simulated_device/entry_points.hpp"
#include "tools/simulated_device/residency.hpp"

namespace spillway::simulated {

struct Copy {
  std::uint64_t destination = 0;
  std::uint64_t source = 0;
  std::size_t width = 0;  // bytes
  std::size_t height = 1;
  std::size_t depth = 1;
  std::size_t destination_pitch = 0, destination_height = 1;
  std::size_t source_pitch = 0, source_height = 1;
  int device = 0;
};

struct Fill {
  std::uint64_t destination = 0;
  unsigned value = 0;
  unsigned element = 1;   // bytes: 1, 2 or 4
  std::size_t width = 0;  // elements
  std::size_t height = 1;
  std::size_t pitch = 0;
  int device = 0;
};

// Whether the driver would accept it: both ranges inside live memory.
CUresult check(const Copy& copy);
CUresult check(const Fill& fill);

// Performs it; returns the virtual time it ends.
std::int64_t run_copy(const Copy& copy, std::int64_t start);
std::int64_t run_fill(const Fill& fill, std::int64_t start);

CUresult from_parameters(const CUDA_MEMCPY3D& parameters, int device, Copy& out);
CUDA_MEMCPY3D to_parameters(const Copy& copy);

// True when the copy reads or writes ordinary host memory, which the driver stages: such calls wait for their stream.
bool touches_pageable(const Copy& copy);

// Calls `piece` for each allocation the range lies in, in order; false when a part of it lies in none.
bool for_each_piece(std::uint64_t address, std::uint64_t bytes,
                    const std::function<void(Allocation&, std::uint64_t address, std::uint64_t bytes)>& piece);

}  // namespace spillway::simulated
