// Physical memory of map-style allocation (cuMemCreate): it lives until its handle is released and its last mapping is
// gone, and is counted as long. Which addresses show which handle is followed through every map and unmap.
// Safe from any thread.
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

class PhysicalMemory {
 public:
  void created(CUmemGenericAllocationHandle handle, policy::Address registered);
  void retained(CUmemGenericAllocationHandle handle);
  void mapped(CUdeviceptr address, std::size_t bytes, CUmemGenericAllocationHandle handle);
  // Each gives what is really gone with it: the addresses under which it was registered.
  std::optional<policy::Address> released(CUmemGenericAllocationHandle handle);
  std::vector<policy::Address> unmapped(CUdeviceptr address, std::size_t bytes);

 private:
  struct Memory {
    policy::Address registered;
    std::uint64_t references = 0;  // handles and mappings
  };
  struct Mapping {
    std::size_t bytes = 0;
    CUmemGenericAllocationHandle handle = 0;
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
