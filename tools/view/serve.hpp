// Serves one page to a browser on this machine: loopback only, under a path that others on the machine cannot guess.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace spillway::tools::view {

struct ServeRequest {
  std::uint16_t port = 0;  // 0: any that is free
  // Called once with the address, before the first request is answered.
  std::function<void(const std::string& url)> ready;
};

// Until SIGINT or SIGTERM. Returns what went wrong, as one sentence.
std::optional<std::string> serve(const std::string& page, const ServeRequest& request);

}  // namespace spillway::tools::view
