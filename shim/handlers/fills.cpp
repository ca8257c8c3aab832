// Memsets of all kinds: one record each, with the bytes from the first to the last one written.
#include "shim/handlers.hpp"
#include "shim/recorder.hpp"

namespace spillway::shim::handlers {

namespace {

template <class Forward>
CUresult fill(CUdeviceptr address, std::uint64_t bytes, CUstream stream, bool per_thread, const Forward& forward) {
  if (bytes == 0) return forward();
  return record_call(FillRecord{{}, address, bytes}, RecordKind::fill, stream, per_thread, forward);
}

// A rectangle's extent: whole rows, and of the last one only its width.
std::uint64_t extent(std::size_t pitch, std::size_t width, std::size_t height, std::size_t element) {
  return height == 0 ? 0 : (height - 1) * pitch + width * element;
}

}  // namespace

CUresult fill_8(RealCall<PFN_cuMemsetD8_v3020>& real, CUdeviceptr address, unsigned char value, std::size_t count) {
  return fill(address, count, nullptr, real.per_thread(), [&] { return real(address, value, count); });
}

CUresult fill_8(RealCall<PFN_cuMemsetD8Async_v3020>& real, CUdeviceptr address, unsigned char value, std::size_t count,
                CUstream stream) {
  return fill(address, count, stream, real.per_thread(), [&] { return real(address, value, count, stream); });
}

CUresult fill_16(RealCall<PFN_cuMemsetD16_v3020>& real, CUdeviceptr address, unsigned short value, std::size_t count) {
  return fill(address, count * 2, nullptr, real.per_thread(), [&] { return real(address, value, count); });
}

CUresult fill_16(RealCall<PFN_cuMemsetD16Async_v3020>& real, CUdeviceptr address, unsigned short value,
                 std::size_t count, CUstream stream) {
  return fill(address, count * 2, stream, real.per_thread(), [&] { return real(address, value, count, stream); });
}

CUresult fill_32(RealCall<PFN_cuMemsetD32_v3020>& real, CUdeviceptr address, unsigned value, std::size_t count) {
  return fill(address, count * 4, nullptr, real.per_thread(), [&] { return real(address, value, count); });
}

CUresult fill_32(RealCall<PFN_cuMemsetD32Async_v3020>& real, CUdeviceptr address, unsigned value, std::size_t count,
                 CUstream stream) {
  return fill(address, count * 4, stream, real.per_thread(), [&] { return real(address, value, count, stream); });
}

CUresult fill_2d_8(RealCall<PFN_cuMemsetD2D8_v3020>& real, CUdeviceptr address, std::size_t pitch, unsigned char value,
                   std::size_t width, std::size_t height) {
  return fill(address, extent(pitch, width, height, 1), nullptr, real.per_thread(),
              [&] { return real(address, pitch, value, width, height); });
}

CUresult fill_2d_8(RealCall<PFN_cuMemsetD2D8Async_v3020>& real, CUdeviceptr address, std::size_t pitch,
                   unsigned char value, std::size_t width, std::size_t height, CUstream stream) {
  return fill(address, extent(pitch, width, height, 1), stream, real.per_thread(),
              [&] { return real(address, pitch, value, width, height, stream); });
}

CUresult fill_2d_16(RealCall<PFN_cuMemsetD2D16_v3020>& real, CUdeviceptr address, std::size_t pitch,
                    unsigned short value, std::size_t width, std::size_t height) {
  return fill(address, extent(pitch, width, height, 2), nullptr, real.per_thread(),
              [&] { return real(address, pitch, value, width, height); });
}

CUresult fill_2d_16(RealCall<PFN_cuMemsetD2D16Async_v3020>& real, CUdeviceptr address, std::size_t pitch,
                    unsigned short value, std::size_t width, std::size_t height, CUstream stream) {
  return fill(address, extent(pitch, width, height, 2), stream, real.per_thread(),
              [&] { return real(address, pitch, value, width, height, stream); });
}

CUresult fill_2d_32(RealCall<PFN_cuMemsetD2D32_v3020>& real, CUdeviceptr address, std::size_t pitch, unsigned value,
                    std::size_t width, std::size_t height) {
  return fill(address, extent(pitch, width, height, 4), nullptr, real.per_thread(),
              [&] { return real(address, pitch, value, width, height); });
}

CUresult fill_2d_32(RealCall<PFN_cuMemsetD2D32Async_v3020>& real, CUdeviceptr address, std::size_t pitch,
                    unsigned value, std::size_t width, std::size_t height, CUstream stream) {
  return fill(address, extent(pitch, width, height, 4), stream, real.per_thread(),
              [&] { return real(address, pitch, value, width, height, stream); });
}

}  // namespace spillway::shim::handlers
