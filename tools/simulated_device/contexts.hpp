// The calling thread's context stack, and the end of a context's life. World's lock held.
#pragma once

#include <memory>

namespace spillway::simulated {

struct Context;

bool current_context_was_destroyed();
std::shared_ptr<Context> make_context(int device, unsigned flags, bool primary);
// Frees what belongs to the context, once its work is done.
void destroy_context(const std::shared_ptr<Context>& context);

}  // namespace spillway::simulated
