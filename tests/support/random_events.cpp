#include "tests/support/random_events.hpp"

#include <limits>

namespace spillway::tests {

using namespace policy;

std::string RandomEvents::text() {
  std::string text(below(4) == 0 ? 0 : below(300), '\0');
  for (char& letter : text) letter = static_cast<char>(below(256));
  return text;
}

EventBody RandomEvents::event_body(std::size_t alternative) {
  switch (alternative) {
    case 0: {
      DeviceSeen seen{id<DeviceIndex>(), {}, bytes(), bytes(), below(2) == 1, text()};
      for (auto& byte : seen.uuid) byte = any<std::uint8_t>();
      return seen;
    }
    case 1:
      return HostMemorySeen{bytes()};
    case 2:
      return DeviceReserved{id<DeviceIndex>(), bytes(), text()};
    case 3:
      return FunctionSeen{id<FunctionId>(), text()};
    case 4:
      return CallerSeen{id<CallerId>(), text()};
    case 5:
      return AllocationRequested{id<AllocationId>(), id<DeviceIndex>(), bytes(),      one_of<AllocationKind>(10),
                                 id<CallerId>(),     id<StreamId>(),    below(2) == 1};
    case 6:
      return AllocationSettled{id<AllocationId>(), id<Address>(), bytes(), one_of<Backing>(2), result()};
    case 7:
      return FreeRequested{id<AllocationId>(), id<StreamId>()};
    case 8:
      return Freed{id<AllocationId>(), result()};
    case 9: {
      LaunchShapeSeen seen{id<LaunchShapeId>(), id<FunctionId>(), any<std::uint64_t>(), {}};
      seen.arguments.resize(below(100));
      for (PointerArgument& argument : seen.arguments) argument = {any<std::uint16_t>(), id<Address>()};
      return seen;
    }
    case 10:
      return Launched{id<LaunchShapeId>(), id<StreamId>()};
    case 11:
      return Copied{id<StreamId>(), one_of<CopyKind>(4), id<Address>(), id<Address>(), bytes()};
    case 12:
      return Filled{id<StreamId>(), id<Address>(), bytes()};
    case 13: {
      GraphSeen seen{id<GraphId>(), {}};
      seen.shapes.resize(below(200));
      for (LaunchShapeId& shape : seen.shapes) shape = id<LaunchShapeId>();
      return seen;
    }
    case 14:
      return GraphLaunched{id<GraphId>(), id<StreamId>()};
    case 15:
      return MoveFinished{id<DecisionId>(), one_of<MoveOutcome>(3), result(), nanoseconds()};
    case 16:
      return KernelTimed{id<LaunchNumber>(), nanoseconds(), nanoseconds()};
    case 17:
      return PagesObserved{one_of<PageTraffic>(5), id<Address>(), bytes()};
    case 18:
      return EventsDropped{any<std::uint64_t>()};
    case 19:
      return TimePassed{};
    case 20:
      return TelemetryChanged{one_of<TelemetryState>(9), text()};
    case 21:
      return Mapped{id<AllocationId>(), id<Address>()};
    case 22:
      return CallSeen{text()};
    case 23:
      return ContextRefused{id<DeviceIndex>(), result()};
    default:
      return MarkPassed{id<LaunchNumber>(), result()};
  }
}

DecisionBody RandomEvents::decision_body(std::size_t alternative) {
  switch (alternative) {
    case 0:
      return BackAllocation{id<AllocationId>(), one_of<Backing>(2), one_of<Placement>(4)};
    case 1:
      return RefuseAllocation{id<AllocationId>(), bytes()};
    case 2:
      return MoveRange{id<AllocationId>(), bytes(),           bytes(), one_of<Placement>(4), one_of<Urgency>(3),
                       id<LaunchNumber>(), id<LaunchNumber>()};
    case 3:
      return AdviseRange{id<AllocationId>(), bytes(), bytes(), one_of<Advice>(8)};
    case 4:
      return CancelMoves{id<AllocationId>()};
    case 5:
      return Note{id<AllocationId>(), bytes(), bytes(), text()};
    default:
      return MarkProgress{any<std::uint64_t>()};
  }
}

Decision RandomEvents::decision(std::size_t alternative) {
  Decision decision;
  decision.id = id<DecisionId>();
  decision.cause = {one_of<Reason>(22), any<std::uint16_t>(), any<std::uint16_t>(),
                    static_cast<float>(below(1'000'000)) / 7.0F, id<LaunchNumber>()};
  decision.body = decision_body(alternative);
  return decision;
}

}  // namespace spillway::tests
