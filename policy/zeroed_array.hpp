// A large array that begins as zeros and is written here and there: its pages are the system's until they are written,
// where a vector would write them all.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace spillway::policy {

template <class T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  ZeroedArray() = default;
  // Throws std::bad_alloc.
  explicit ZeroedArray(std::size_t size) : items_(static_cast<T*>(std::calloc(size, sizeof(T)))), size_(size) {
    if (items_ == nullptr && size > 0) throw std::bad_alloc();
  }
  ZeroedArray(ZeroedArray&& other) noexcept
      : items_(std::move(other.items_)), size_(std::exchange(other.size_, std::size_t{0})) {}
  ZeroedArray& operator=(ZeroedArray&& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(size_, other.size_);
    return *this;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return items_[index]; }
  const T& operator[](std::size_t index) const { return items_[index]; }

 private:
  struct Free {
    void operator()(T* items) const { std::free(items); }
  };
  std::unique_ptr<T[], Free> items_;
  std::size_t size_ = 0;
};

}  // namespace spillway::policy
