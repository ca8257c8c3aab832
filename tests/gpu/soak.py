"""A soak on a real GPU; see soak.sh.

A program that allocates, launches, copies, captures and frees at random keeps 1.3 times the budget live, and computes what the host computes:
most of --seconds under `adaptive`, the rest under `demand` and `arrival`. Then, shorter, under compute-sanitizer's memcheck.
"""
import json
import sys

from harness import MIB, expect, main

LIVE_MIB, LARGEST_MIB = 4096, 512
OVER = 1.3  # live bytes by budget
OUR_CONTEXT = 400 * MIB
SHARES = {"adaptive": 0.6, "demand": 0.2, "arrival": 0.2}
KINDS = ("allocate", "fill", "upload", "copy", "zero", "graph", "verify", "free")


def soak(topic, mode, seconds):
    topic.require_headroom(LIVE_MIB * MIB * 1.5)
    file, trace = topic.work / f"soak.{mode}.json", topic.work / f"soak.{mode}.swt"
    file.unlink(missing_ok=True)
    program = [topic.build / "examples/soak", "--seconds", seconds, "--live", LIVE_MIB, "--largest", LARGEST_MIB, "--json", file]
    try:
        text = topic.spillway(program, trace, budget=int(LIVE_MIB * MIB / OVER) + OUR_CONTEXT, limit=seconds + 60, extra=["--mode", mode], echo="progress:")
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


def memcheck(topic, operations):
    command = [topic.build / "bin/spillway", "run", "--device-budget", str(96 * MIB + 2 * OUR_CONTEXT), "--", topic.build / "examples/soak",
               "--operations", operations, "--live", 1200, "--largest", 128]
    text = topic.run(["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", 9, "--target-processes", "all", *command], 150, echo="progress:")
    topic.figures["said"] = text.strip().splitlines()[-3:]
    expect("ERROR SUMMARY: 0 errors" in text, "memcheck reports errors")
    expect("all right" in text, "the soak under memcheck did not end")


def add_flags(parser):
    parser.set_defaults(limit=570)
    parser.add_argument("--seconds", type=int, default=480, help="of the three modes together (default %(default)s)")
    parser.add_argument("--memcheck-operations", type=int, default=400, help="0 leaves memcheck out (default %(default)s)")


def steps_of(topic, arguments):
    steps = [(mode, soak, topic, mode, max(2, int(arguments.seconds * share))) for mode, share in SHARES.items()]
    return [*steps, ("memcheck", memcheck, topic, arguments.memcheck_operations)] if arguments.memcheck_operations else steps


if __name__ == "__main__":
    sys.exit(main("soak", __doc__, int(LIVE_MIB * MIB * 1.5), steps_of, add_flags, fixed_mode=""))
