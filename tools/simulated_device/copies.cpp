#include "tools/simulated_device/copies.hpp"

#include <algorithm>
#include <cstring>

#include "tools/simulated_device/costs.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

enum class Side { device, pinned, pageable };

Side side_of(std::uint64_t address) {
  const Allocation* allocation = world().memory.containing(address);
  if (allocation == nullptr) return Side::pageable;
  const bool host = allocation->kind == MemoryKind::pinned || allocation->kind == MemoryKind::registered;
  return host ? Side::pinned : Side::device;
}

std::size_t span_bytes(std::size_t width, std::size_t height, std::size_t depth, std::size_t pitch,
                       std::size_t slice_height) {
  if (width == 0 || height == 0 || depth == 0) return 0;
  return ((depth - 1) * slice_height + (height - 1)) * pitch + width;
}

bool inside_live_memory(std::uint64_t address, std::size_t bytes) {
  MemoryMap& memory = world().memory;
  if (!memory.is_device_address(address)) {
    const Allocation* pinned = memory.containing(address);
    return address != 0 && (pinned == nullptr || address + bytes <= pinned->address + pinned->bytes ||
                            pinned->kind == MemoryKind::registered);
  }
  bool accessible = true;
  const bool complete = for_each_piece(address, bytes, [&](Allocation& piece, std::uint64_t, std::uint64_t) {
    accessible = accessible && piece.accessible;
  });
  return complete && accessible;
}

// Residency of a managed range, as the copy engine sees it.
Touch touch(std::uint64_t address, std::size_t bytes, int device, AccessKind kind) {
  Touch total;
  for_each_piece(address, bytes, [&](Allocation& piece, std::uint64_t start, std::uint64_t length) {
    if (piece.kind == MemoryKind::managed) {
      total += touch_managed(piece, start, length, device, kind);
    } else {
      total.local_bytes += length;
    }
  });
  return total;
}

std::size_t destination_span(const Copy& copy) {
  return span_bytes(copy.width, copy.height, copy.depth, copy.destination_pitch, copy.destination_height);
}

std::size_t source_span(const Copy& copy) {
  return span_bytes(copy.width, copy.height, copy.depth, copy.source_pitch, copy.source_height);
}

void move_bytes(const Copy& copy) {
  for (std::size_t z = 0; z < copy.depth; ++z) {
    for (std::size_t y = 0; y < copy.height; ++y) {
      std::memmove(
          reinterpret_cast<void*>(copy.destination + (z * copy.destination_height + y) * copy.destination_pitch),
          reinterpret_cast<const void*>(copy.source + (z * copy.source_height + y) * copy.source_pitch), copy.width);
    }
  }
}

// The link carries one transfer each way at a time.
std::int64_t over_link(std::int64_t& link_free, std::int64_t start, std::int64_t time) {
  link_free = std::max(link_free, start) + time;
  return link_free;
}

