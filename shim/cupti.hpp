// NVIDIA's profiling interface, opened late and never linked: typed pointers to what telemetry calls.
//
// The program's own libcupti is taken if it has one loaded, so that there is one in the process and its rules of single
// use hold for both of us; else the one beside its CUDA runtime, else whatever the loader finds. Of its records only
// the fields that have stood where they are since CUDA 11.6 are read.
#pragma once

#include "shim/cuda_driver.hpp"

// Not cupti.h: it has types of its own for what cuda.h declares here.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>

#include <string>

namespace spillway::shim {

struct Cupti {
#define SPILLWAY_CUPTI(name) decltype(&::name) name = nullptr;
#include "shim/cupti_list.def"
  std::string path;
  std::string version;  // "2025.3 (130001)" is CUPTI's own business: the number it gives
};

// Null if there is none, or it lacks a function that we need. Looks once; takes the loader's lock, so never call it
// with one of ours held. Not thread-safe: telemetry's thread only.
const Cupti* open_cupti();

std::string cupti_error(const Cupti& cupti, CUptiResult result);  // "CUPTI_ERROR_NOT_READY"

// Sonames that we know, newest first.
inline constexpr const char* kCuptiNames[] = {"libcupti.so.13", "libcupti.so.12"};

}  // namespace spillway::shim
