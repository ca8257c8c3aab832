// What `spillway doctor -- program` recommends, from how the program allocates.
#include <algorithm>
#include <string_view>

#include "policy/own_context.hpp"
#include "policy/settings.hpp"
#include "tools/program_report.hpp"

namespace spillway::tools {
namespace {

using policy::Bytes;
using policy::format_bytes;

constexpr Bytes kRoomForMoves{std::uint64_t{172} << 20U};  // a few at a time

const WayUsed& of(const DeviceUsed& device, MemoryWay way) { return device.ways[static_cast<std::size_t>(way)]; }

bool any(const ProgramUse& use, MemoryWay way) {
  return std::any_of(use.devices.begin(), use.devices.end(),
                     [way](const auto& entry) { return of(entry.second, way).count > 0; });
}

bool called(const ProgramUse& use, std::string_view start) {
  return std::any_of(use.calls.begin(), use.calls.end(),
                     [start](const std::string& symbol) { return std::string_view(symbol).starts_with(start); });
}

bool caller_has(const ProgramUse& use, std::string_view part) {
  return std::any_of(use.callers.begin(), use.callers.end(),
                     [part](const std::string& path) { return path.find(part) != std::string::npos; });
}

Advice least_budget(const DeviceUsed& device, const std::string& where) {
  const Bytes context = policy::own_context_estimate(device.total);
  const Bytes room = std::min(kRoomForMoves, Bytes(device.total.count() / 16));
  const Bytes least = device.plain_peak + context + room;
  const std::string sum = format_bytes(device.most_fixed) + " cannot spill and may take " +
                          format_bytes(device.plain_peak) + " in blocks of 2 MiB, Spillway's own context takes up to " +
                          format_bytes(context) + ", and moves want " + format_bytes(room);
  if (least > device.total)
    return {"", where + "the card's " + format_bytes(device.total) + " are not enough: " + sum + "; use a larger card"};
  const char* const unseen =
      !device.ran_out() ? ""
                        : "; that is of what was seen when the program ran out of memory: what it asks for later may "
                          "need more";
  return {"--device-budget", where + "not below " + format_bytes(least) + ": " + sum + unseen};
}

Advice on_refusal(const DeviceUsed& device, const std::string& where) {
  const Refused& refused = *device.refused;
  const std::string what = where + "the driver refused " + refused_text(refused);
  if (!device.ran_out())
    return {"", what + " with its error " + std::to_string(refused.code) +
                    ", which is not for want of memory: see that the program runs without spillway"};
  if (device.rescued())
    return {"(no --device-budget)", what + ": under spillway run that spills, as the default budget is what is free"};
  if (refused.beside + refused.bytes > device.free + device.host)
    return {"", what + ", more than the card's free " + format_bytes(device.free) + " and the host's " +
                    format_bytes(device.host) + " together: it needs more host memory, or has to ask for less"};
  return {"", what + ", which cannot spill: it has to ask for less, or needs a larger card"};
}

void budgets(const ProgramUse& use, std::vector<Advice>& advice) {
  for (const auto& [index, device] : use.devices) {
    const std::string where = use.devices.size() > 1 ? "device " + std::to_string(index) + ": " : "";
    if (!device.can_spill) {
      advice.push_back({"", where + "it has no concurrent managed access, so nothing spills there"});
      continue;
    }
    if (device.refused) advice.push_back(on_refusal(device, where));
    if (!device.spills()) {
      advice.push_back({"", where + (use.stopped ? "nothing of what was seen before the time limit can spill"
                                                 : "nothing of what was seen can spill; Spillway is of no use here")});
      continue;
    }
    if (!device.ran_out() && device.most <= device.free) {
      advice.push_back({"(no --device-budget)", where + "what was seen fits (" + format_bytes(device.most) + " of " +
                                                    format_bytes(device.free) +
                                                    " free); give one only to leave memory to others"});
    }
    advice.push_back(least_budget(device, where));
  }
  if (use.devices.size() > 1)
    advice.push_back(
        {"--device-budget", "it holds for each device of the process by itself; in torchrun each rank is a process"});
}

void ways(const ProgramUse& use, std::vector<Advice>& advice) {
  if (any(use, MemoryWay::mapped)) {
    advice.push_back(
        {"memory.spill_vmm", "leave it at auto: with off, map-style memory gets out of memory at the budget"});
    if (use.torch)
      advice.push_back({"PYTORCH_CUDA_ALLOC_CONF",
                        "leave expandable_segments:True out: PyTorch's default allocator spills and comes back, "
                        "map-style memory spills for good"});
  }
  if (any(use, MemoryWay::pools)) {
    advice.push_back({"memory.spill_pools",
                      "leave it at auto: with off, pools stay the driver's and get out of memory at the budget"});
    if (use.torch)
      advice.push_back(
          {"PYTORCH_CUDA_ALLOC_CONF",
           "leave backend:cudaMallocAsync out unless it is needed: the native allocator leaves policy more to see"});
  }
  if (use.torch) advice.push_back({"--oom-first true", "for PyTorch, if it keeps cached blocks while others spill"});
  if (caller_has(use, "xla") || caller_has(use, "jaxlib")) {
    advice.push_back(
        {"XLA_PYTHON_CLIENT_PREALLOCATE=false", "JAX would take 75% of what it sees, host memory included"});
    advice.push_back({"XLA_PYTHON_CLIENT_MEM_FRACTION",
                      "the other way: a share of device and host budget together (or --report real)"});
  }
  if (any(use, MemoryWay::managed))
    advice.push_back(
        {"", "managed memory of the program's own is not counted: leave room for it below the card's size"});
  if (any(use, MemoryWay::imported)) advice.push_back({"", "imported memory counts in the process that made it"});
  if (called(use, "cuMemHostAlloc") || called(use, "cuMemAllocHost") || called(use, "cuMemHostRegister"))
    advice.push_back({"", "it pins host memory: that is host memory already, neither counted nor moved"});
}

void sharing(const ProgramUse& use, std::vector<Advice>& advice) {
  if (called(use, "cuIpcGetMemHandle"))
    advice.push_back(
        {"backing = \"device\"", "in a rule for what it shares by CUDA IPC: spilled memory cannot be exported"});
  if (caller_has(use, "nccl"))
    advice.push_back({"match = { caller = \"*nccl*\" }",
                      "with backing = \"device\", as in examples/policies/training.toml: NCCL maps its buffers into "
                      "other processes"});
  if (use.graph_launches > 0) advice.push_back({"", "graphs: a graphed loop is learned within a dozen replays"});
  if (use.cupti_taken)
    advice.push_back({"--cupti off",
                      "a profiler has the card's counters: while it runs, kernel times come from the driver's events"});
}

}  // namespace

std::vector<Advice> advice_for(const ProgramUse& use) {
  std::vector<Advice> advice;
  budgets(use, advice);
  ways(use, advice);
  sharing(use, advice);
  return advice;
}

}  // namespace spillway::tools
