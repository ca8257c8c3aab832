// CUDA IPC: every block of 1.5 GiB is exported; another process opens what could be, and reads its first word. A block
// that could not be exported is no error: the row's values are the codes of cudaIpcGetMemHandle, and what the other
// process read or -1.
//   ipc_export            exports, and starts itself with
//   ipc_export HANDLE     prints the first word of the memory behind the handle
#include <cstdint>
#include <cstring>
#include <memory>

#include "program.cuh"

using namespace compatibility;

namespace {

constexpr const char* kRow = "ipc";

int read_word(const char* text) {
  cudaIpcMemHandle_t handle;
  auto* bytes = reinterpret_cast<unsigned char*>(&handle);
  for (std::size_t i = 0; i < sizeof handle; ++i) {
    unsigned value = 0;
    if (std::sscanf(text + 2 * i, "%2x", &value) != 1) return 2;
    bytes[i] = static_cast<unsigned char>(value);
  }
  void* memory = nullptr;
  check(kRow, cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
  unsigned word = 0;
  check(kRow, cudaMemcpy(&word, memory, sizeof word, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(kRow, cudaIpcCloseMemHandle(memory), "cudaIpcCloseMemHandle");
  std::printf("word %u\n", word);
  return 0;
}

// What another process reads through the handle; -1 if it could not.
double word_elsewhere(const char* program, const cudaIpcMemHandle_t& handle) {
  std::string command = std::string(program) + " ";
  for (std::size_t i = 0; i < sizeof handle; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", reinterpret_cast<const unsigned char*>(&handle)[i]);
    command += digits;
  }
  const auto close = [](std::FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  if (!pipe) return -1;
  char line[512];
  while (std::fgets(line, sizeof line, pipe.get()) != nullptr) {
    unsigned word = 0;
    if (std::sscanf(line, "word %u", &word) == 1) return word;
  }
  return -1;
}

}  // namespace

int main(int count, char** words) {
  if (count > 1) return read_word(words[1]);
  std::vector<unsigned*> blocks(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    check(kRow, cudaMalloc(&blocks[i], kBlockBytes), "cudaMalloc");
    fill_words<<<1024, 256>>>(blocks[i], kWords, static_cast<unsigned>(i));
  }
  check(kRow, cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::vector<double> values;
  std::vector<cudaIpcMemHandle_t> handles(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) values.push_back(cudaIpcGetMemHandle(&handles[i], blocks[i]));
  const cudaError_t left = cudaGetLastError();  // the last of these codes, as without Spillway
  for (const std::size_t i : {std::size_t{0}, kBlocks - 1})
    values.push_back(values[i] == 0 ? word_elsewhere(words[0], handles[i]) : -1);
  values.push_back(left);
  return print_result(kRow, values, kBlocks * kBlockBytes, "cudaMalloc, exported");
}
