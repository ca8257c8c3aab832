#include "shim/function_table.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

namespace spillway::shim {

namespace {

constexpr std::size_t kCellBits = 16;
constexpr std::size_t kCells = std::size_t{1} << kCellBits;
constexpr std::size_t kProbes = 64;            // handles beyond that are learned at each launch: right, but slow
constexpr std::size_t kParameterLimit = 4096;  // the driver allows 32,764 bytes of parameters

const int tombstone_object = 0;
const void* const kTombstone = &tombstone_object;

std::size_t cell_of(const void* handle, std::size_t probe) {
  const auto mixed = reinterpret_cast<std::uintptr_t>(handle) * 0x9E37'79B9'7F4A'7C15ULL;
  return ((mixed >> (64 - kCellBits)) + probe) & (kCells - 1);
}

// The parameters of a handle, by the query of its kind; ends at the first index that the driver refuses.
template <class Query, class Handle>
std::vector<ParameterLayout> layout_of(Query query, Handle handle) {
  std::vector<ParameterLayout> parameters;
  ParameterLayout next;
  while (parameters.size() < kParameterLimit &&
         query(handle, parameters.size(), &next.offset, &next.size) == CUDA_SUCCESS) {
    parameters.push_back(next);
  }
  return parameters;
}

// What the driver says of a handle. The function queries come first: they are known to fail in order on a CUkernel.
FunctionRecord ask(const void* handle, const Driver& driver) {
  FunctionRecord record;
  const auto function = static_cast<CUfunction>(const_cast<void*>(handle));
  const auto kernel = static_cast<CUkernel>(const_cast<void*>(handle));
  const char* name = nullptr;
  std::vector<ParameterLayout> parameters;
  if (driver.cuFuncGetName != nullptr && driver.cuFuncGetName(&name, function) == CUDA_SUCCESS) {
    if (driver.cuFuncGetParamInfo != nullptr) {
      record.layout_known = true;
      parameters = layout_of(driver.cuFuncGetParamInfo, function);
    }
    CUmodule module = nullptr;
    if (driver.cuFuncGetModule != nullptr && driver.cuFuncGetModule(&module, function) == CUDA_SUCCESS) {
      record.owner = module;
    }
  } else if (driver.cuKernelGetName != nullptr && driver.cuKernelGetName(&name, kernel) == CUDA_SUCCESS) {
    record.is_kernel = true;
    if (driver.cuKernelGetParamInfo != nullptr) {
      record.layout_known = true;
      parameters = layout_of(driver.cuKernelGetParamInfo, kernel);
    }
    CUlibrary library = nullptr;
    if (driver.cuKernelGetLibrary != nullptr && driver.cuKernelGetLibrary(&library, kernel) == CUDA_SUCCESS) {
      record.owner = library;
    }
  }
  record.parameter_count = static_cast<std::uint32_t>(parameters.size());
  record.words = words_of(parameters);
  if (name != nullptr) record.name = name;
  return record;
}

bool same_function(const FunctionRecord& a, const FunctionRecord& b) {
  const auto same_word = [](const ArgumentWord& x, const ArgumentWord& y) {
    return x.parameter == y.parameter && x.within == y.within && x.offset == y.offset;
  };
  return a.name == b.name && a.layout_known == b.layout_known && a.is_kernel == b.is_kernel &&
         a.parameter_count == b.parameter_count &&
         std::equal(a.words.begin(), a.words.end(), b.words.begin(), b.words.end(), same_word);
}

}  // namespace

std::vector<ArgumentWord> words_of(std::span<const ParameterLayout> parameters) {
  std::vector<ArgumentWord> words;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto [offset, size] = parameters[i];
    // A pointer is aligned in the parameter buffer, and so it is in a by-value struct: the parameter starts aligned.
    for (std::size_t at = (offset + 7) / 8 * 8; at + 8 <= offset + size; at += 8) {
      words.push_back(
          {static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(at - offset), static_cast<std::uint32_t>(at)});
    }
  }
  return words;
}

// A record in the table.
struct FunctionTable::Kept : FunctionRecord {
  explicit Kept(FunctionRecord&& record) : FunctionRecord(std::move(record)) {}
  std::atomic<const void*> handle{nullptr};  // whose record this is now
};

struct FunctionTable::Cell {
  std::atomic<const void*> handle;
  std::atomic<Kept*> record;
};

struct FunctionTable::Book {
  std::deque<Kept> records;                                      // a deque does not move what it holds
  std::unordered_map<std::string, std::deque<Kept*>> forgotten;  // by name, the oldest first
  std::unordered_map<std::string, policy::FunctionId> ids;
  std::vector<const std::string*> names;  // by id - 1
};

