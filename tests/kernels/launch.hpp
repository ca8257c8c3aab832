// Launches a host twin by its kernel's name, as the simulated driver does: through pointers to the parameters.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/host_twin.hpp"

namespace spillway::kernels {

inline const HostTwin& find_twin(std::string_view name) {
  const HostTwin* first = nullptr;
  const std::size_t count = spillway_host_twins(&first);
  for (std::size_t i = 0; i < count; ++i) {
    if (name == first[i].name) return first[i];
  }
  throw std::runtime_error("no twin named " + std::string(name));
}

template <class... Arguments>
void launch(std::string_view name, Dim3 grid, Arguments... arguments) {
  const std::array<void*, sizeof...(Arguments)> parameters{&arguments...};
  find_twin(name).run({.grid = grid, .block = {256, 1, 1}, .shared_bytes = 0}, parameters.data());
}

template <class... Arguments>
std::vector<Access> accesses(std::string_view name, Dim3 grid, Arguments... arguments) {
  const std::array<void*, sizeof...(Arguments)> parameters{&arguments...};
  std::vector<Access> out;
  find_twin(name).accesses({.grid = grid, .block = {256, 1, 1}, .shared_bytes = 0}, parameters.data(), out);
  return out;
}

}  // namespace spillway::kernels
