// The exported symbols, made from entry_points.def: count the call, inject what is to be injected, take the lock, run
// the implementation.
#include <chrono>
#include <thread>

#include "tools/simulated_device/clock.hpp"
#include "tools/simulated_device/costs.hpp"
#include "tools/simulated_device/entering.hpp"
#include "tools/simulated_device/world.hpp"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wmissing-declarations"

namespace spillway::simulated {
namespace {

thread_local DefaultStream stream_zero = DefaultStream::legacy;

class StreamZero {
 public:
  explicit StreamZero(DefaultStream meaning) : before_(stream_zero) { stream_zero = meaning; }
  ~StreamZero() { stream_zero = before_; }
  StreamZero(const StreamZero&) = delete;
  StreamZero& operator=(const StreamZero&) = delete;

 private:
  DefaultStream before_;
};

template <class Body>
CUresult enter(EntryPoint entry, DefaultStream meaning, Body body) {
  const Entering entering(entry);
  if (entering.result() != CUDA_SUCCESS) return entering.result();
  const StreamZero scope(meaning);
  return body();
}

}  // namespace

DefaultStream default_stream_of_call() { return stream_zero; }

}  // namespace spillway::simulated

#define SPILLWAY_EXPORT extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
#define SPILLWAY_ENTRY_standard(symbol, implementation, parameters, arguments)                                 \
  SPILLWAY_EXPORT symbol parameters {                                                                          \
    using namespace spillway::simulated;                                                                       \
    return enter(EntryPoint::symbol, DefaultStream::legacy, [&] { return driver::implementation arguments; }); \
  }
#define SPILLWAY_ENTRY_per_thread(symbol, implementation, parameters, arguments)                                   \
  SPILLWAY_EXPORT symbol parameters {                                                                              \
    using namespace spillway::simulated;                                                                           \
    return enter(EntryPoint::symbol, DefaultStream::per_thread, [&] { return driver::implementation arguments; }); \
  }
#define SPILLWAY_ENTRY_narrow(symbol, implementation, parameters, arguments)                          \
  SPILLWAY_EXPORT symbol parameters {                                                                 \
    using namespace spillway::simulated;                                                              \
    return enter(EntryPoint::symbol, DefaultStream::legacy, [] { return CUDA_ERROR_NOT_SUPPORTED; }); \
  }
#define ENTRY(name, version, symbol, kind, implementation, parameters, arguments) \
  SPILLWAY_ENTRY_##kind(symbol, implementation, parameters, arguments)
#include "tools/simulated_device/entry_points.def"
#undef ENTRY

namespace spillway::simulated {

std::span<const EntryRow> entry_rows() {
  static const EntryRow rows[] = {
#define ENTRY(name, version, symbol, kind, implementation, parameters, arguments) \
  {#name, version, #symbol, EntryKind::kind, reinterpret_cast<void*>(&::symbol)},
#include "tools/simulated_device/entry_points.def"
#undef ENTRY
  };
  return rows;
}

const char* symbol_of(EntryPoint entry) {
  static constexpr const char* names[] = {
#define ENTRY(name, version, symbol, kind, implementation, parameters, arguments) #symbol,
#include "tools/simulated_device/entry_points.def"
#undef ENTRY
  };
  return names[static_cast<unsigned>(entry)];
}

}  // namespace spillway::simulated
