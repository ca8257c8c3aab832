// A thread of ours inside somebody else's program: the program's signals blocked (service_signals.hpp), named for
// debuggers, and with every driver call going straight to the real function.
#pragma once

#include <functional>
#include <optional>
#include <thread>

namespace spillway::shim {

// Nothing if the system gives no thread: the caller does without.
std::optional<std::thread> start_service_thread(const char* name, std::function<void()> body);

}  // namespace spillway::shim
