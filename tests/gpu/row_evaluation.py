"""Judges a row of the compatibility matrix by what was measured. Pure functions: no GPU, no files, no clock.

A row is run bare, then under Spillway at half of what it needed. What is expected of it:
  spills             the same results, with some of its memory on the host
  spills or refuses  that, or an out-of-memory error that is early and names the setting; with enough budget the same results
  fits               run without a budget: the same results, nothing refused
  retries            meets out-of-memory on its way, and ends with the same results
  sees the budget    run with memory.report = "real" and more than it needs: the same results, its own limit within the budget, nothing spilled
  exports            CUDA IPC: plain blocks are exported, spilled ones give the driver's code and a line that says so
"""
import json
import math

SPILLS, SPILLS_OR_REFUSES, FITS, RETRIES, EXPORTS, SEES_BUDGET = "spills", "spills or refuses", "fits", "retries", "exports", "sees the budget"
PREFIX = "RESULT "
# A pool may hold a little less than the sum of what the program counts itself.
COUNTED_SHARE = 0.9
INVALID_VALUE = 1  # cudaErrorInvalidValue
EXPORT_LINE = "cannot be shared with another process"


def parse_results(text):
    """Rows that a program's output holds, by name; the last of a name counts."""
    rows = {}
    for line in text.splitlines():
        begin = line.find(PREFIX + "{")
        if begin < 0:
            continue
        try:
            result = json.loads(line[begin + len(PREFIX):])
        except ValueError:
            continue
        if isinstance(result, dict) and "row" in result:
            rows[result.pop("row")] = result
    return rows


def traces_of(stats):
    """The traces in the answer of `spillway stats --json`, which has another form for a single one."""
    return stats["traces"] if "traces" in stats else [stats]


def add_up(traces, program=None):
    """Figures of a run, from the stats of its processes' traces. `program`: the process that was started. Whether its trace is whole
    counts, or that of the busiest if it has none: what it forks may end by _exit, which cuts a trace."""
    figures = {"traces": len(traces), "launches": 0, "graph_launches": 0, "dropped": 0, "managed_bytes": 0, "plain_bytes": 0,
               "refused": 0, "spilled_bytes": 0, "moved_in_bytes": 0, "moved_out_bytes": 0, "allocations": {}, "whole": False,
               "resident_peak_bytes": 0, "budget_bytes": 0, "over_budget": [], "on_host_touched_by_graphs_bytes": 0}
    most = -1
    for trace in traces:
        figures["launches"] += trace["launches"]
        figures["graph_launches"] += trace["graph_launches"]
        figures["dropped"] += trace["dropped_events"] + trace["dropped_frames"]
        allocations = trace["allocations"]
        figures["managed_bytes"] += allocations["managed"]["bytes"]
        figures["plain_bytes"] += allocations["device"]["bytes"]
        figures["refused"] += allocations["refused"]["count"]
        for kind, of in allocations["by_kind"].items():
            if of["count"]:
                sum_of = figures["allocations"].setdefault(kind, {"count": 0, "bytes": 0})
                sum_of["count"] += of["count"]
                sum_of["bytes"] += of["bytes"]
        for device in trace["devices"]:
            figures["spilled_bytes"] += device["on_host_peak"]
            figures["moved_in_bytes"] += device["moved_in"]
            figures["moved_out_bytes"] += device["moved_out"]
            # The peak is of managed memory; what is plain is known as it was at the end.
            resident = max(device["resident_peak"], device["plain"]) + device["reserved"]
            figures["resident_peak_bytes"] = max(figures["resident_peak_bytes"], resident)
            figures["budget_bytes"] = max(figures["budget_bytes"], device["budget"])
            if device["budget"] and resident > device["budget"]:
                figures["over_budget"].append({"device": device["device"], "resident": resident, "budget": device["budget"]})
        for kernel in trace.get("by_kernel", []):
            if kernel["name"].startswith("(graphs"):
                figures["on_host_touched_by_graphs_bytes"] += kernel["host_bytes"]
        importance = math.inf if trace["pid"] == program else trace["launches"]
        if importance > most:
            most = importance
            figures["whole"] = trace["whole"]
    return figures


def worst_difference(bare, shimmed):
    """The largest relative difference of two lists of numbers; infinite where they cannot be compared."""
    if len(bare) != len(shimmed):
        return math.inf
    worst = 0.0
    for a, b in zip(bare, shimmed):
        if a == b:
            continue
        if not math.isfinite(a) or not math.isfinite(b):
            return math.inf
        worst = max(worst, abs(a - b) / max(abs(a), abs(b)))
    return worst


def compare(bare, shimmed, tolerance, where):
    """Problems of a result against the bare one."""
    if shimmed is None:
        return [f"{where}: it ended without a result"]
    if "error" in shimmed:
        return [f"{where}: {shimmed['error']}"]
    if "not_installed" in shimmed:
        return [f"{where}: {shimmed['not_installed']}, although it ran bare"]
    worst = worst_difference(bare["values"], shimmed["values"])
    return [] if worst <= tolerance else [f"{where}: results differ from bare by {worst:.2g} relative, {tolerance:.0e} is allowed"]


