#include "shim/cupti_records.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "shim/cupti_hooks.hpp"

namespace spillway::shim {
namespace {

// Holds some 5,000 kernels, and is short enough to be taken from the heap on a launch of the program.
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

// The fields read have been where they are since this record's version; those of later versions begin alike.
using KernelLayout = CUpti_ActivityKernel7;
using CounterLayout = CUpti_ActivityUnifiedMemoryCounter2;

std::uint64_t wide_product(std::int32_t x, std::int32_t y, std::int32_t z) {
  const auto wide = [](std::int32_t value) { return static_cast<std::uint64_t>(static_cast<std::uint32_t>(value)); };
  return wide(x) * wide(y) * wide(z);
}

KernelRecord kernel_of(const KernelLayout& record) {
  KernelRecord kernel;
  kernel.stream = {(std::uint64_t{record.contextId} << 32U) | record.streamId};
  kernel.correlation = record.correlationId;
  kernel.key = policy::kernel_key(policy::name_key(record.name == nullptr ? "" : record.name),
                                  wide_product(record.gridX, record.gridY, record.gridZ) *
                                      wide_product(record.blockX, record.blockY, record.blockZ));
  kernel.start = record.start;
  kernel.end = record.end;
  kernel.of_graph = record.graphNodeId != 0;
  return kernel;
}

// False for a counter that is not ours to know.
bool pages_of(const CounterLayout& record, policy::PagesObserved& pages) {
  switch (record.counterKind) {
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD:
      pages = {policy::PageTraffic::host_to_device, {record.address}, policy::Bytes(record.value)};
      return true;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH:
      pages = {policy::PageTraffic::device_to_host, {record.address}, policy::Bytes(record.value)};
      return true;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT:
      pages = {policy::PageTraffic::gpu_fault, {record.address}, {}};
      return true;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT:
      pages = {policy::PageTraffic::cpu_fault, {record.address}, {}};
      return true;
    case CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_REMOTE_MAP:
      // A whole chunk is mapped because we told the driver to; less is a fault.
      pages = {policy::PageTraffic::remote_map, {record.address}, policy::Bytes(record.value)};
      return record.value < policy::kChunk.count();
    default:
      return false;
  }
}

// The pages of a chunk are mapped one by one, in any order, and say the same.
bool add_to_its_chunk(std::vector<policy::PagesObserved>& all, const policy::PagesObserved& pages) {
  constexpr std::size_t kLookBack = 64;
  const auto chunk = [](policy::Address address) { return address.value / policy::kChunk.count(); };
  for (std::size_t back = 1; back <= std::min(all.size(), kLookBack); ++back) {
    policy::PagesObserved& other = all[all.size() - back];
    if (other.traffic != policy::PageTraffic::remote_map || chunk(other.address) != chunk(pages.address)) continue;
    other.bytes += pages.bytes;
    return true;
  }
  return false;
}

void add_pages(std::vector<policy::PagesObserved>& all, const policy::PagesObserved& pages) {
  if (pages.traffic == policy::PageTraffic::remote_map) {
    if (!add_to_its_chunk(all, pages)) all.push_back(pages);
    return;
  }
  if (!all.empty() && pages.bytes > policy::Bytes() && all.back().traffic == pages.traffic &&
      all.back().address + all.back().bytes == pages.address) {
    all.back().bytes += pages.bytes;
  } else {
    all.push_back(pages);
  }
}

}  // namespace

constinit std::atomic<CuptiBuffers*> CuptiBuffers::instance{nullptr};

CUptiResult CuptiBuffers::take_over(const Cupti& cupti) {
  cupti_.store(&cupti);
  instance.store(this);
  return cupti.cuptiActivityRegisterCallbacks(request, complete);
}

void CuptiBuffers::give_back(const Cupti& cupti) {
  const CuptiCallbacks theirs = program_callbacks();
  if (theirs.request != nullptr) cupti.cuptiActivityRegisterCallbacks(theirs.request, theirs.complete);
}

CuptiRecords CuptiBuffers::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(records_, {});
}

void CUPTIAPI CuptiBuffers::request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most) {
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  CuptiBuffers* own = instance.load();
  try {
    const std::lock_guard lock(own->mutex_);
    own->ours_.insert(*buffer);
  } catch (...) {
    std::free(std::exchange(*buffer, nullptr));
    *bytes = 0;
  }
}

bool CuptiBuffers::forget(const std::uint8_t* buffer) {
  const std::lock_guard lock(mutex_);
  return ours_.erase(buffer) != 0;
}

void CUPTIAPI CuptiBuffers::complete(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
                                     std::size_t valid) {
  CuptiBuffers* own = instance.load();
  if (!own->forget(buffer)) {
    // Given by the program, before we came.
    if (const auto theirs = program_callbacks().complete; theirs != nullptr)
      theirs(context, stream, buffer, bytes, valid);
    return;
  }
  if (valid > 0) own->read(context, stream, buffer, valid);
  std::free(buffer);
}

void CuptiBuffers::read(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t valid) {
  const Cupti& cupti = *cupti_.load();
  std::size_t dropped = 0;
  if (cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) != CUPTI_SUCCESS) dropped = 0;
  const std::lock_guard lock(mutex_);
  records_.dropped += dropped;
  try {
    CUpti_Activity* record = nullptr;
    while (cupti.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
      if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        records_.kernels.push_back(kernel_of(*reinterpret_cast<const KernelLayout*>(record)));
      } else if (record->kind == CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER) {
        policy::PagesObserved pages;
        if (pages_of(*reinterpret_cast<const CounterLayout*>(record), pages)) add_pages(records_.pages, pages);
      }
    }
  } catch (...) {
    ++records_.dropped;
  }
}

}  // namespace spillway::shim
