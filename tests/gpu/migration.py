"""Moving memory under a running program, on a real GPU; see migration.sh.

Kernels do not fault on spilled memory (CUPTI's count, by a witness that knows nothing of Spillway); small launches take as
long while memory moves at full rate as they do idle; and policy files that are wrong on purpose leave results right.
"""
import array
import bisect
import json
import sqlite3
import subprocess
import sys

from harness import GIB, MIB, ROOT, expect, main

PLANNED_BYTES = 16 * GIB
OUR_CONTEXT = 400 * MIB
P99_MOST = 1.2
TRAINING = ["python3", ROOT / "examples/pytorch/train_gpt2.py"]


def exported(topic, trace):
    """The trace as a SQLite database."""
    path = trace.with_suffix(".db")
    path.unlink(missing_ok=True)
    done = subprocess.run([str(topic.build / "bin/spillway"), "export", str(trace), "--format", "sqlite", "-o", str(path)],
                          capture_output=True, text=True, timeout=120)
    expect(done.returncode == 0, f"spillway export: {done.stderr.strip()}")
    return sqlite3.connect(path)


def faults(topic, mode, steps):
    file, trace, witness = topic.work / "faults.json", topic.work / "faults.swt", topic.work / "faults.witness.json"
    program = [*TRAINING, "--steps", steps, "--warmup", 2, "--json", file]
    topic.run(program, 60)
    peak = json.loads(file.read_text())["peak_reserved_bytes"]
    topic.require_headroom(peak * 1.25)
    topic.spillway(program, trace, budget=peak // 2, extra=["--mode", mode], limit=120, witness=witness)
    counted, device = json.loads(witness.read_text()), topic.stats(trace)["devices"][0]
    topic.figures.update(bare_peak_bytes=peak, budget_bytes=peak // 2, cupti=counted, device=device)
    print(f"     {mode}, {steps} steps: {counted['gpu_faults']} GPU page faults in {counted['gpu_fault_records']} records", flush=True)
    expect(counted["dropped_records"] == 0, "the witness lost records")
    return counted


def no_faults(topic):
    counted = faults(topic, "arrival", 6)
    expect(counted["gpu_faults"] == 0, f"{counted['gpu_faults']} GPU page faults where nothing moves")


def faults_of_moves(topic):
    """What moves is not mapped while it does: a kernel that comes then waits in a fault. Stated, not judged."""
    faults(topic, "adaptive", 40)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def latency(topic):
    samples_file, trace = topic.work / "latency.bin", topic.work / "latency.swt"
    program = [topic.build / "examples/launch_latency", "--samples", samples_file]
    topic.require_headroom(7 * GIB)
    idle_text = topic.run([*program], 60)
    topic.spillway(program, trace, budget=3 * GIB + OUR_CONTEXT, limit=150)
    samples = array.array("q")
    samples.frombytes(samples_file.read_bytes())
    took = samples[1::2]
    with exported(topic, trace) as database:
        # The small launches, by their threads: the recorder's times of them, in the order of the samples.
        times = [row[0] for row in database.execute("SELECT time_ns FROM launch JOIN shape USING (shape) WHERE threads = 256 ORDER BY launch")]
        moves = database.execute("SELECT finished_ns - took_ns, finished_ns, in_bytes + out_bytes FROM move "
                                 "WHERE outcome = 'done' AND in_bytes + out_bytes > 0 ORDER BY 1").fetchall()
    expect(len(times) == len(took), f"{len(times)} small launches in the trace, {len(took)} measured")
    # Launches in the time of a move, against those with none within a tenth of a second.
    starts, ends = [row[0] for row in moves], [row[1] for row in moves]
    longest = max((end - begin for begin, end, _ in moves), default=0)
    moving, idle = [], []
    for at, duration in zip(times, took):
        first = bisect.bisect_left(starts, at - longest)
        near = [i for i in range(first, bisect.bisect_right(starts, at + 100_000_000)) if ends[i] >= at - 100_000_000]
        if not near:
            idle.append(duration)
        elif any(starts[i] <= at <= ends[i] for i in near):
            moving.append(duration)
    moved = sum(row[2] for row in moves)
    figures = {kind: {"launches": len(values), "p50_us": percentile(values, 0.5) / 1e3, "p99_us": percentile(values, 0.99) / 1e3}
               for kind, values in (("idle", idle), ("moving", moving)) if values}
    topic.figures.update(figures, moved_bytes=moved, moves=len(moves), bare=idle_text.strip().splitlines()[-1])
    print(f"     {moved / GIB:.1f} GiB moved; {figures}", flush=True)
    expect(len(moving) >= 1000 and len(idle) >= 1000, f"too few launches to compare: {len(moving)} moving, {len(idle)} idle")
    ratio = figures["moving"]["p99_us"] / figures["idle"]["p99_us"]
    topic.figures["p99_ratio"] = ratio
    expect(ratio <= P99_MOST, f"p99 while moving is {ratio:.2f} of idle; {P99_MOST} is allowed")


MISTAKES = {
    "weights_on_host": '[[rule]]\nname = "weights on the host"\nmatch = { kernel = "*gemm*" }\nplace = "host"\n',
    "states_in_hbm": '[[rule]]\nname = "states in HBM"\nmatch = { kernel = "*dam*" }\nplace = "device"\n',
    "read_only": '[[rule]]\nname = "written, said to be read only"\nmatch = { kernel = "*" }\nread_only = true\n',
    "wrong_order": '[[rule]]\nname = "what is used most goes first"\nmatch = { kernel = "*gemm*" }\nevict = "first"\n'
                   '[[rule]]\nname = "what is used least goes last"\nmatch = { kernel = "*dam*" }\nevict = "last"\n',
}


def mistakes(topic):
    """Policy files that are wrong on purpose: losses as bare; the watchdog takes a change back or says that a rule keeps it."""
    file, trace = topic.work / "mistake.json", topic.work / "mistake.swt"
    program = [*TRAINING, "--steps", 36, "--warmup", 2, "--json", file]
    topic.run(program, 60)
    bare = json.loads(file.read_text())
    budget = bare["peak_reserved_bytes"] * 2 // 3
    topic.require_headroom(bare["peak_reserved_bytes"] * 1.25)
    topic.figures.update(bare_step_ms=bare["median_step_ms"], budget_bytes=budget)
    for name, text in {"none": "", **MISTAKES}.items():
        policy = topic.work / f"{name}.toml"
        policy.write_text(text)
        topic.spillway(program, trace, budget=budget, limit=120, extra=["--policy", policy])
        run, stats = json.loads(file.read_text()), topic.stats(trace)
        with exported(topic, trace) as database:
            notes = [row[0] for row in database.execute("SELECT sentence FROM decision WHERE kind = 'note'") if "change" in row[0]]
        topic.figures[name] = {"step_ms": run["median_step_ms"], "device": stats["devices"][0], "watchdog": notes}
        print(f"     {name:16} {run['median_step_ms']:7.1f} ms a step; {'; '.join(notes[:2])}", flush=True)
        expect(run["losses"] == bare["losses"], f"{name}: the losses differ from the bare run's")
        device = stats["devices"][0]
        expect(device["resident_peak"] + device["plain"] + device["reserved"] <= device["budget"], f"{name}: over the budget")


def steps_of(topic, arguments):
    return [(step.__name__, step, topic) for step in (no_faults, faults_of_moves, latency, mistakes)]


if __name__ == "__main__":
    sys.exit(main("migration", __doc__, PLANNED_BYTES, steps_of, fixed_mode=""))
