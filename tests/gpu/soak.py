"""A soak on a real GPU; see soak.sh.

A program that allocates, launches, copies, captures and frees at random keeps 1.3 times the budget live, and computes what the host computes:
most of --seconds under `adaptive`, the rest under `demand` and `arrival`. Then, shorter, under compute-sanitizer's memcheck.
"""
import json
import sys

from harness import GIB, MIB, expect, main

OVER = 1.3  # live bytes by budget
PLANNED_BYTES = 12 * GIB
SHARES = {"adaptive": 0.6, "demand": 0.2, "arrival": 0.2}
KINDS = ("allocate", "fill", "upload", "copy", "zero", "graph", "verify", "free")


def soak(topic, mode, seconds, arguments):
    topic.require_headroom(PLANNED_BYTES)
    file, trace = topic.work / f"soak.{mode}.json", topic.work / f"soak.{mode}.swt"
    file.unlink(missing_ok=True)
    program = [topic.build / "examples/soak", "--seconds", seconds, "--operations", arguments.operations, "--live", arguments.live,
               "--largest", max(1, arguments.live // 8), "--json", file]
    budget = int(arguments.live / OVER + arguments.own) * MIB
    try:
        text = topic.spillway(program, trace, budget=budget, limit=seconds + 60, extra=["--mode", mode], echo="progress:")
    finally:
        if file.exists():
            topic.figures["did"] = json.loads(file.read_text())
    did, device = topic.figures["did"], topic.stats(trace)["devices"][0]
    topic.figures.update(device=device, trace_bytes=trace.stat().st_size)
    print(f"     {text.strip().splitlines()[-1]}", flush=True)
    expect(did["ended"] and "all right" in text, "it did not come to its end")
    missing = [kind for kind in KINDS if did[kind] == 0]
    expect(not missing, f"nothing was done of {missing}")
    expect(device["resident_peak"] + device["plain"] + device["reserved"] <= device["budget"], "over the budget")


def memcheck(topic, arguments):
    live = arguments.live // 3
    command = [topic.build / "bin/spillway", "run", "--device-budget", str(int(live / OVER + arguments.own) * MIB), "--", topic.build / "examples/soak",
               "--operations", arguments.memcheck_operations, "--live", live, "--largest", max(1, live // 10)]
    text = topic.run(["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", 9, "--target-processes", "all", *command], 150, echo="progress:")
    topic.figures["said"] = text.strip().splitlines()[-3:]
    expect("ERROR SUMMARY: 0 errors" in text, "memcheck reports errors")
    expect("all right" in text, "the soak under memcheck did not end")


def add_flags(parser):
    parser.set_defaults(limit=530)
    parser.add_argument("--seconds", type=int, default=420, help="of the three modes together (default %(default)s)")
    parser.add_argument("--memcheck-operations", type=int, default=400, help="0 leaves memcheck out (default %(default)s)")
    parser.add_argument("--operations", type=int, default=0, help="in each mode, in place of --seconds")
    parser.add_argument("--live", type=int, default=4096, help="MiB that are live at a time (default %(default)s)")
    parser.add_argument("--own", type=int, default=400, help="MiB of the budget for Spillway's own context (default %(default)s)")


def steps_of(topic, arguments):
    expect(arguments.live * MIB * 1.5 <= PLANNED_BYTES, f"--live {arguments.live} is too much: {PLANNED_BYTES // MIB} MiB are planned for")
    steps = [(mode, soak, topic, mode, max(2, int(arguments.seconds * share)), arguments) for mode, share in SHARES.items()]
    return [*steps, ("memcheck", memcheck, topic, arguments)] if arguments.memcheck_operations else steps


if __name__ == "__main__":
    sys.exit(main("soak", __doc__, PLANNED_BYTES, steps_of, add_flags, fixed_mode=""))
