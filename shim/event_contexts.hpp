// Where events of ours are recorded beside launches: contexts, as events belong to them, and what is kept for each.
//
// The launching thread finds the place of a context or says that it wants one; it takes no lock and makes nothing. A
// thread of ours makes what is wanted. A place is left alone from before the driver ends its context, and forgotten
// afterwards.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
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
  CUcontext ending = nullptr;               // with the lock
};

template <class Place>
class EventContexts {
 public:
  static constexpr std::size_t kMost = 8;

  // Held across the driver's calls of our threads, so that none is made in a context that is ending. Launching threads
  // never take it.
  std::mutex mutex;

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
      const std::lock_guard lock(mutex);
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

  // Before the driver ends a context, and after. `forget` is called for the place of one that has ended, with the lock.
  void begin_end(CUcontext context) {
    const std::lock_guard lock(mutex);
    forget_wanted(context);
    if (Place* place = find(context)) {
      place->ending = context;
      place->context.store(nullptr, std::memory_order_release);
    }
  }
  template <class Forget>
  void end_end(CUcontext context, CUresult result, const Forget& forget) {
    const std::lock_guard lock(mutex);
    forget_wanted(context);  // if somebody still launched there
    for (Place& place : places_) {
      if (place.ending != context) continue;
      place.ending = nullptr;
      result == CUDA_SUCCESS ? forget(place) : place.context.store(context, std::memory_order_release);
    }
  }

 private:
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

  std::array<Place, kMost> places_;
  std::array<std::atomic<CUcontext>, kMost> wanted_{};
};

}  // namespace spillway::shim
