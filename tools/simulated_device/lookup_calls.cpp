// cuGetProcAddress in both forms, export tables, and the names of errors.
#include <cctype>
#include <cstring>
#include <string>
#include <unordered_map>

#include "tools/simulated_device/world.hpp"

namespace spillway::simulated::driver {
namespace {

struct Found {
  void* function = nullptr;
  bool known = false;  // the name exists, in some version
};

// The newest ABI that is no newer than what is asked and than the driver. Per-thread variants are taken when asked for
// and there is one.
Found find_entry(const char* name, int asked_version, DefaultStream meaning) {
  Found found;
  void* per_thread = nullptr;
  const int driver_version = world().settings.driver_version;
  for (const EntryRow& row : entry_rows()) {
    if (std::strcmp(row.name, name) != 0 || row.version > driver_version) continue;
    found.known = true;
    if (row.version > asked_version) continue;
    if (row.kind == EntryKind::per_thread) {
      per_thread = row.function;
    } else {
      found.function = row.function;
    }
  }
  if (meaning == DefaultStream::per_thread && per_thread != nullptr) found.function = per_thread;
  return found;
}

}  // namespace

CUresult get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || function == nullptr || (flags & ~known) != 0 || flags == known)
    return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Found found = find_entry(symbol, version, per_thread ? DefaultStream::per_thread : DefaultStream::legacy);
  *function = found.function;
  if (status != nullptr) {
    *status = found.function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : found.known             ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                        : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
  }
  return found.function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult get_proc_address(const char* symbol, void** function, int version, cuuint64_t flags) {
  return get_proc_address(symbol, function, version, flags, nullptr);
}

// The private tables are the real runtime's own business; the stand-in has none.
CUresult get_export_table(const void** table, const CUuuid*) {
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult get_error_name(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (error) {
#define ERROR(code) \
  case code:        \
    *name = #code;  \
    return CUDA_SUCCESS;
#include "tools/simulated_device/errors.def"
#undef ERROR
    default:
      *name = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult get_error_string(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const char* name = nullptr;
  *text = nullptr;
  SPILLWAY_RETURN_IF_FAILED(get_error_name(error, &name));
  // "CUDA_ERROR_OUT_OF_MEMORY" reads "out of memory"; made once per code and kept, since callers keep the pointer.
  static auto* const texts = new std::unordered_map<int, std::string>;  // world's lock
  std::string& kept = (*texts)[error];
  if (kept.empty()) {
    const std::size_t prefix = error == CUDA_SUCCESS ? 5 : 11;
    for (const char* c = name + prefix; *c != '\0'; ++c) {
      kept += *c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
    if (error == CUDA_SUCCESS) kept = "no error";
  }
  *text = kept.c_str();
  return CUDA_SUCCESS;
}

}  // namespace spillway::simulated::driver
