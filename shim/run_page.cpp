#include "shim/run_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#ifndef F_SEAL_FUTURE_WRITE  // since Linux 5.1
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace spillway::shim {
namespace {

constexpr int kLowestDescriptor = 512;
constexpr std::int64_t kWindow = 2'000'000'000;

}  // namespace

void put_text(std::span<char> into, std::string_view text) {
  const std::size_t length = std::min(text.size(), into.size() - 1);
  std::copy_n(text.begin(), length, into.begin());
  std::fill(into.begin() + static_cast<std::ptrdiff_t>(length), into.end(), '\0');
}

RunPageFile::~RunPageFile() {
  if (shared_ != nullptr) ::munmap(shared_, sizeof(policy::RunPage));
  if (still_ours()) ::close(descriptor_);
}

void RunPageFile::open(const policy::trace::TraceHeader& about, const policy::Settings& settings) {
  // A program that may write no file so large would be killed for it.
  rlimit longest{};
  if (::getrlimit(RLIMIT_FSIZE, &longest) == 0 && longest.rlim_cur < sizeof(policy::RunPage)) return;
  const int low = ::memfd_create(policy::kRunPageName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (low < 0) return;
  const int high = ::fcntl(low, F_DUPFD_CLOEXEC, kLowestDescriptor);
  if (high >= 0) ::close(low);
  descriptor_ = high >= 0 ? high : low;
  constexpr std::size_t kSize = sizeof(policy::RunPage);
  struct stat status {};
  // The memory is taken now: a write into the mapping must not find that there is none.
  void* shared = MAP_FAILED;
  if (::fchmod(descriptor_, 0600) == 0 && ::posix_fallocate(descriptor_, 0, kSize) == 0 &&
      ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 && ::fstat(descriptor_, &status) == 0) {
    shared = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  }
  if (shared == MAP_FAILED || ::madvise(shared, kSize, MADV_DONTFORK) != 0) {
    if (shared != MAP_FAILED) ::munmap(shared, kSize);
    ::close(descriptor_);
    descriptor_ = -1;
    return;
  }
  // From here on only this mapping writes. An older kernel does not know the first of them.
  ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
  ::fcntl(descriptor_, F_ADD_SEALS, F_SEAL_SEAL);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  shared_ = static_cast<policy::RunPage*>(shared);
  page_.size = kSize;
  page_.pid = about.pid;
  put_text(page_.program, about.program);
  put_text(page_.host, about.host);
  put_text(page_.rank, about.rank);
  put_text(page_.mode, policy::find_setting("policy.mode")->get(settings));
}

void RunPageFile::publish() {
  if (shared_ == nullptr) return;
  const std::atomic_ref<std::uint64_t> sequence(shared_->sequence);
  const std::uint64_t before = sequence.load(std::memory_order_relaxed);
  // Nothing written after it may be seen before it. An exchange, as the thread sanitizer does not know fences.
  sequence.exchange(before + 1, std::memory_order_seq_cst);
  page_.sequence = before + 1;
  std::memcpy(shared_, &page_, sizeof page_);
  sequence.store(before + 2, std::memory_order_release);
}

// The program may have closed the descriptor, and the number may be another file's by now.
bool RunPageFile::still_ours() const {
  struct stat status {};
  return descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

void RunPageFile::after_fork_in_child() {
  if (still_ours()) ::close(descriptor_);
  descriptor_ = -1;
  shared_ = nullptr;  // not mapped here
}

void RunPageRates::add(policy::RunPage& page) {
  Sample now{page.time, page.launches, {}, {}};
  const std::size_t devices = std::min<std::size_t>(page.device_count, page.devices.size());
  for (std::size_t i = 0; i < devices; ++i) {
    now.in[i] = page.devices[i].moved_in;
    now.out[i] = page.devices[i].moved_out;
  }
  // The oldest that lies in the window, or the one before it.
  std::size_t keep = 0;
  while (keep + 1 < count_ && now.time - samples_[keep + 1].time >= kWindow) ++keep;
  if (count_ - keep == kSamples) ++keep;
  std::move(samples_.begin() + static_cast<std::ptrdiff_t>(keep),
            samples_.begin() + static_cast<std::ptrdiff_t>(count_), samples_.begin());
  count_ -= keep;
  const Sample& oldest = count_ == 0 ? now : samples_[0];
  const double seconds = static_cast<double>(now.time - oldest.time) / 1e9;
  const auto rate = [seconds](std::uint64_t before, std::uint64_t after) {
    return seconds > 0 && after > before ? static_cast<double>(after - before) / seconds : 0.0;
  };
  page.launches_per_second = rate(oldest.launches, now.launches);
  for (std::size_t i = 0; i < devices; ++i) {
    page.devices[i].in_per_second = rate(oldest.in[i], now.in[i]);
    page.devices[i].out_per_second = rate(oldest.out[i], now.out[i]);
  }
  samples_[count_++] = now;
}

}  // namespace spillway::shim
