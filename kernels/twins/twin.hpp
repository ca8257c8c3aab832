// Makes a HostTwin out of two ordinary functions: what the launch computes and what it touches. Parameter sizes and
// offsets come from the function's own signature, as the CUDA ABI lays parameters out (each at its natural alignment).
//
//   void run_scale(const LaunchGeometry&, float* data, std::size_t count, float factor);
//   void touch_scale(Touched&, float* data, std::size_t count, float factor);
//   make_twin<run_scale, touch_scale>("_ZN8workload5scaleEPfmf");
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/host_twin.hpp"

namespace spillway::kernels {

// Collects what a launch touches; amounts are in elements of the pointer's type.
class Touched {
 public:
  Touched(const LaunchGeometry& geometry, std::vector<Access>& out) : geometry_(geometry), out_(out) {}
  [[nodiscard]] const LaunchGeometry& geometry() const { return geometry_; }
  template <class T>
  void reads(const T* data, std::size_t count, float passes = 1.0F) {
    add(data, count * sizeof(T), false, passes);
  }
  template <class T>
  void writes(const T* data, std::size_t count, float passes = 1.0F) {
    add(data, count * sizeof(T), true, passes);
  }

 private:
  void add(const void* data, std::size_t bytes, bool write, float passes) {
    if (bytes != 0) out_.push_back({reinterpret_cast<std::uintptr_t>(data), bytes, write, passes});
  }
  const LaunchGeometry& geometry_;
  std::vector<Access>& out_;
};

template <class Signature>
struct TwinSignature;

template <class... Parameter>
struct TwinSignature<void (*)(const LaunchGeometry&, Parameter...)> {
  static constexpr std::array<std::size_t, sizeof...(Parameter)> kSizes{sizeof(Parameter)...};

  static constexpr std::array<std::size_t, sizeof...(Parameter)> offsets() {
    constexpr std::array<std::size_t, sizeof...(Parameter)> alignments{alignof(Parameter)...};
    std::array<std::size_t, sizeof...(Parameter)> result{};
    std::size_t end = 0;
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = (end + alignments[i] - 1) / alignments[i] * alignments[i];
      end = result[i] + kSizes[i];
    }
    return result;
  }
  static constexpr auto kOffsets = offsets();

  using Indices = std::index_sequence_for<Parameter...>;

  template <class First, class Function, std::size_t... kIndex>
  static void call(Function function, First& first, void* const* parameters, std::index_sequence<kIndex...>) {
    function(first, *static_cast<std::remove_const_t<Parameter>*>(parameters[kIndex])...);
  }
};

template <auto kRun, auto kTouch>
HostTwin make_twin(const char* name, double flops_per_thread) {
  using Signature = TwinSignature<decltype(kRun)>;
  HostTwin twin{};
  twin.name = name;
  twin.parameter_sizes = Signature::kSizes;
  twin.parameter_offsets = Signature::kOffsets;
  twin.run = [](const LaunchGeometry& geometry, void* const* parameters) {
    Signature::call(kRun, geometry, parameters, typename Signature::Indices{});
  };
  twin.accesses = [](const LaunchGeometry& geometry, void* const* parameters, std::vector<Access>& out) {
    Touched touched(geometry, out);
    Signature::call(kTouch, touched, parameters, typename Signature::Indices{});
  };
  twin.flops_per_thread = flops_per_thread;
  return twin;
}

// One list per file of twins; twin_library.cpp joins them.
std::vector<HostTwin> mlp_twins();
std::vector<HostTwin> decode_twins();
std::vector<HostTwin> calibration_twins();

}  // namespace spillway::kernels
