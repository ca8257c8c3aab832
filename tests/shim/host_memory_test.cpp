// Host memory by control groups, from folders made up for the purpose.
#include "shim/host_memory.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace spillway::shim {
namespace {

namespace fs = std::filesystem;

class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() {
    std::string pattern = (fs::temp_directory_path() / "host-memory-XXXXXX").string();
    root_ = fs::path(::mkdtemp(pattern.data())) / "";
    write("proc/meminfo", "MemTotal:       2000 kB\nMemFree:         100 kB\nMemAvailable:   1000 kB\n");
  }
  ~HostMemoryTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void group(const std::string& path, const std::string& limit, const std::string& used,
             const std::string& cache = "0") const {
    write(path + "/memory.max", limit + "\n");
    write(path + "/memory.current", used + "\n");
    write(path + "/memory.stat", "anon 1\ninactive_file " + cache + "\nactive_file 7\n");
  }
  void old_group(const std::string& path, const std::string& limit, const std::string& used) const {
    write(path + "/memory.limit_in_bytes", limit + "\n");
    write(path + "/memory.usage_in_bytes", used + "\n");
    write(path + "/memory.stat", "total_inactive_file 0\n");
  }
  [[nodiscard]] HostMemory read() const { return read_host_memory(root_.string()); }

  fs::path root_;
};

TEST_F(HostMemoryTest, FreeMemoryWhereNoGroupLimits) {
  EXPECT_EQ(read().available.count(), 1000U * 1024);
  EXPECT_EQ(read().binding_limit, "free memory");
  write("proc/self/cgroup", "0::/a\n");
  EXPECT_EQ(read().available.count(), 1000U * 1024);
  group("sys/fs/cgroup/a", "max", "500");
  EXPECT_EQ(read().available.count(), 1000U * 1024);
}

TEST_F(HostMemoryTest, WithoutProcTheKernelIsAskedAndTheGroupInSightLimits) {
  EXPECT_EQ(read().proc_error, 0);
  fs::remove_all(root_ / "proc");
  EXPECT_EQ(read().proc_error, ENOENT);
  // No machine that builds this has less.
  EXPECT_GT(read().available.count(), std::uint64_t{1} << 20);
  group("sys/fs/cgroup", "60000", "10000");
  EXPECT_EQ(read().available.count(), 50000U);
  EXPECT_TRUE(read().binding_limit.ends_with("cgroup/memory.max")) << read().binding_limit;
}

TEST_F(HostMemoryTest, WithoutADescriptorTheReasonIsTheTrueOne) {
  struct rlimit before {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  struct rlimit none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);
  const HostMemory memory = read();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(memory.proc_error, EMFILE);
  EXPECT_GT(memory.available.count(), std::uint64_t{1} << 20);
}

TEST_F(HostMemoryTest, SecondVersionOwnLimitAndAParentsWhichIsLess) {
  write("proc/self/cgroup", "0::/a/b\n");
  group("sys/fs/cgroup/a/b", "600000", "100000");
  EXPECT_EQ(read().available.count(), 500000U);
  EXPECT_TRUE(read().binding_limit.ends_with("a/b/memory.max")) << read().binding_limit;
  group("sys/fs/cgroup/a", "400000", "150000");
  EXPECT_EQ(read().available.count(), 250000U);
  EXPECT_TRUE(read().binding_limit.ends_with("cgroup/a/memory.max")) << read().binding_limit;
  // What only caches files is given up before anybody is killed.
  group("sys/fs/cgroup/a", "400000", "150000", "50000");
  EXPECT_EQ(read().available.count(), 300000U);
}

TEST_F(HostMemoryTest, UsedBeyondTheLimitLeavesNothing) {
  write("proc/self/cgroup", "0::/\n");
  group("sys/fs/cgroup", "1000", "2000");
  EXPECT_EQ(read().available.count(), 0U);
}

TEST_F(HostMemoryTest, FirstVersionByItsMemoryController) {
  write("proc/self/cgroup", "12:cpu,cpuacct:/other\n4:hugetlb,memory:/x/y\n1:name=systemd:/z\n");
  old_group("sys/fs/cgroup/memory/x/y", "9223372036854771712", "5");
  EXPECT_EQ(read().available.count(), 1000U * 1024) << "no limit, as the first version writes it";
  old_group("sys/fs/cgroup/memory/x", "300000", "100000");
  EXPECT_EQ(read().available.count(), 200000U);
  EXPECT_TRUE(read().binding_limit.ends_with("memory/x/memory.limit_in_bytes"));
}

TEST_F(HostMemoryTest, NonsenseIsNoLimit) {
  write("proc/self/cgroup", "\n::\nrubbish\n0::/a");
  group("sys/fs/cgroup/a", "", "many");
  EXPECT_EQ(read().available.count(), 1000U * 1024);
}

}  // namespace
}  // namespace spillway::shim
