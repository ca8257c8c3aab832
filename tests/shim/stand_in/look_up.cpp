// The functions of the counting driver that do something: look-ups by name, version and flags, as the driver documents
// them, and one kernel whose parameters are known.
#include <array>
#include <atomic>
#include <cstring>

#include "shim/hook.hpp"
#include "tests/shim/stand_in/stand_in.hpp"

#define STAND_IN extern "C" __attribute__((visibility("default")))

namespace {

using spillway::shim::HookRow;
using spillway::shim::kHooks;
using spillway::shim::Variant;

std::atomic<std::uint64_t> calls[spillway::shim::kHookCount];
std::atomic<int> answer{0};
std::atomic<int> newest{13000};

// The newest ABI of `name` up to `version`; a per-thread twin if asked for and there is one.
const HookRow* choose(const char* name, int version, cuuint64_t flags) {
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const HookRow* best = nullptr;
  for (const HookRow& row : kHooks) {
    if (std::strcmp(row.base, name) != 0 || row.version > version || row.version > newest) continue;
    if (!per_thread && row.variant != Variant::legacy) continue;
    const bool twin_wins = best != nullptr && row.variant != Variant::legacy && best->variant == Variant::legacy &&
                           std::strncmp(row.symbol, best->symbol, std::strlen(best->symbol)) == 0;
    if (best == nullptr || row.version > best->version || twin_wins) best = &row;
  }
  return best;
}

void* other_function(const char* name) {
  if (std::strcmp(name, "cuDriverGetVersion") == 0) return reinterpret_cast<void*>(&cuDriverGetVersion);
  if (std::strcmp(name, "cuKernelGetName") == 0) return reinterpret_cast<void*>(&cuKernelGetName);
  if (std::strcmp(name, "cuKernelGetParamInfo") == 0) return reinterpret_cast<void*>(&cuKernelGetParamInfo);
  if (std::strcmp(name, "cuFuncGetName") == 0) return reinterpret_cast<void*>(&cuFuncGetName);
  if (std::strcmp(name, "cuCtxGetCurrent") == 0) return reinterpret_cast<void*>(&cuCtxGetCurrent);
  if (std::strcmp(name, "cuStreamGetCtx") == 0) return reinterpret_cast<void*>(&cuStreamGetCtx);
  if (std::strcmp(name, "cuStreamIsCapturing") == 0) return reinterpret_cast<void*>(&cuStreamIsCapturing);
  if (std::strcmp(name, "cuEventCreate") == 0) return reinterpret_cast<void*>(&cuEventCreate);
  if (std::strcmp(name, "cuEventRecord") == 0) return reinterpret_cast<void*>(&cuEventRecord);
  if (std::strcmp(name, "cuEventQuery") == 0) return reinterpret_cast<void*>(&cuEventQuery);
  return nullptr;
}

CUresult find(const char* name, void** address, int version, cuuint64_t flags) {
  if (name == nullptr || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const HookRow* row = choose(name, version, flags);
  *address = row != nullptr ? stand_in_function(static_cast<unsigned>(row->id)) : other_function(name);
  return *address == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

constexpr std::array<std::size_t, 3> kParameterOffsets{0, 8, 16};
constexpr std::array<std::size_t, 3> kParameterSizes{8, 4, 24};

}  // namespace

STAND_IN int stand_in_note(unsigned row) {
  calls[row].fetch_add(1);
  return answer;
}
STAND_IN std::uint64_t stand_in_calls(unsigned row) { return calls[row]; }
STAND_IN void stand_in_answer(int code) { answer = code; }
STAND_IN void stand_in_version(int version) { newest = version; }

STAND_IN CUresult cuGetProcAddress(const char* name, void** address, int version, cuuint64_t flags) {
  stand_in_note(static_cast<unsigned>(spillway::shim::HookId::cuGetProcAddress));
  return find(name, address, version, flags);
}

STAND_IN CUresult cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t flags,
                                      CUdriverProcAddressQueryResult* status) {
  stand_in_note(static_cast<unsigned>(spillway::shim::HookId::cuGetProcAddress_v2));
  const CUresult result = find(name, address, version, flags);
  if (status != nullptr) {
    *status = result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return result;
}

STAND_IN CUresult cuDriverGetVersion(int* version) {
  *version = newest;
  return CUDA_SUCCESS;
}

// Handles are CUkernels; the function queries fail on them, as the real ones do.
STAND_IN CUresult cuFuncGetName(const char**, CUfunction) { return CUDA_ERROR_INVALID_HANDLE; }

STAND_IN CUresult cuKernelGetName(const char** name, CUkernel) {
  *name = "_Z8stand_inPfi6Struct";
  return CUDA_SUCCESS;
}

STAND_IN CUresult cuKernelGetParamInfo(CUkernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  if (index >= kParameterSizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kParameterOffsets[index];
  *size = kParameterSizes[index];
  return CUDA_SUCCESS;
}

// One context, nothing is captured, and every event has passed.
STAND_IN CUresult cuCtxGetCurrent(CUcontext* context) {
  static int the_one = 0;
  *context = reinterpret_cast<CUcontext>(&the_one);
  return CUDA_SUCCESS;
}
STAND_IN CUresult cuStreamGetCtx(CUstream, CUcontext* context) { return cuCtxGetCurrent(context); }
STAND_IN CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
STAND_IN CUresult cuEventCreate(CUevent* event, unsigned) {
  return cuCtxGetCurrent(reinterpret_cast<CUcontext*>(event));
}
STAND_IN CUresult cuEventRecord(CUevent, CUstream) { return CUDA_SUCCESS; }
STAND_IN CUresult cuEventQuery(CUevent) { return CUDA_SUCCESS; }
