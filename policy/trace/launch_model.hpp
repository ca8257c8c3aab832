// What a packed frame expects of launches: programs repeat, so the next shape is the one that came after this one the
// last time, a new shape resembles the one that it stands in for, and a kernel takes as long as it did.
//
// Pure. The reading side keeps the same books from what it has read; nothing of the file is trusted with a size or a
// place. Used by RecordModel only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy/trace/number_model.hpp"

namespace spillway::policy::trace {

class LaunchModel {
 public:
  // The next shape, if what is known of the last ones says so; 0 if not.
  [[nodiscard]] std::uint32_t expected() const {
    if (new_shape_ != 0) return new_shape_;
    return after_expected_;
  }

  template <class Coder>
  std::uint32_t code_launch(Coder& coder, std::uint32_t shape) {
    const bool is_new = new_shape_ != 0;
    const std::uint32_t first = expected();
    const std::uint32_t second = after(last_);
    std::uint32_t now = first;
    if (!coder.bit(expected_[is_new ? 2 : (missed_ ? 1 : 0)], shape == first)) {
      now = second;
      if (second == first || !coder.bit(second_, shape == second)) {
        now = static_cast<std::uint32_t>(last_ + difference_.code(coder, std::uint64_t{shape} - last_));
      }
    }
    missed_ = now != first;
    note_launch(now);
    return now;
  }

  void note_shape(std::uint32_t shape) { new_shape_ = shape; }

 private:
  static constexpr std::size_t kShapes = 16384;
  static std::size_t place(std::uint64_t key) { return (key * 0x9E3779B97F4A7C15U) >> 50; }
  static_assert(kShapes == std::size_t{1} << (64 - 50));

  [[nodiscard]] std::uint32_t after(std::uint32_t shape) const { return after_one_[place(shape)]; }
  [[nodiscard]] std::uint32_t after(std::uint32_t before, std::uint32_t shape) const {
    return after_two_[place(std::uint64_t{before} << 32 | shape)];
  }

  void note_launch(std::uint32_t shape) {
    // Where a new shape came instead of an old one, things go on as they did after the old one.
    const std::uint32_t instead_of = shape == new_shape_ ? after_expected_ : shape;
    new_shape_ = 0;
    after_one_[place(last_)] = shape;
    after_two_[place(std::uint64_t{before_} << 32 | last_)] = shape;
    before_ = last_;
    last_ = shape;
    after_expected_ = after(before_, last_);
    if (after_expected_ == 0) after_expected_ = after(last_);
    if (after_expected_ == 0) after_expected_ = after(instead_of);
  }

  std::array<Likelihood, 3> expected_{};
  Likelihood second_;
  DifferenceModel difference_;
  std::array<std::uint32_t, kShapes> after_one_{};
  std::array<std::uint32_t, kShapes> after_two_{};
  std::uint32_t last_ = 0;
  std::uint32_t before_ = 0;
  std::uint32_t after_expected_ = 0;
  std::uint32_t new_shape_ = 0;  // seen, and not launched yet
  bool missed_ = false;
};

// The argument lists of the shapes seen in a chain.
class ShapeBook {
 public:
  struct Shape {
    std::uint32_t function = 0;
    std::uint64_t threads = 0;
    std::uint32_t first = 0;  // of its arguments, in `arguments_`
    std::uint32_t count = 0;
  };
  struct Argument {
    std::uint32_t index = 0;
    std::uint64_t address = 0;
  };

  [[nodiscard]] const Shape* find(std::uint32_t shape) const { return at(by_shape_[place(shape)]); }
  [[nodiscard]] const Shape* last_of(std::uint32_t function) const { return at(by_function_[place(function)]); }
  // Of one of these shapes; nothing past its last.
  [[nodiscard]] Argument argument(const Shape& shape, std::size_t at) const {
    return at < shape.count ? arguments_[shape.first + at] : Argument{};
  }
  void add(std::uint32_t id, const Shape& shape) {
    shapes_.push_back(shape);
    const auto number = static_cast<std::uint32_t>(shapes_.size());
    by_shape_[place(id)] = number;
    by_function_[place(shape.function)] = number;
  }
  void add_argument(Argument argument) { arguments_.push_back(argument); }
  [[nodiscard]] std::uint32_t arguments() const { return static_cast<std::uint32_t>(arguments_.size()); }

 private:
  static constexpr std::size_t kPlaces = 8192;
  static std::size_t place(std::uint32_t key) { return (key * 0x9E3779B97F4A7C15U) >> 51; }
  [[nodiscard]] const Shape* at(std::uint32_t number) const { return number == 0 ? nullptr : &shapes_[number - 1]; }

  std::array<std::uint32_t, kPlaces> by_shape_{};
  std::array<std::uint32_t, kPlaces> by_function_{};
  std::vector<Shape> shapes_;
  std::vector<Argument> arguments_;
};

// When kernels began and how long they took.
class KernelTimeModel {
 public:
  void begin(std::uint64_t launches) { launches_ = launches; }
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  void note_launch(std::uint32_t shape, std::uint64_t time) {
    ++launches_;
    launched_[launches_ % kLaunches] = {launches_, shape, time};
  }

  struct Timed {
    std::uint64_t launch = 0;
    std::uint64_t start = 0;
    std::uint64_t duration = 0;
  };
  template <class Coder>
  Timed code(Coder& coder, Timed timed) {
    Timed now;
    now.launch = launch_.code(coder, timed.launch);
    const Launch& launch = launched_[now.launch % kLaunches];
    const bool known = launch.number == now.launch;
    const std::uint64_t earliest =
        known && static_cast<std::int64_t>(launch.time) > static_cast<std::int64_t>(end_) ? launch.time : end_;
    now.start = earliest + start_[earliest == end_ ? 0 : 1].code(coder, timed.start - earliest);
    std::uint64_t& usual = durations_[(known ? launch.shape : 0) * 0x9E3779B97F4A7C15U >> 51];
    now.duration = usual + duration_[usual == 0 ? 1 : 0].code(coder, timed.duration - usual);
    usual = now.duration;
    end_ = now.start + now.duration;
    return now;
  }

 private:
  struct Launch {
    std::uint64_t number = 0;
    std::uint32_t shape = 0;
    std::uint64_t time = 0;
  };
  static constexpr std::size_t kLaunches = 4096;

  std::array<Launch, kLaunches> launched_{};
  std::array<std::uint64_t, 8192> durations_{};
  FieldModel launch_;
  std::array<DifferenceModel, 2> start_;
  std::array<DifferenceModel, 2> duration_;
  std::uint64_t end_ = 0;
  std::uint64_t launches_ = 0;
};

}  // namespace spillway::policy::trace
