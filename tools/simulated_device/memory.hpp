// All memory the simulated driver handed out, and the address ranges it comes from.
//
// Device addresses are real host memory in a reserved range of their own, so that results are real and a device pointer
// can be told from a host pointer. Managed memory has another range. Everything is guarded by the world's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tools/simulated_device/entry_points.hpp"
#include "tools/simulated_device/residency.hpp"

namespace spillway::simulated {

struct Context;

enum class MemoryKind : std::uint8_t {
  device,       // cuMemAlloc, cuMemAllocPitch
  pool,         // cuMemAllocAsync and pools
  managed,      // cuMemAllocManaged
  pinned,       // cuMemAllocHost, cuMemHostAlloc
  registered,   // cuMemHostRegister: the program's own memory
  reservation,  // cuMemAddressReserve: addresses without memory
  mapping,      // cuMemMap: a physical handle seen at an address
  imported,     // cuIpcOpenMemHandle
  array,        // cuArrayCreate: opaque
};

const char* name_of(MemoryKind kind);

struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;     // as asked for
  std::uint64_t reserved = 0;  // address space taken
  std::uint64_t charged = 0;   // device memory counted for it
  MemoryKind kind = MemoryKind::device;
  const Context* context = nullptr;
  int device = 0;
  unsigned flags = 0;
  std::uint64_t id = 0;
  CUmemoryPool pool = nullptr;
  CUmemGenericAllocationHandle physical = 0;  // mapping only
  bool accessible = true;                     // mapping: cuMemSetAccess was called
  bool on_host = false;                       // mapping: of host memory
  bool freeing = false;                       // cuMemFreeAsync is on its way
  int shared_file = -1;                       // the memory's file once it was exported (IPC)
  std::vector<Chunk> chunks;                  // managed only
};

// Address space in pieces of a fixed granularity, first fit.
class AddressSpace {
 public:
  void add(std::uint64_t address, std::uint64_t bytes);
  // `within`: the piece does not cross a multiple of it; at least `bytes`, 0 for no such limit.
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t within = 0);
  bool take_at(std::uint64_t address, std::uint64_t bytes);
  void give_back(std::uint64_t address, std::uint64_t bytes);

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // start -> bytes
};

class MemoryMap {
 public:
  // Reserves the address ranges; false when the machine has no address space left.
  bool reserve_ranges();

  // Makes the memory and notes it. Charges the device for kinds that live there (and evicts managed pages for it).
  // On the context's device, or on another one.
  CUresult allocate(MemoryKind kind, std::uint64_t bytes, const Context& context, unsigned flags, Allocation*& out,
                    std::optional<int> device = std::nullopt);
  // Notes memory made elsewhere (registered, imported, mappings).
  Allocation& note(Allocation allocation);
  // Frees what `allocate` or `note` made; the caller has waited for the device.
  void release(std::uint64_t address);

  Allocation* exact(std::uint64_t address);       // the allocation that begins here, not a reservation's mapping
  Allocation* containing(std::uint64_t address);  // the allocation this address lies in; reservations are not seen
  Allocation* reservation(std::uint64_t address);
  void note_bad_free(std::uint64_t address);  // for the leak and double-free table

  [[nodiscard]] bool is_device_address(std::uint64_t address) const;
  std::map<std::uint64_t, Allocation>& live() { return live_; }
  std::map<std::uint64_t, Allocation>& reservations() { return reservations_; }
  AddressSpace& device_space() { return device_space_; }

 private:
  std::optional<std::uint64_t> take_small(std::uint64_t bytes, std::uint64_t& charged, int device);
  void give_small(const Allocation& allocation);

  std::uint64_t base_ = 0;
  std::uint64_t managed_base_ = 0;
  AddressSpace device_space_;
  AddressSpace managed_space_;
  std::vector<AddressSpace> small_;                          // per device: pieces of 2 MiB blocks for small allocations
  std::unordered_map<std::uint64_t, unsigned> small_users_;  // block -> live allocations in it
  std::map<std::uint64_t, Allocation> live_;
  std::map<std::uint64_t, Allocation> reservations_;
  std::unordered_set<std::uint64_t> freed_;  // addresses freed and not handed out again
};

// Physical memory of cuMemCreate: a file, so that it can be seen at several addresses.
struct PhysicalMemory {
  int file = -1;
  std::uint64_t bytes = 0;
  int device = 0;  // kHostLocation: host memory
  CUmemAllocationProp properties{};
  unsigned references = 1;  // handles and mappings
  unsigned handles = 1;     // handles the program has not released
};
std::unordered_map<CUmemGenericAllocationHandle, PhysicalMemory>& physical_memory();
void drop_physical(CUmemGenericAllocationHandle handle);

// A pool's memory is going back to its pool.
void note_pool_free(const Allocation& allocation);

// Makes room for `bytes` more of plain memory on the device, evicting managed pages if it must; false when it cannot.
bool charge_device(int device, std::uint64_t bytes);
void uncharge_device(int device, std::uint64_t bytes);

}  // namespace spillway::simulated