FunctionTable::~FunctionTable() {
  if (Cell* cells = cells_.load()) munmap(cells, kCells * sizeof(Cell));
  delete book_;
}

const FunctionRecord* FunctionTable::find(const void* handle) const {
  const Cell* cells = cells_.load(std::memory_order_acquire);
  if (cells == nullptr) return nullptr;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const Cell& cell = cells[cell_of(handle, probe)];
    const void* there = cell.handle.load(std::memory_order_acquire);
    if (there == handle) {
      // The cell may have been given to another handle since: the record itself says whose it is.
      const Kept* record = cell.record.load(std::memory_order_acquire);
      return record->handle.load(std::memory_order_acquire) == handle ? record : nullptr;
    }
    if (there == nullptr) return nullptr;
  }
  return nullptr;
}

bool FunctionTable::ready() {
  if (book_ == nullptr) book_ = new Book;
  if (cells_.load(std::memory_order_relaxed) != nullptr) return true;
  void* pages = mmap(nullptr, kCells * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return false;
  cells_.store(static_cast<Cell*>(pages), std::memory_order_release);
  return true;
}

void FunctionTable::remember(const void* handle, Kept* record) {
  record->handle.store(handle, std::memory_order_release);
  Cell* cells = cells_.load(std::memory_order_relaxed);
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    Cell& cell = cells[cell_of(handle, probe)];
    const void* there = cell.handle.load(std::memory_order_relaxed);
    if (there != nullptr && there != kTombstone) continue;
    cell.record.store(record, std::memory_order_release);
    cell.handle.store(handle, std::memory_order_release);
    return;
  }
}

FunctionTable::Kept* FunctionTable::take_forgotten(const FunctionRecord& like) {
  const auto of_name = book_->forgotten.find(like.name);
  if (of_name == book_->forgotten.end()) return nullptr;
  auto& records = of_name->second;
  const auto found =
      std::find_if(records.begin(), records.end(), [&](const Kept* record) { return same_function(*record, like); });
  if (found == records.end()) return nullptr;
  Kept* record = *found;
  records.erase(found);
  record->owner = like.owner;
  return record;
}

const FunctionRecord* FunctionTable::learn(const void* handle, const Driver& driver) {
  FunctionRecord fresh = ask(handle, driver);
  const std::lock_guard held(lock_);
  if (const FunctionRecord* other = find(handle)) return other;
  if (!ready()) return nullptr;
  if (Kept* again = take_forgotten(fresh)) {
    remember(handle, again);
    return again;
  }
  Kept& record = book_->records.emplace_back(std::move(fresh));
  // Kernels of one name are one function to policy; those without a name are told apart by their record.
  const std::string key = record.name.empty() ? "unnamed " + std::to_string(book_->records.size()) : record.name;
  const policy::FunctionId next{static_cast<std::uint32_t>(book_->names.size() + 1)};
  const auto [entry, is_new] = book_->ids.try_emplace(key, next);
  if (is_new) book_->names.push_back(&entry->first);
  record.id = entry->second;
  remember(handle, &record);
  return &record;
}

template <class Wanted>
void FunctionTable::drop(const Wanted& wanted) {
  const std::lock_guard held(lock_);
  Cell* cells = cells_.load(std::memory_order_relaxed);
  if (cells == nullptr) return;
  for (std::size_t i = 0; i < kCells; ++i) {
    const void* handle = cells[i].handle.load(std::memory_order_relaxed);
    if (handle == nullptr || handle == kTombstone) continue;
    Kept* record = cells[i].record.load(std::memory_order_relaxed);
    if (!wanted(*record)) continue;
    cells[i].handle.store(kTombstone, std::memory_order_release);
    book_->forgotten[record->name].push_back(record);
  }
}

void FunctionTable::forget(const void* owner) {
  drop([owner](const FunctionRecord& record) {
    return record.owner == owner || record.owner == nullptr || !record.is_kernel;
  });
}

void FunctionTable::forget_all() {
  drop([](const FunctionRecord&) { return true; });
}

std::string FunctionTable::name_of(policy::FunctionId id) {
  const std::lock_guard held(lock_);
  if (book_ == nullptr || id.value == 0 || id.value > book_->names.size()) return {};
  return *book_->names[id.value - 1];
}

std::size_t FunctionTable::records() {
  const std::lock_guard held(lock_);
  return book_ == nullptr ? 0 : book_->records.size();
}

std::size_t FunctionTable::size() {
  const std::lock_guard held(lock_);
  return book_ == nullptr ? 0 : book_->names.size();
}

}  // namespace spillway::shim
