// What is known of each kernel handle (CUkernel or CUfunction): id, name, and where its parameters hold words that may
// be pointers. Filled on the first launch of a handle, by driver calls; afterwards a look-up is lock-free.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "policy/units.hpp"
#include "shim/driver.hpp"

namespace spillway::shim {

// One 8-byte word of the parameters that may hold a pointer: it lies wholly inside its parameter, on a multiple of 8.
struct ArgumentWord {
  std::uint16_t parameter;
  std::uint16_t within;  // bytes into the parameter
  std::uint32_t offset;  // bytes into the packed parameter buffer
};

struct FunctionRecord {
  policy::FunctionId id;
  bool layout_known = false;
  std::uint32_t parameter_count = 0;
  std::vector<ArgumentWord> words;  // ascending in `offset`
  const void* owner = nullptr;      // the CUmodule or CUlibrary it came from, if the driver says
  bool is_kernel = false;           // the handle is a CUkernel, else a CUfunction
  std::string name;
};

struct ParameterLayout {
  std::size_t offset = 0;
  std::size_t size = 0;
};
// The words of a parameter list that may be pointers.
std::vector<ArgumentWord> words_of(std::span<const ParameterLayout> parameters);

class FunctionTable {
 public:
  constexpr FunctionTable() = default;
  FunctionTable(const FunctionTable&) = delete;
  FunctionTable& operator=(const FunctionTable&) = delete;
  ~FunctionTable();

  // Launch path, lock-free: the record, or null if the handle was not seen since it was last forgotten.
  [[nodiscard]] const FunctionRecord* find(const void* handle) const;
  // Asks the driver and remembers; the same record as `find` if another thread was faster. Takes a lock, never across
  // a driver call. Null only without memory.
  const FunctionRecord* learn(const void* handle, const Driver& driver);

  // A module or library is going, so its handles may be reused: each is learned anew at its next launch. CUfunctions
  // go with any library, as the driver does not say from which they were made. Records live on, as a launch may be
  // reading one, and serve the next handle of the same function: same name, same layout, so whoever still reads one
  // reads what is right. So there are no more of them than were ever live at a time. A function that comes back under
  // the same name keeps its id; one without a name gets that of any forgotten one of its layout.
  void forget(const void* owner);
  // A context is going, or who knows what.
  void forget_all();

  // Name of a function by id, empty if unknown. For the consumer of the rings; takes the lock.
  std::string name_of(policy::FunctionId id);
  [[nodiscard]] std::size_t size();
  // Records in memory, live and forgotten.
  [[nodiscard]] std::size_t records();

 private:
  struct Kept;
  struct Cell;
  struct Book;
  template <class Wanted>
  void drop(const Wanted& wanted);
  bool ready();
  Kept* take_forgotten(const FunctionRecord& like);  // with the lock; null if there is none
  void remember(const void* handle, Kept* record);

  std::mutex lock_;
  std::atomic<Cell*> cells_{nullptr};
  Book* book_ = nullptr;  // under lock_
};

}  // namespace spillway::shim
