// Activity records between the simulated driver, which makes them, and the program, which collects them by flushing.
// Thread-safe. About 8191 fit between flushes, as with the real library; the rest is dropped and counted.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace spillway::simulated::cupti {

// The real library takes its first call (but for its version) as the beginning.
void begin();
void set_buffer_callbacks(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete);
[[nodiscard]] bool has_buffer_callbacks();

// Connects to (or disconnects from) the simulated driver for what is enabled.
CUptiResult enable(CUpti_ActivityKind kind);
CUptiResult disable(CUpti_ActivityKind kind);

void flush();
std::size_t take_dropped();
std::uint64_t virtual_time();

}  // namespace spillway::simulated::cupti
