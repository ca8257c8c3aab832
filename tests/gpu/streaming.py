"""Streaming ahead of use on a real GPU; see streaming.sh.

Each program runs bare, then in turn with a layout that stays as it is (a lookahead of 0) and with turns (the default). Results are
compared with the bare run's, and resident bytes with the budget. What turns win is a figure; that they never make it slower is checked.
"""
import json
import statistics
import subprocess
import sys

from harness import GIB, MIB, ROOT, expect, main

PLANNED_BYTES = 20 * GIB
OUR_CONTEXT = 360 * MIB  # a little more than our own context takes: a budget holds it too
LOOKAHEADS = {"layout": 0, "turns": 2}
NEVER_SLOWER = 1.05  # 2% by design; the rest is what runs differ by


def notes_of(topic, trace):
    """What policy said about streaming."""
    text = topic.work / f"{trace.stem}.csv"
    done = subprocess.run([str(topic.build / "bin/spillway"), "export", str(trace), "--format", "csv", "-o", str(text)], capture_output=True,
                          text=True, timeout=120)
    expect(done.returncode == 0, f"spillway export: exit code {done.returncode}: {done.stderr.strip()}")
    lines = [line for line in text.read_text(errors="replace").splitlines() if "streaming " in line]
    text.unlink()
    return lines


def compare(topic, name, program, figure, result, share, pairs, limit):
    """`figure` of the program's JSON is compared, `result` must be the bare run's."""
    file, trace = topic.work / f"{name}.json", topic.work / f"{name}.swt"
    topic.run([*program, "--json", file], limit)
    bare = json.loads(file.read_text())
    peak = bare.get("peak_reserved_bytes") or bare["reserved_bytes"]
    topic.require_headroom(peak * 1.25)
    budget = int(peak * share) + OUR_CONTEXT
    times = {kind: [] for kind in LOOKAHEADS}
    notes, devices = {}, {}
    for turn in range(pairs):
        for kind in LOOKAHEADS if turn % 2 == 0 else reversed(LOOKAHEADS):
            topic.spillway([*program, "--json", file], trace, budget=budget, limit=limit, extra=["--iteration-lookahead", LOOKAHEADS[kind]])
            run = json.loads(file.read_text())
            expect(run[result] == bare[result], f"{kind}: {result} differs from the bare run's")
            stats = topic.stats(trace)
            device = stats["devices"][0]
            expect(device["resident_peak"] + device["reserved"] <= budget, f"{kind}: resident bytes are over the budget of {budget}")
            times[kind].append(run[figure])
            notes[kind], devices[kind] = notes_of(topic, trace), {**device, "traffic": stats["traffic"]}
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    topic.figures.update(bare=bare[figure], peak=peak, budget=budget, times=times, medians=medians, ratio=medians["turns"] / medians["layout"],
                         notes=notes, devices=devices)
    print(f"     {name} at {share:.0%}: bare {bare[figure]:.1f} ms, layout {medians['layout']:.1f}, turns {medians['turns']:.1f} "
          f"({medians['turns'] / medians['layout']:.3f}); {len(notes['turns'])} notes", flush=True)
    for line in notes["turns"]:
        print(f"       {line[-200:]}", flush=True)
    expect(medians["turns"] <= NEVER_SLOWER * medians["layout"], "turns make it slower")


def add_flags(parser):
    parser.add_argument("--pairs", type=int, default=2, help="runs of each kind")


def steps_of(topic, arguments):
    blocks = ["python3", ROOT / "tests/gpu/programs/cupy_blocks.py", "--blocks", 64, "--passes", 60]
    training = ["python3", ROOT / "examples/pytorch/train_gpt2.py", "--warmup", 60, "--steps", 10]
    return [(f"blocks.{share}", compare, topic, f"blocks.{share}", blocks, "median_last_ms", "sum", share, arguments.pairs, 90)
            for share in (0.8, 0.5, 0.35)] + \
           [("training.0.35", compare, topic, "training.0.35", training, "median_step_ms", "losses", 0.35, arguments.pairs, 120)]


if __name__ == "__main__":
    sys.exit(main("streaming", __doc__, PLANNED_BYTES, steps_of, add_flags, fixed_mode=""))
