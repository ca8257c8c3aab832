// Where events of ours are recorded beside launches: contexts, as events belong to them, and what is kept for each.
//
// The launching thread finds the place of a context or says that it wants one; it takes no lock and makes nothing. A
// thread of ours makes what is wanted. A place is left alone from before the driver ends its context, and forgotten
// afterwards.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "shim/advice.hpp"
#include "shim/cuda_driver.hpp"
#include "shim/handlers/calling_context.hpp"

namespace spillway::shim {

// The stream that a call means.
CUstream meant_stream(CUstream stream, bool per_thread);
// The context of a stream that surely is not being captured, else null: an event would become a part of the graph.
CUcontext context_for_event(CUstream meant);

// What every place has.
struct EventPlace {
  std::atomic<CUcontext> context{nullptr};  // null: nothing is recorded here
  CUcontext ending = nullptr;               // changes while nobody has a Use
};

template <class Place>
class EventContexts {
 public:
  static constexpr std::size_t kMost = 8;

  // A thread of ours has one while it calls the driver for the places: one at a time, and none in a context that is
  // ending. Launching threads never take it.
  class Use {
   public:
    explicit Use(EventContexts& of) : of_(of) {
      std::unique_lock lock(of_.mutex_);
      of_.left_.wait(lock, [this] { return !of_.in_use_; });
      of_.in_use_ = true;
    }
    ~Use() {
      const std::lock_guard lock(of_.mutex_);
      of_.in_use_ = false;
      of_.left_.notify_all();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    EventContexts& of_;
  };

  std::array<Place, kMost>& places() { return places_; }

  // The launching thread. Null: there is none yet, but now it is wanted.
  Place* place_of(CUcontext context) {
    if (Place* place = find(context)) return place;
    for (auto& wanted : wanted_) {
      CUcontext none = nullptr;
      if (wanted.compare_exchange_strong(none, context, std::memory_order_relaxed) || none == context) break;
    }
    return nullptr;
  }

  // A thread of ours. `fill` makes the events of a place, in its context, and is false once the driver has refused one.
  // False if there was no vacant place for a context.
  template <class IsVacant, class Fill>
  bool make_wanted(const IsVacant& is_vacant, const Fill& fill) {
    bool room = true;
    for (auto& wanted : wanted_) {
      if (wanted.load(std::memory_order_relaxed) == nullptr) continue;
      const Use use(*this);
      const CUcontext context = wanted.load(std::memory_order_relaxed);  // it may have ended
      if (context != nullptr && find(context) == nullptr) {
        const auto place = std::find_if(places_.begin(), places_.end(), [&](const Place& of) {
          return of.context.load(std::memory_order_relaxed) == nullptr && of.ending == nullptr && is_vacant(of);
        });
        if (place == places_.end()) {
          room = false;
        } else {
          const RelaxedCapture relaxed;
          const CurrentContext current(context);
          if (!fill(*place)) return true;
          place->context.store(context, std::memory_order_release);
        }
      }
      wanted.store(nullptr, std::memory_order_relaxed);
    }
    return room;
  }

  // Before the driver ends a context, and after. `forget` is called for the place of one that has ended, while nobody
  // has a Use. False: a call of ours does not come back. The context is not kept waiting for it; what is here is left
  // as it is for good, and whoever owns it has to record nothing any more.
  [[nodiscard]] bool begin_end(CUcontext context) {
    std::unique_lock lock(mutex_);
    if (!is_left(lock)) return false;
    forget_wanted(context);
    if (Place* place = find(context)) {
      place->ending = context;
      place->context.store(nullptr, std::memory_order_release);
    }
    return true;
  }
  template <class Forget>
  [[nodiscard]] bool end_end(CUcontext context, CUresult result, const Forget& forget) {
    std::unique_lock lock(mutex_);
    if (!is_left(lock)) return false;
    forget_wanted(context);  // if somebody still launched there
    for (Place& place : places_) {
      if (place.ending != context) continue;
      place.ending = nullptr;
      result == CUDA_SUCCESS ? forget(place) : place.context.store(context, std::memory_order_release);
    }
    return true;
  }

 private:
  static constexpr std::chrono::seconds kWaitForUse{2};  // the calls take microseconds

  bool is_left(std::unique_lock<std::mutex>& lock) {
    given_up_ = given_up_ || !left_.wait_for(lock, kWaitForUse, [this] { return !in_use_; });
    return !given_up_;
  }
  void forget_wanted(CUcontext context) {
    for (auto& wanted : wanted_) {
      if (wanted.load(std::memory_order_relaxed) == context) wanted.store(nullptr, std::memory_order_relaxed);
    }
  }
  Place* find(CUcontext context) {
    for (Place& place : places_) {
      if (place.context.load(std::memory_order_acquire) == context) return &place;
    }
    return nullptr;
  }

  std::mutex mutex_;  // no driver call happens under it
  std::condition_variable left_;
  bool in_use_ = false;
  bool given_up_ = false;
  std::array<Place, kMost> places_;
  std::array<std::atomic<CUcontext>, kMost> wanted_{};
};

}  // namespace spillway::shim
