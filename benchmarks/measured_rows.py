"""What was measured, by workload, budget and way: rows of one or several results of benchmarks/run.sh, as tables and pictures take them."""
import json
import pathlib

import matrix

GROUPS = {"training": "Training", "decoding": "Decoding", "arrays": "Access patterns, arrays and tables"}
GROUP_OF_PART = {1: "training", 2: "decoding", 3: "arrays"}
ORDER = ("adaptive", "adaptive_plan", "arrival", "alloc_prefetch", "demand")
NAMES = {"adaptive": "**Spillway adaptive**", "adaptive_plan": "**Spillway adaptive, with a plan**", "arrival": "Spillway arrival",
         "alloc_prefetch": "one prefetch at allocation", "demand": "raw managed memory", "save_on_cpu": "save_on_cpu (PyTorch)",
         "zero_offload": "ZeRO-Offload style", "both": "ZeRO-Offload style and save_on_cpu", "offloaded_cache": "OffloadedCache (transformers)",
         "pipeline": "double-buffered pipeline, by hand", "kv_pipeline": "double-buffered pipeline, by hand",
         "cpu_offload": "cpu_offload (accelerate)", "device_map": "device_map (accelerate)",
         "expert_cache": "expert cache, by hand", "host_tables": "tables in host memory",
         "zero_copy": "zero-copy, by hand"}


def load(files):
    """All results as one: {"runs": [head of each file], "rows": {name: row}}."""
    runs, rows = [], {}
    for file in files:
        result = json.loads(pathlib.Path(file).read_text())
        if result.get("topic") != "benchmarks":
            raise SystemExit(f"{file}: is no result of benchmarks/run.sh (topic '{result.get('topic')}')")
        runs.append({"file": pathlib.Path(file).name, **{key: result.get(key) for key in ("date", "machine", "command", "link", "not_run")}})
        rows.update({name: row for name, row in result["steps"].items() if row.get("workload") in matrix.BY_NAME})
    for row in matrix.default_rows():
        if row.name not in rows:
            rows[row.name] = {"workload": row.workload.name, "way": row.way, "kind": row.kind, "share": row.share, "round": row.round, "result": "not run"}
    data = {"runs": runs, "rows": rows}
    for row in rows.values():
        bare = rows_of(data, row["workload"], 0).get("bare")
        if good(row) and good(bare):
            row["times_bare"] = median(row) / median(bare)
    return data


def median(row):
    return row["seconds_a_step"]["median"] if row and row.get("seconds_a_step") else None


def good(row):
    return row is not None and row.get("result") == "pass" and row.get("status") in ("ok", "timed_out") and median(row) is not None


def rows_of(data, workload, share):
    """By way; of several rounds the one with the median of the medians, of bare runs the fastest: what others do on the machine only slows it."""
    found = {}
    for row in data["rows"].values():
        if row["workload"] == workload and row["share"] == share:
            found.setdefault(row["way"], []).append(row)
    chosen = {}
    for way, all_rounds in found.items():
        timed = sorted((row for row in all_rounds if good(row)), key=median)
        middle = 0 if way == "bare" else len(timed) // 2
        chosen[way] = timed[middle] if timed else min(all_rounds, key=lambda row: row.get("result") == "not run")
    return chosen


def shares_of(data, workload):
    return sorted({row["share"] for row in data["rows"].values() if row["workload"] == workload and row["share"]}, reverse=True)


def milliseconds(seconds):
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def note(row):
    """What a reader must know beside the figures."""
    if row.get("result") == "not run":
        return "not run"
    if row.get("status") == "out_of_memory":
        return "does not fit"
    if row.get("result") == "fail":
        return "failed: " + row.get("error", "?").split("\n")[0][:120].replace("|", "/")
    notes = [f"{name} {milliseconds(seconds)} ms" for name, seconds in (row.get("named_seconds") or {}).items()]
    if row.get("status") == "timed_out":
        notes.append("ended by its time limit")
    if row.get("cut_short"):
        notes.append("one step only, in its warm-up")
    agreement = row.get("agreement")
    if agreement and agreement["largest_difference"] > 0:
        notes.append(f"results within {agreement['largest_difference']:.1g}")
    return ", ".join(notes)


def ways_in_order(rows):
    """Spillway first, then explicit code from the fastest on, then what has no time."""
    ours = [way for way in ORDER if way in rows]
    explicit = sorted((way for way in rows if rows[way]["kind"] == "explicit"), key=lambda way: (not good(rows[way]), median(rows[way]) or 0))
    return ours + explicit
