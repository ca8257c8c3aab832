// The program's own use of CUPTI (torch.profiler, a tool linked to libcupti), as seen at the door: it comes first, so
// telemetry steps aside before the program's call reaches CUPTI, and the program's records are complete from the first.
//
// Seen is what is called through the dynamic linker or found by `dlsym`. A CUPTI that is linked statically, or a tool
// with a library of its own (Nsight), is not seen here; telemetry asks CUPTI itself whether there is a subscriber.
#pragma once

#include "shim/cupti.hpp"

namespace spillway::shim {

struct CuptiCallbacks {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
};

// What the program does now. All safe from any thread, without a lock.
//
// It uses CUPTI while it has activities switched on. A subscriber alone counts until it has had activities and switched
// them off again: PyTorch's profiler stays subscribed for good after its first use.
bool program_uses_cupti();
bool program_has_subscriber();
CuptiCallbacks program_callbacks();  // null members if it registered none

// `step_aside` runs on the program's thread before its call goes on to CUPTI, when `program_uses_cupti` says what will
// be. Null: nobody listens.
void listen_to_cupti(void (*step_aside)());

// For dlsym: what to answer where `found` is the program's own answer to `name`. Null: `found` itself.
void* cupti_hook_for(const char* name, void* found);

}  // namespace spillway::shim
