#include "tools/simulated_device/contexts.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tools/simulated_device/observers.hpp"
#include "tools/simulated_device/world.hpp"

namespace spillway::simulated {
namespace {

// Handles, so that a destroyed context is noticed. Trivially destructible: exit handlers of the program still call us
// after the main thread's thread-local objects are gone.
struct ContextStack {
  static constexpr std::size_t kDepth = 256;
  CUcontext items[kDepth];
  std::size_t size;
  [[nodiscard]] bool empty() const { return size == 0; }
  [[nodiscard]] CUcontext back() const { return items[size - 1]; }
  void pop_back() { --size; }
  CUresult push(CUcontext context) {
    if (size == kDepth) return CUDA_ERROR_OUT_OF_MEMORY;
    items[size++] = context;
    return CUDA_SUCCESS;
  }
};
thread_local ContextStack stack{};

CUresult context_or_current(CUcontext handle, Context*& out) {
  if (handle == nullptr) return need_context(out);
  out = find_context(handle);
  return out == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

}  // namespace

CUcontext handle_of(const Context* context) { return reinterpret_cast<CUcontext>(const_cast<Context*>(context)); }

Context* find_context(CUcontext handle) {
  const auto found = world().contexts.find(handle);
  return found == world().contexts.end() ? nullptr : found->second.get();
}

Context* current_context() { return stack.empty() ? nullptr : find_context(stack.back()); }

bool current_context_was_destroyed() {
  return !stack.empty() && stack.back() != nullptr && find_context(stack.back()) == nullptr;
}

std::shared_ptr<Context> make_context(int device, unsigned flags, bool primary) {
  World& w = world();
  if (!charge_device(device, kContextBytes)) return nullptr;
  auto context = std::make_shared<Context>();
  context->id = w.next_id++;
  context->device = device;
  context->flags = flags;
  context->primary = primary;
  context->legacy = make_stream(*context, 0, 0, StreamKind::legacy_default);
  w.contexts[handle_of(context.get())] = context;
  observe_making();
  return context;
}

void destroy_context(const std::shared_ptr<Context>& context) {
  World& w = world();
  wait_for_context(*context);
  std::vector<std::uint64_t> owned;
  for (const auto& [address, allocation] : w.memory.live()) {
    if (allocation.context == context.get() && allocation.kind != MemoryKind::mapping) owned.push_back(address);
  }
  for (const auto address : owned) w.memory.release(address);
  std::erase_if(w.streams, [&](const auto& entry) {
    const bool ends = entry.second->context == context.get();
    if (ends) leave_capture(*entry.second);
    return ends;
  });
  std::erase_if(w.events, [&](const auto& entry) { return entry.second->context == context.get(); });
  uncharge_device(context->device, kContextBytes);
  w.contexts.erase(handle_of(context.get()));
}

namespace driver {

CUresult ctx_create(CUcontext* context, unsigned int flags, CUdevice device) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto made = make_context(device, flags, false);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *context = handle_of(made.get());
  return stack.push(*context);
}

CUresult ctx_create(CUcontext* context, CUexecAffinityParam*, int, unsigned int flags, CUdevice device) {
  return ctx_create(context, flags, device);
}

CUresult ctx_create(CUcontext* context, CUctxCreateParams*, unsigned int flags, CUdevice device) {
  return ctx_create(context, flags, device);
}

CUresult ctx_destroy(CUcontext handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  const auto found = world().contexts.find(handle);
  if (found == world().contexts.end() || found->second->primary) return CUDA_ERROR_INVALID_CONTEXT;
  const auto context = found->second;
  destroy_context(context);
  if (!stack.empty() && stack.back() == handle) stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult ctx_push_current(CUcontext handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (find_context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return stack.push(handle);
}

CUresult ctx_pop_current(CUcontext* handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle != nullptr) *handle = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult ctx_set_current(CUcontext handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (handle != nullptr && find_context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.empty()) stack.pop_back();
  return handle == nullptr ? CUDA_SUCCESS : stack.push(handle);
}

CUresult ctx_get_current(CUcontext* handle) {
  SPILLWAY_RETURN_IF_FAILED(need_init());
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}

CUresult ctx_get_device(CUdevice* device) { return ctx_get_device(device, nullptr); }

CUresult ctx_get_device(CUdevice* device, CUcontext handle) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(context_or_current(handle, context));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult ctx_get_flags(unsigned int* flags) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult ctx_set_flags(unsigned int flags) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult ctx_get_id(CUcontext handle, unsigned long long* id) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(context_or_current(handle, context));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult ctx_synchronize() { return ctx_synchronize(nullptr); }

CUresult ctx_synchronize(CUcontext handle) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(context_or_current(handle, context));
  SPILLWAY_RETURN_IF_FAILED(forbid_unsafe_call());
  wait_for_context(*context);
  return world().sticky;
}

CUresult ctx_set_limit(CUlimit limit, size_t) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  return limit < CU_LIMIT_MAX ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

CUresult ctx_get_limit(size_t* value, CUlimit limit) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (limit >= CU_LIMIT_MAX) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = limit == CU_LIMIT_STACK_SIZE ? 1024 : std::size_t{1} << 20;
  return CUDA_SUCCESS;
}

CUresult ctx_get_cache_config(CUfunc_cache* config) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

CUresult ctx_set_cache_config(CUfunc_cache) { return need_init(); }

CUresult ctx_get_api_version(CUcontext, unsigned int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult ctx_get_stream_priority_range(int* least, int* greatest) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult ctx_reset_persisting_l2_cache() { return need_init(); }

CUresult ctx_enable_peer_access(CUcontext peer, unsigned int flags) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  Context* other = find_context(peer);
  if (flags != 0 || other == nullptr || other == context) return CUDA_ERROR_INVALID_VALUE;
  return context->peers.insert(other).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult ctx_disable_peer_access(CUcontext peer) {
  Context* context = nullptr;
  SPILLWAY_RETURN_IF_FAILED(need_context(context));
  return context->peers.erase(find_context(peer)) == 1 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace driver
}  // namespace spillway::simulated
