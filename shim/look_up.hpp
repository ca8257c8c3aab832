// dlsym: the filter behind the exported symbol (trampolines.S), and the system's own.
#pragma once

namespace spillway::shim {

using DlsymFunction = void* (*)(void* handle, const char* name);

// The dlsym that the program would have without us: the next one after ours, which may be another interposer's.
DlsymFunction real_dlsym();

}  // namespace spillway::shim
