"""A made-up result of the runner, to test the report on: times are arbitrary, and named as such."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import figures
import matrix

GIB = 1 << 30
LINK = {"in": 50e9, "out": 50e9, "both": 90e9, "device_memory": 4e12}
TIMES = {"adaptive": 2.0, "adaptive_plan": 1.8, "arrival": 5.0, "alloc_prefetch": 8.0, "demand": 40.0}


def row(workload, way, share, seconds, peak=8 * GIB, kind="spillway", number=1):
    times = [seconds * factor for factor in (3.0, 1.0, 0.98, 1.0, 1.02, 1.0)]
    made = {"workload": workload.name, "what": workload.what, "way": way, "kind": kind, "share": share, "round": number, "result": "pass", "status": "ok",
            "commands": [f"run {way}"], "all_seconds": times, "seconds_a_step": figures.summary(times[1:]), "cut_short": False, "steady_after": 1,
            "named_seconds": {}, "peak_bytes": int(peak * (share or 1)), "peak_by": "made up", "agreement": {"compared": 6, "largest_difference": 0.0},
            "correct": True}
    return made


def result(parts=(1, 2, 3)):
    rows = {}
    for workload in matrix.WORKLOADS:
        if workload.part not in parts:
            continue
        for entry in matrix.plan(only=f"^{workload.name}/"):
            bare = 0.1
            seconds = bare * TIMES.get(entry.way, 1.0 if entry.share in (0, matrix.FITS) else 2.5)
            if entry.share == matrix.FITS:
                seconds = bare * 1.003
            made = rows[entry.name] = row(workload, entry.way, entry.share, seconds, kind=entry.kind, number=entry.round)
            made["times_bare"] = seconds / bare
            if entry.share:
                made["limits"] = figures.limits(bare, 7.5 * GIB, 8 * GIB * entry.share, None, True, LINK)
                made["share_of_limit"] = made["limits"]["seconds"] / seconds
            else:
                made["finish"] = {"peak_bytes": 8 * GIB, "allocated_bytes": int(7.5 * GIB)}
            if entry.way == "record":
                made["predictions"] = {matrix.share_text(share): {"seconds": 0.19, "error": None} for share in workload.shares}
            if entry.way == "adaptive" and entry.share != matrix.FITS:
                made["prediction"] = {"seconds": 0.21, "error": 0.05}
    return {"topic": "benchmarks", "date": "2026-01-02T03:04:05+00:00", "command": "benchmarks/run.sh --made-up", "link": LINK, "not_run": ["left/out"],
            "machine": {"card": "Made-up card", "driver": "1.2", "total_bytes": 80 * GIB, "free_bytes": 79 * GIB, "processors": 4},
            "steps": {"link": {"link": LINK}, **rows}}
