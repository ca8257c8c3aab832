#include "shim/function_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace spillway::shim {
namespace {

// A driver of two kinds of handles: below 1000 CUfunctions, above CUkernels; the name is the handle's last two digits.
std::atomic<int> queries{0};

std::uintptr_t number(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }
const void* handle(std::uintptr_t n) { return reinterpret_cast<const void*>(n); }

CUresult name_of_number(const char** name, std::uintptr_t n) {
  static const char* const names[] = {"alpha", "beta", "gamma"};
  *name = names[n % 3];
  return CUDA_SUCCESS;
}

CUresult function_name(const char** name, CUfunction function) {
  ++queries;
  return number(function) < 1000 ? name_of_number(name, number(function)) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult kernel_name(const char** name, CUkernel kernel) {
  return number(kernel) >= 1000 ? name_of_number(name, number(kernel)) : CUDA_ERROR_INVALID_HANDLE;
}
CUresult parameter(std::size_t index, std::size_t* offset, std::size_t* size, std::size_t count) {
  if (index >= count) return CUDA_ERROR_INVALID_VALUE;
  *offset = index * 8;
  *size = 8;
  return CUDA_SUCCESS;
}
CUresult function_parameter(CUfunction, std::size_t index, std::size_t* offset, std::size_t* size) {
  return parameter(index, offset, size, 2);
}
CUresult kernel_parameter(CUkernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  return parameter(index, offset, size, 3);
}
CUresult library_of(CUlibrary* library, CUkernel kernel) {
  *library = reinterpret_cast<CUlibrary>(number(kernel) / 1000);
  return CUDA_SUCCESS;
}
CUresult module_of(CUmodule* module, CUfunction) {
  *module = reinterpret_cast<CUmodule>(77);
  return CUDA_SUCCESS;
}

Driver fake_driver() {
  Driver driver;
  driver.cuFuncGetName = function_name;
  driver.cuKernelGetName = kernel_name;
  driver.cuFuncGetParamInfo = function_parameter;
  driver.cuKernelGetParamInfo = kernel_parameter;
  driver.cuKernelGetLibrary = library_of;
  driver.cuFuncGetModule = module_of;
  return driver;
}

class FunctionTableTest : public testing::Test {
 protected:
  Driver driver = fake_driver();
  std::unique_ptr<FunctionTable> table = std::make_unique<FunctionTable>();
};

TEST_F(FunctionTableTest, LearnsBothKindsOfHandles) {
  EXPECT_EQ(table->find(handle(3)), nullptr);
  const FunctionRecord* function = table->learn(handle(3), driver);
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function->words.size(), 2U);
  EXPECT_FALSE(function->is_kernel);
  const FunctionRecord* kernel = table->learn(handle(1000), driver);
  EXPECT_EQ(kernel->words.size(), 3U);
  EXPECT_TRUE(kernel->layout_known);
  EXPECT_EQ(table->find(handle(3)), function);
  EXPECT_EQ(table->find(handle(1000)), kernel);
}

TEST_F(FunctionTableTest, OneNameIsOneFunction) {
  const auto first = table->learn(handle(3), driver)->id;
  EXPECT_EQ(table->learn(handle(6), driver)->id, first);
  EXPECT_NE(table->learn(handle(4), driver)->id, first);
  EXPECT_EQ(table->name_of(first), "alpha");
  EXPECT_EQ(table->size(), 2U);
  EXPECT_EQ(table->name_of({99}), "");
  EXPECT_EQ(table->name_of({0}), "");
}

TEST_F(FunctionTableTest, ForgetsWhatGoesWithALibrary) {
  const auto id = table->learn(handle(1001), driver)->id;
  table->learn(handle(2001), driver);
  table->learn(handle(5), driver);
  table->forget(handle(1));
  EXPECT_EQ(table->find(handle(1001)), nullptr);
  EXPECT_NE(table->find(handle(2001)), nullptr) << "another library's kernel went too";
  EXPECT_EQ(table->find(handle(5)), nullptr) << "nobody knows which library a CUfunction came from";
  EXPECT_EQ(table->learn(handle(1001), driver)->id, id) << "the name came back with another id";
  table->forget_all();
  EXPECT_EQ(table->find(handle(2001)), nullptr);
}

TEST_F(FunctionTableTest, WithoutTheQueriesTheLayoutIsUnknown) {
  const Driver old;
  const FunctionRecord* record = table->learn(handle(3), old);
  ASSERT_NE(record, nullptr);
  EXPECT_FALSE(record->layout_known);
  EXPECT_TRUE(record->words.empty());
  EXPECT_NE(record->id, table->learn(handle(4), old)->id);
}

TEST_F(FunctionTableTest, HandlesMayComeAndGoForever) {
  for (std::uintptr_t n = 1000; n < 101'000; ++n) {
    ASSERT_NE(table->learn(handle(n), driver), nullptr);
    if (n % 1000 == 999) table->forget(handle(n / 1000));
  }
  ASSERT_NE(table->learn(handle(3), driver), nullptr);
  EXPECT_NE(table->find(handle(3)), nullptr);
  // A thousand were live at a time, of three names, one of which may be a few more each time.
  EXPECT_LE(table->records(), 1010U);
}

TEST_F(FunctionTableTest, FunctionsWithoutANameComeAndGoForeverToo) {
  const Driver old;
  for (int round = 0; round < 1000; ++round) {
    const auto first = table->learn(handle(3), old)->id;
    EXPECT_NE(table->learn(handle(4), old)->id, first);
    table->forget_all();
  }
  EXPECT_EQ(table->records(), 2U);
  EXPECT_EQ(table->size(), 2U);
}

TEST_F(FunctionTableTest, ARecordServesOnlyAHandleOfTheSameFunction) {
  const FunctionRecord* alpha = table->learn(handle(3), driver);
  table->forget_all();
  EXPECT_NE(table->learn(handle(4), driver), alpha) << "beta";
  EXPECT_NE(table->learn(handle(1002), driver), alpha) << "alpha with another layout";
  EXPECT_EQ(table->learn(handle(6), driver), alpha);
  EXPECT_EQ(table->find(handle(3)), nullptr);
  EXPECT_EQ(table->find(handle(6)), alpha);
}

TEST_F(FunctionTableTest, ThreadsLearnAndForgetTogether) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (std::uintptr_t n = 1000; !stop; n = 1000 + (n - 999) % 50) {
        const FunctionRecord* record = table->find(handle(n));
        if (record == nullptr) record = table->learn(handle(n), driver);
        // Its handle may be another's by now; what it says is right all the same.
        const char* name = nullptr;
        name_of_number(&name, n);
        if (record->name != name || record->words.size() != 3) ++wrong;
      }
    });
  }
  for (int i = 0; i < 200; ++i) table->forget(handle(1));
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace spillway::shim
