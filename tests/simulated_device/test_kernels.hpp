// The kernels of these tests: test_program.cu has them for nvcc, test_twins.cpp for the simulated device. The names are
// mangled as nvcc mangles them.
#pragma once

inline constexpr const char* kAddOne = "_Z7add_onePfi";         // add_one(float*, int)
inline constexpr const char* kScale = "_Z5scalePKfPff6Extent";  // scale(const float*, float*, float, Extent)
inline constexpr const char* kReadAll = "_Z8read_allPKfPfm";    // read_all(const float*, float*, size_t)
// read_some(const float* pool, const int* chunks, float* out, int count)
inline constexpr const char* kReadSome = "_Z9read_somePKfPKiPfi";
inline constexpr const char* kNoTwin = "_Z7no_twinPf";  // registered, but without a twin

struct Extent {
  int count;
  int stride;
};
