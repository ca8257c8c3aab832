#include "shim/registry.hpp"

#include <gtest/gtest.h>

namespace spillway::shim {
namespace {

Registered memory(std::uint32_t id, std::uint64_t address, policy::Backing backing) {
  Registered made;
  made.id = {id};
  made.address = {address};
  made.bytes = policy::Bytes(4096);
  made.backing = backing;
  return made;
}

// Between the driver's free and our hearing of it another thread may get the address.
TEST(Registry, TwoMayHaveOneAddressForAWhile) {
  Registry registry;
  registry.insert(memory(1, 0x10000, policy::Backing::managed));
  registry.find({1})->freeing = true;
  registry.insert(memory(2, 0x10000, policy::Backing::device));
  ASSERT_NE(registry.find({1}), nullptr);
  EXPECT_EQ(registry.find({1})->id, policy::AllocationId{1});
  EXPECT_TRUE(registry.find({1})->freeing) << "what is going is no other memory's";
  EXPECT_TRUE(registry.find({1})->spilled());
  EXPECT_EQ(registry.beginning({0x10000})->id, policy::AllocationId{2});
  registry.remove({1});
  EXPECT_EQ(registry.find({1}), nullptr);
  ASSERT_NE(registry.holding({0x10001}), nullptr);
  EXPECT_EQ(registry.holding({0x10001})->id, policy::AllocationId{2});
  EXPECT_EQ(registry.holding({0x11000}), nullptr);
  registry.remove({2});
  EXPECT_EQ(registry.beginning({0x10000}), nullptr);
}

}  // namespace
}  // namespace spillway::shim
