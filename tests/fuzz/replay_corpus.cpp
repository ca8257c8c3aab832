// Runs a fuzzer's function over every file of the folders named, and over damaged copies of each, where no libFuzzer
// is.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

constexpr int kDamagedCopies = 200;

void run_damaged(const Input& input, std::mt19937_64& random) {
  Input copy = input;
  for (std::size_t i = 0; i < 1 + random() % 8; ++i) copy[random() % copy.size()] = static_cast<std::uint8_t>(random());
  if (random() % 4 == 0) copy.resize(random() % copy.size());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t files = 0;
  std::mt19937_64 random(1);
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const Input input{std::istreambuf_iterator<char>(file), {}};
      LLVMFuzzerTestOneInput(input.data(), input.size());
      for (int k = 0; k < kDamagedCopies && !input.empty(); ++k) run_damaged(input, random);
      ++files;
    }
  }
  std::printf("%zu inputs and %d damaged copies of each\n", files, kDamagedCopies);
  return files > 0 ? 0 : 1;  // an empty corpus is a mistake, not a pass
}