CUresult resolve(CUmemorytype type, const void* host, CUdeviceptr device, CUarray array, std::size_t& pitch,
                 std::size_t width_needed, std::uint64_t& base) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      base = reinterpret_cast<std::uint64_t>(host);
      break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      base = device;
      break;
    case CU_MEMORYTYPE_ARRAY: {
      const Allocation* allocation = world().memory.exact(reinterpret_cast<std::uint64_t>(array));
      if (allocation == nullptr || allocation->kind != MemoryKind::array) return CUDA_ERROR_INVALID_HANDLE;
      base = allocation->address;
      pitch = allocation->flags;  // an array's row pitch: see arrays.cpp
      break;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (pitch == 0) pitch = width_needed;
  return pitch < width_needed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

bool for_each_piece(std::uint64_t address, std::uint64_t bytes,
                    const std::function<void(Allocation&, std::uint64_t address, std::uint64_t bytes)>& piece) {
  while (bytes > 0) {
    Allocation* allocation = world().memory.containing(address);
    if (allocation == nullptr) return false;
    const std::uint64_t length = std::min(bytes, allocation->address + allocation->bytes - address);
    piece(*allocation, address, length);
    address += length;
    bytes -= length;
  }
  return true;
}

CUresult check(const Copy& copy) {
  if (destination_span(copy) == 0) return CUDA_SUCCESS;
  if (copy.height > 1 && (copy.destination_pitch < copy.width || copy.source_pitch < copy.width))
    return CUDA_ERROR_INVALID_VALUE;
  const bool good = inside_live_memory(copy.destination, destination_span(copy)) &&
                    inside_live_memory(copy.source, source_span(copy));
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult check(const Fill& fill) {
  const std::size_t bytes = span_bytes(fill.width * fill.element, fill.height, 1, fill.pitch, 1);
  if (bytes == 0) return CUDA_SUCCESS;
  if (fill.destination % fill.element != 0 || (fill.height > 1 && fill.pitch < fill.width * fill.element))
    return CUDA_ERROR_INVALID_VALUE;
  const bool known = world().memory.containing(fill.destination) != nullptr;
  return known && inside_live_memory(fill.destination, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool touches_pageable(const Copy& copy) {
  return side_of(copy.destination) == Side::pageable || side_of(copy.source) == Side::pageable;
}

std::int64_t run_copy(const Copy& copy, std::int64_t start) {
  const std::size_t bytes = copy.width * copy.height * copy.depth;
  if (bytes == 0) return start;
  if (check(copy) != CUDA_SUCCESS) {  // freed since it was enqueued
    world().sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    return start;
  }
  World& w = world();
  Device& card = w.devices[static_cast<std::size_t>(copy.device)];
  const Side from = side_of(copy.source);
  const Side to = side_of(copy.destination);
  std::int64_t time = 0;
  if (from == Side::device) time += cost_of(touch(copy.source, source_span(copy), copy.device, AccessKind::read));
  if (to == Side::device)
    time += cost_of(touch(copy.destination, destination_span(copy), copy.device, AccessKind::write));
  move_bytes(copy);
  if (from == to && from == Side::device) return start + time;
  const bool staged = from == Side::pageable || to == Side::pageable;
  const auto link = costs::at(static_cast<double>(bytes), staged ? costs::kPageableCopy : costs::kLinkEachWay);
  if (to == Side::device) {
    w.statistics.host_to_device_bytes += bytes;
    return over_link(card.link_in_free, start, std::max(link, time));
  }
  if (from == Side::device) w.statistics.device_to_host_bytes += bytes;
  return over_link(card.link_out_free, start, std::max(link, time));
}

std::int64_t run_fill(const Fill& fill, std::int64_t start) {
  const std::size_t row = fill.width * fill.element;
  const std::size_t span = span_bytes(row, fill.height, 1, fill.pitch, 1);
  if (span == 0) return start;
  if (check(fill) != CUDA_SUCCESS) {
    world().sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    return start;
  }
  const Touch touched = touch(fill.destination, span, fill.device, AccessKind::write);
  for (std::size_t y = 0; y < fill.height; ++y) {
    auto* line = reinterpret_cast<unsigned char*>(fill.destination + y * fill.pitch);
    if (fill.element == 1) {
      std::memset(line, static_cast<int>(fill.value & 0xFFU), fill.width);
      continue;
    }
    for (std::size_t x = 0; x < fill.width; ++x) std::memcpy(line + x * fill.element, &fill.value, fill.element);
  }
  return start + cost_of(touched);
}

CUresult from_parameters(const CUDA_MEMCPY3D& p, int device, Copy& out) {
  out = Copy{};
  out.device = device;
  out.width = p.WidthInBytes;
  out.height = p.Height;
  out.depth = p.Depth;
  out.source_pitch = p.srcPitch;
  out.destination_pitch = p.dstPitch;
  std::uint64_t source = 0;
  std::uint64_t destination = 0;
  SPILLWAY_RETURN_IF_FAILED(
      resolve(p.srcMemoryType, p.srcHost, p.srcDevice, p.srcArray, out.source_pitch, p.WidthInBytes, source));
  SPILLWAY_RETURN_IF_FAILED(
      resolve(p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray, out.destination_pitch, p.WidthInBytes, destination));
  out.source_height = p.srcHeight != 0 ? p.srcHeight : p.Height;
  out.destination_height = p.dstHeight != 0 ? p.dstHeight : p.Height;
  out.source = source + (p.srcZ * out.source_height + p.srcY) * out.source_pitch + p.srcXInBytes;
  out.destination = destination + (p.dstZ * out.destination_height + p.dstY) * out.destination_pitch + p.dstXInBytes;
  return CUDA_SUCCESS;
}

CUDA_MEMCPY3D to_parameters(const Copy& copy) {
  CUDA_MEMCPY3D p{};
  p.srcMemoryType = side_of(copy.source) == Side::pageable ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  p.dstMemoryType = side_of(copy.destination) == Side::pageable ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  p.srcHost = reinterpret_cast<const void*>(copy.source);
  p.srcDevice = copy.source;
  p.dstHost = reinterpret_cast<void*>(copy.destination);
  p.dstDevice = copy.destination;
  p.srcPitch = copy.source_pitch;
  p.dstPitch = copy.destination_pitch;
  p.srcHeight = copy.source_height;
  p.dstHeight = copy.destination_height;
  p.WidthInBytes = copy.width;
  p.Height = copy.height;
  p.Depth = copy.depth;
  return p;
}

}  // namespace spillway::simulated