def check_trace(trace, bare, where):
    """Problems of what was seen."""
    problems = []
    if trace["traces"] == 0 or trace["launches"] == 0:
        return [f"{where}: no launch in a trace: the program was not intercepted"]
    if trace["dropped"]:
        problems.append(f"{where}: {trace['dropped']} events dropped")
    if not trace["whole"]:
        problems.append(f"{where}: the trace is not whole although the program ended by itself")
    for over in trace["over_budget"]:
        problems.append(f"{where}: device {over['device']}: resident peak {over['resident']} is over the budget of {over['budget']}")
    seen = sum(of["bytes"] for of in trace["allocations"].values())
    if bare and seen < COUNTED_SHARE * bare["peak_bytes"]:
        problems.append(f"{where}: {seen} bytes of allocations were seen, and the program held {bare['peak_bytes']}")
    return problems


def is_plain_refusal(result, log):
    """Out of memory that the program got as such, and that names the setting."""
    return bool(result and result.get("out_of_memory")) and "out of memory: " in log and "memory.device_budget" in log


def judge(expectation, bare, half, half_trace, log, tolerance, generous=None, generous_trace=None):
    """The row's verdict. `half`: its result at half budget (without a budget for `fits`); `generous`: with enough of it."""
    verdict = {"result": "fail", "outcome": "", "problems": [], "remarks": []}
    problems, remarks = verdict["problems"], verdict["remarks"]
    if bare is None:
        problems.append("bare: it ended without a result")
        return verdict
    if "not_installed" in bare:
        verdict.update(result="not installed", outcome="not installed", remarks=[bare["not_installed"]])
        return verdict
    if "error" in bare:
        problems.append(f"bare: {bare['error']}")
        return verdict
    if half_trace is None:
        problems.append("it did not run under Spillway")
        return verdict

    refused = expectation == SPILLS_OR_REFUSES and half is not None and "error" in half
    if refused:
        verdict["outcome"] = "refused"
        problems += [p for p in check_trace(half_trace, None, "at half budget") if "not intercepted" not in p]
        if not is_plain_refusal(half, log):
            problems.append(f"at half budget: no plain out-of-memory that names memory.device_budget: {half['error']}")
        if generous_trace is None:
            problems.append("with enough budget: it did not run")
        else:
            problems += compare(bare, generous, tolerance, "with enough budget")
            problems += check_trace(generous_trace, bare, "with enough budget")
        remarks.append("out of memory where the budget ends, naming memory.device_budget")
    elif expectation == EXPORTS:
        verdict["outcome"] = "spilled"
        problems += judge_exports(bare, half, half_trace, log)
        problems += compare(bare, generous, tolerance, "with enough budget")
        remarks.append("plain memory is shared as without Spillway; spilled memory gives cudaErrorInvalidValue and a line")
    else:
        where = {FITS: "without a budget", SEES_BUDGET: "with enough budget"}.get(expectation, "at half budget")
        problems += compare(bare, half, tolerance, where)
        problems += check_trace(half_trace, bare if expectation != RETRIES else None, where)
        spilled = half_trace["spilled_bytes"] > 0
        if half is not None and "values" in half:
            verdict["outcome"] = "spilled" if spilled else "fits"
        if expectation in (SPILLS, SPILLS_OR_REFUSES) and not spilled:
            problems.append("at half budget: nothing was spilled, and nothing was refused")
        if expectation == FITS and (half_trace["refused"] or spilled):
            problems.append(f"without a budget: {half_trace['refused']} refused, {half_trace['spilled_bytes']} bytes spilled")
        if expectation == SEES_BUDGET:
            problems += judge_limit(half, half_trace)
        if expectation == RETRIES and half and "error" not in half:
            remarks.append(f"{half.get('retries', 0)} times out of memory, then {half.get('last_batch')} rows at a time")
            if not half.get("retries"):
                problems.append("at half budget: it never met out-of-memory, so that nothing was tried again")
    if not problems:
        verdict["result"] = "pass"
    return verdict


def judge_limit(result, trace):
    """What a program that sizes itself by the device's memory made of the budget that it was shown."""
    problems = []
    limit = (result or {}).get("bytes_limit", 0)
    if not 0 < limit <= trace["budget_bytes"]:
        problems.append(f"with enough budget: its own limit is {limit}, of a budget of {trace['budget_bytes']}")
    if trace["refused"] or trace["spilled_bytes"]:
        problems.append(f"with enough budget: {trace['refused']} refused, {trace['spilled_bytes']} bytes spilled")
    return problems


def judge_exports(bare, half, trace, log):
    problems = check_trace(trace, bare, "at half budget")
    if half is None or "values" not in half:
        return [*problems, f"at half budget: {(half or {}).get('error', 'it ended without a result')}"]
    codes = half["values"][:-3]
    first_word, last_code = half["values"][-3], half["values"][-1]
    if set(codes) - {0, INVALID_VALUE}:
        problems.append(f"at half budget: codes {sorted(set(codes))}; 0 and {INVALID_VALUE} are expected")
    if INVALID_VALUE not in codes:
        problems.append("at half budget: every block was exported, the spilled ones too")
    elif EXPORT_LINE not in log:
        problems.append("at half budget: no line says why a block could not be exported")
    elif last_code != INVALID_VALUE:
        problems.append(f"at half budget: the last error is {last_code}, and the driver's code was {INVALID_VALUE}")
    if codes and codes[0] == 0 and first_word != bare["values"][-3]:
        problems.append(f"at half budget: the other process read {first_word} in a plain block, {bare['values'][-3]} was there")
    return problems
