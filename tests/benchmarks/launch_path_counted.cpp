// The launch path as a program whose instructions are counted (count_instructions.py): so many launches in
// `counted_launches`, and nothing else in it.
//
//   ./launch_path_counted record|symbol POINTERS LAUNCHES
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/recorder.hpp"
#include "tests/benchmarks/launch_path_setup.hpp"

namespace spillway::shim {
namespace {

[[gnu::noinline]] CUresult no_driver_call() {
  asm volatile("" ::: "memory");
  return CUDA_SUCCESS;
}

// Named for the tool, so not in C++'s way.
extern "C" [[gnu::noinline]] void counted_launches(bool whole_call, void*** parameters, int launches) {
  const auto kernel = static_cast<CUfunction>(const_cast<void*>(kKernel));
  for (int i = 0; i < launches; ++i) {
    if (whole_call) {
      ::cuLaunchKernel(kernel, 1024, 1, 1, 1, 1, 1, 0, nullptr, parameters[i], nullptr);
    } else {
      record_launch({kKernel, 1024, parameters[i], nullptr, nullptr, false}, no_driver_call);
    }
  }
}

int count(bool whole_call, std::size_t pointers, int launches) {
  if (whole_call && !find_driver(Search::load)) {
    std::fputs("launch_path_counted: no stand-in driver was found beside the program\n", stderr);
    return 1;
  }
  ArgumentSets arguments = make_arguments(pointers);
  std::vector<void**> parameters;
  for (int i = 0; i < launches; ++i)
    parameters.push_back(arguments.parameters[static_cast<std::size_t>(i) % kSets].data());
  // What happens once (look-ups, the thread's ring) is not in the figure.
  counted_launches(whole_call, parameters.data(), 1);
  launch_path().rings.drain([](const RecordHeader&) {});
  if (whole_call) {
    counted_launches(true, parameters.data(), launches);
  } else {
    const HookScope inside;  // as the entry makes it
    counted_launches(false, parameters.data(), launches);
  }
  std::size_t records = 0;
  launch_path().rings.drain([&records](const RecordHeader&) { ++records; });
  if (launch_path().rings.take_dropped() != 0 || records == 0) {
    std::fputs("launch_path_counted: records were dropped or not made: the figure would be too good\n", stderr);
    return 1;
  }
  std::printf("%zu records\n", records);
  return 0;
}

}  // namespace
}  // namespace spillway::shim

int main(int count, char** words) {
  if (count != 4) {
    std::fputs("usage: launch_path_counted record|symbol POINTERS LAUNCHES\n", stderr);
    return 2;
  }
  const auto pointers = static_cast<std::size_t>(std::atoi(words[2]));
  return spillway::shim::count(std::strcmp(words[1], "symbol") == 0, pointers, std::atoi(words[3]));
}
