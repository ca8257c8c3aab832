"""Results, traces and files of results for the tests of the compatibility matrix."""
import copy

BARE = {"values": [1.5, 2.0, 4], "peak_bytes": 2000, "path": "native", "version": "torch 2.0"}
OUT_OF_MEMORY = {"error": "OutOfMemoryError: CUDA out of memory", "out_of_memory": True}
REFUSAL_LINE = "spillway[7] warning: out of memory: 64 MiB asked for, 1 MiB over the device budget (memory.device_budget)\n"


def stats(**changes):
    """One trace's part of `spillway stats --json --by kernel`: 1,200 bytes of 2,000 on the host."""
    trace = {
        "launches": 40, "graph_launches": 0, "dropped_events": 0, "dropped_frames": 0, "whole": True, "rank": "", "pid": 7,
        "allocations": {"by_kind": {"linear": {"count": 3, "bytes": 2000}, "physical": {"count": 0, "bytes": 0}},
                        "managed": {"count": 2, "bytes": 1900}, "device": {"count": 1, "bytes": 100}, "refused": {"count": 0, "bytes": 0}},
        "devices": [{"device": 0, "on_host_peak": 1200, "moved_in": 10, "moved_out": 20, "resident_peak": 800, "plain": 0, "reserved": 100,
                     "budget": 1000}],
        "by_kernel": [{"name": "add", "host_bytes": 5}],
    }
    trace.update(copy.deepcopy(changes))
    return trace


def fitting(**changes):
    """A trace of a run in which nothing had to leave the device."""
    device = {"device": 0, "on_host_peak": 0, "moved_in": 0, "moved_out": 0, "resident_peak": 2000, "plain": 0, "reserved": 0, "budget": 9000}
    return stats(devices=[device], **changes)
