// Physical memory of map-style allocation (cuMemCreate): it lives until its handle is released and its last mapping is
// gone, and is counted as long. Which addresses show which handle is followed through every map and unmap.
// Safe from any thread; no driver call is made under its lock.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policy/units.hpp"
#include "shim/cuda_driver.hpp"

namespace spillway::shim {

struct PhysicalHandle {
  policy::Address registered;  // in the registry
  std::size_t bytes = 0;
  // Of a handle that is host memory in place of the device memory that was asked for: what was asked for.
  std::optional<CUmemAllocationProp> asked;
};

// A mapping that ended, of a whole handle or of a part of it.
struct EndedMapping {
  policy::Address registered;
  policy::Address address;
  bool whole = false;
  bool gone = false;  // it was the last: the memory went with it
};

class PhysicalMemory {
 public:
  void created(CUmemGenericAllocationHandle handle, const PhysicalHandle& memory);
  void retained(CUmemGenericAllocationHandle handle);
  // The registered address, if a whole handle of ours is seen there now.
  std::optional<policy::Address> mapped(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                                        CUmemGenericAllocationHandle handle);
  // What is really gone with it: the address under which it was registered.
  std::optional<policy::Address> released(CUmemGenericAllocationHandle handle);
  std::vector<EndedMapping> unmapped(CUdeviceptr address, std::size_t bytes);

  // What the program asked for, of a handle that is host memory in its place; else nothing.
  std::optional<CUmemAllocationProp> asked(CUmemGenericAllocationHandle handle);
  std::optional<CUmemAllocationProp> asked_at(CUdeviceptr address);

 private:
  struct Memory {
    PhysicalHandle handle;
    std::uint64_t references = 0;  // handles and mappings
  };
  struct Mapping {
    std::size_t bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
    bool whole = false;
  };
  std::optional<policy::Address> drop(CUmemGenericAllocationHandle handle);

  std::mutex mutex_;
  std::unordered_map<CUmemGenericAllocationHandle, Memory> memories_;
  std::map<CUdeviceptr, Mapping> mappings_;
};

// Of the process; never destroyed.
PhysicalMemory& physical_memory();

// Handles are registered under addresses no pointer can have, so that they share the registry with pointers.
constexpr policy::Address address_of_handle(std::uint64_t handle) { return {handle | (std::uint64_t{1} << 63U)}; }
constexpr bool is_handle(policy::Address address) { return address.value >> 63U != 0; }

}  // namespace spillway::shim
