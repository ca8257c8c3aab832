"""Telemetry on a real GPU; see telemetry.sh.

Kernel times come with their launches and add up to the time of a step; torch.profiler around a shimmed run sees every kernel,
and telemetry goes on after it; memory that is spilled does not fault; and sampling, full telemetry and none are timed against
bare in turn.
"""
import json
import sqlite3
import statistics
import subprocess
import sys

from harness import GIB, ROOT, expect, main

PLANNED_BYTES = 16 * GIB
TRAINING = ["python3", ROOT / "examples/pytorch/train_gpt2.py"]
# Where the GPU is the limit; what kernels take, and what lies between them, is then nearly the step.
FITTING = [*TRAINING, "--batch", 16, "--sequence", 1024, "--warmup", 3]
# Where the host is: many short kernels.
SMALL = [*TRAINING, "--batch", 1, "--sequence", 64, "--warmup", 10]
BUSY_LEAST, BUSY_MOST = 0.80, 1.05
SAMPLED_TOLERANCE, FULL_TOLERANCE = 1.01, 1.03
CUPTI_FOLDER = "/usr/local/cuda/extras/CUPTI/lib64"
FULL = ["--telemetry-sample", "100%"]


def telemetry_of(stats):
    return {**stats["telemetry"], "launches": stats["launches"], "gpu_faults": stats["traffic"]["gpu_faults"],
            "pages_in": stats["traffic"]["pages_in"], "pages_out": stats["traffic"]["pages_out"],
            "dropped": stats["dropped_events"] + stats["dropped_frames"]}


def kernel_milliseconds(stats):
    """Time of all launches by the mean of those timed, over functions that were timed at all; and the share of launches."""
    timed = [function for function in stats["functions"] if function["timed"] > 0]
    total = sum(function["kernel_time_ns"] / function["timed"] * function["launches"] for function in timed) / 1e6
    return total, sum(function["launches"] for function in timed) / max(1, stats["launches"])


def all_stats(topic, trace):
    """As `topic.stats`, with every function."""
    done = subprocess.run([str(topic.build / "bin/spillway"), "stats", "--json", "--top", "100000", str(trace)],
                          capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0, f"spillway stats: exit code {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def kernel_times(topic, steps, flags, least_timed):
    """Kernel times are there, in a share of launches that fits the sampling, and add up to about the step's time."""
    trace, file = topic.work / "times.swt", topic.work / "times.json"
    topic.spillway([*FITTING, "--steps", steps, "--json", file], trace, extra=flags, limit=90)
    stats, run = all_stats(topic, trace), json.loads(file.read_text())
    telemetry = telemetry_of(stats)
    total, covered = kernel_milliseconds(stats)
    wall = run["median_step_ms"] * (steps + 3)
    topic.figures.update(telemetry=telemetry, kernel_ms=total, covered_launches=covered, step_ms=run["median_step_ms"],
                         busy=total / wall, timed_share=telemetry["timed_launches"] / stats["launches"])
    print(f"     {telemetry['timed_launches']} of {stats['launches']} launches timed, {telemetry['lost_windows']} windows lost; "
          f"kernels {total:.0f} ms of {wall:.0f} ms", flush=True)
    expect(telemetry["state"] == "running", f"telemetry ended as '{telemetry['state']}'")
    expect(telemetry["dropped"] == 0, "events were dropped: the launches' numbers are not exact")
    expect(telemetry["timed_launches"] >= least_timed * stats["launches"],
           f"only {telemetry['timed_launches']} of {stats['launches']} launches timed")
    # The first steps (autotuning, initial values) are not like the others, so this is coarse.
    expect(covered > 0.9, f"functions of only {covered:.0%} of the launches were timed")
    expect(BUSY_LEAST <= total / wall <= BUSY_MOST, f"kernels take {total:.0f} ms of {wall:.0f}: not the times of these launches")


def profiled(topic):
    program = ["python3", ROOT / "tests/gpu/profiled_training.py", "--json"]
    bare_file, file = topic.work / "profiled.bare.json", topic.work / "profiled.spillway.json"
    trace = topic.work / "profiled.swt"
    topic.run([*program, bare_file], 120)
    text = topic.spillway([*program, file], trace, extra=FULL, limit=150)
    bare, with_us = json.loads(bare_file.read_text()), json.loads(file.read_text())
    telemetry = telemetry_of(topic.stats(trace))
    topic.figures.update(bare=bare["sessions"], spillway=with_us["sessions"], telemetry=telemetry,
                         said=[line for line in text.splitlines() if "CUPTI" in line])
    expect(all(session["kernels"] > 0 for session in bare["sessions"]), "the profiler sees no kernel in the bare run")
    seen = {kind: [(session["kernels"], session["names"]) for session in run["sessions"]]
            for kind, run in (("bare", bare), ("spillway", with_us))}
    expect(seen["bare"] == seen["spillway"], f"kernels and names by session: {seen}")
    expect(bare["losses"] == with_us["losses"], "the losses differ")
    expect(telemetry["timed_launches"] > 0, "no kernel times before, between or after the sessions")
    expect(telemetry["state"] == "running", f"telemetry did not come back: '{telemetry['state']}'")
    expect(any("CUPTI is the program's now" in line for line in topic.figures["said"]), "stepping aside was not said")


def faults(topic, mode):
    """Half of the bare peak: by telemetry's own count and by the witness (then telemetry keeps away), spilled memory does
    not fault."""
    file, trace, witness = topic.work / "faults.json", topic.work / "faults.swt", topic.work / "faults.witness.json"
    program = [*TRAINING, "--steps", 6, "--warmup", 2, "--json", file]
    topic.run(program, 60)
    peak = json.loads(file.read_text())["peak_reserved_bytes"]
    topic.require_headroom(peak * 1.25)
    topic.figures.update(bare_peak_bytes=peak, budget_bytes=peak // 2)
    topic.spillway(program, trace, budget=peak // 2, extra=["--mode", mode, "--probes", "off", *FULL], limit=120)
    own = telemetry_of(topic.stats(trace))
    topic.spillway(program, trace, budget=peak // 2, extra=["--mode", mode, "--telemetry-events", "off", *FULL], limit=120, witness=witness)
    beside, counted = telemetry_of(topic.stats(trace)), json.loads(witness.read_text())
    topic.figures.update(telemetry=own, beside_a_witness=beside, cupti=counted)
    print(f"     {mode}: {own['spilled_gpu_faults']} faults in {own['timed_launches']} timed launches by telemetry, "
          f"{counted['gpu_faults']} in the whole run by the witness", flush=True)
    expect(own["timed_launches"] > 0, "no window: telemetry counted nothing")
    expect(own["spilled_gpu_faults"] == 0, f"{own['spilled_gpu_faults']} GPU page faults on spilled memory")
    expect(beside["timed_launches"] == 0, "telemetry took CUPTI beside the witness")
    expect(counted["dropped_records"] == 0, "the witness lost records")
    expect(counted["gpu_faults"] == 0, f"{counted['gpu_faults']} GPU page faults by the witness")


def cost(topic, rounds, steps):
    """Step times where everything fits: bare, and with telemetry off, sampled, by events and full, in turn."""
    kinds = {"bare": None, "off": ["--telemetry-sample", "0%"], "sampled": [], "events": ["--cupti", "off"], "full": FULL}
    times = {kind: [] for kind in kinds}
    timed = {}
    file, trace = topic.work / "cost.json", topic.work / "cost.swt"
    program = [*FITTING, "--steps", steps, "--json", file]
    order = list(kinds)
    for turn in range(rounds):
        for kind in order if turn % 2 == 0 else reversed(order):
            if kinds[kind] is None:
                topic.run(program, 60)
            else:
                topic.spillway(program, trace, extra=kinds[kind], limit=60)
                timed[kind] = telemetry_of(topic.stats(trace))["timed_launches"]
            times[kind].append(statistics.mean(json.loads(file.read_text())["step_ms"]))
    # Of the means: a window makes some steps slower, which a median would not see.
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    ratios = {kind: median / medians["bare"] for kind, median in medians.items()}
    topic.figures.update(mean_step_ms=times, medians=medians, ratios=ratios, timed_launches=timed)
    print("     " + ", ".join(f"{kind} {medians[kind]:.2f} ms ({ratios[kind]:.4f})" for kind in kinds) +
          f" (medians of {rounds} in turn)", flush=True)
    expect(timed["off"] == 0, "kernels were timed although telemetry is off")
    expect(timed["sampled"] > 0 and timed["full"] > timed["sampled"], f"launches timed: {timed}")
    expect(ratios["sampled"] <= SAMPLED_TOLERANCE, f"sampled: {(ratios['sampled'] - 1) * 100:.2f}% slower, 1% is allowed")
    expect(timed["events"] > 0, "no kernel times by events")
    expect(ratios["events"] <= SAMPLED_TOLERANCE, f"by events: {(ratios['events'] - 1) * 100:.2f}% slower, 1% is allowed")
    expect(ratios["full"] <= FULL_TOLERANCE, f"full: {(ratios['full'] - 1) * 100:.2f}% slower, 3% is allowed")


def host_limited(topic, rounds, steps):
    """What timing costs where the host is the limit: in turn with bare, and, as such a host changes its pace, timed and other steps of one run."""
    kinds = {"bare": None, "off": ["--telemetry-sample", "0%"], "sampled": [], "full": FULL}
    file, trace = topic.work / "host.json", topic.work / "host.swt"
    program = [*SMALL, "--steps", steps, "--json", file]
    took, timed = {kind: [] for kind in kinds}, {}
    for turn in range(rounds):
        for kind in list(kinds) if turn % 2 == 0 else reversed(kinds):
            if kinds[kind] is None:
                topic.run(program, 60)
            else:
                topic.spillway(program, trace, extra=kinds[kind], limit=60)
                stats = topic.stats(trace)
                timed[kind] = stats["telemetry"]["timed_launches"] / stats["launches"]
            took[kind].append(statistics.median(json.loads(file.read_text())["step_ms"]))
    topic.figures.update(median_step_ms=took, timed_share=timed, least_to_bare={kind: min(took[kind]) / min(took["bare"]) for kind in kinds})
    print("     " + ", ".join(f"{kind} {min(values):.2f} to {max(values):.2f} ms" for kind, values in took.items()), flush=True)
    topic.spillway(program, trace, extra=["--telemetry-sample", "50%"], limit=60)
    topic.figures["one_run"] = timed_and_other_iterations(topic, trace)
    print("     in one run: " + ", ".join(f"{key} {value:.4g}" for key, value in topic.figures["one_run"].items()), flush=True)
    expect(timed["full"] > 0.9, f"only {timed['full']:.0%} of the launches were timed")


def timed_and_other_iterations(topic, trace):
    """Medians over the iterations of which all launches were timed, and over those of which none was and none before it."""
    base = trace.with_suffix(".db")
    base.unlink(missing_ok=True)
    topic.run([topic.build / "bin/spillway", "export", trace, "--format", "sqlite", "-o", base], 60)
    with sqlite3.connect(base) as connection:
        rows = connection.execute("select iteration, min(time_ns), count(*), count(duration_ns) from launch left join kernel_time using (launch) "
                                  "group by iteration order by iteration").fetchall()
    usual = statistics.mode(launches for _, _, launches, _ in rows)
    with_times, without = [], []
    for (_, _, _, before), (_, began, launches, timed), (_, ended, _, _) in zip(rows, rows[1:], rows[2:]):
        if launches == usual and timed == launches:
            with_times.append((ended - began) / 1e6)
        elif launches == usual and timed == 0 and before == 0:
            without.append((ended - began) / 1e6)
    expect(min(len(with_times), len(without)) >= 10, f"{len(with_times)} timed iterations and {len(without)} others: too few to compare")
    timed_ms, other_ms = statistics.median(with_times), statistics.median(without)
    return {"launches": usual, "timed": len(with_times), "others": len(without), "timed_ms": timed_ms, "others_ms": other_ms,
            "ratio": timed_ms / other_ms, "us_per_launch": 1e3 * (timed_ms - other_ms) / usual}


def cupti_itself(topic):
    """What CUPTI's kernel activity costs a launch, by how it is used, without Spillway."""
    text = topic.run([topic.build / "bin/cupti_cost", "--rounds", 3], 60, environment={"LD_LIBRARY_PATH": CUPTI_FOLDER})
    figures = json.loads(text.split("\n", 1)[1])
    topic.figures.update(figures)
    expect(figures["records"] > 0, "CUPTI gave no record")


def add_flags(parser):
    parser.add_argument("--rounds", type=int, default=4, help="rounds of the comparison of costs")
    parser.add_argument("--cost-steps", type=int, default=30)


def steps_of(topic, arguments):
    return [("times.full", kernel_times, topic, 20, FULL, 0.5), ("times.sampled", kernel_times, topic, 40, [], 0.005), ("profiler", profiled, topic),
            ("faults.arrival", faults, topic, "arrival"), ("faults.adaptive", faults, topic, "adaptive"),
            ("cost", cost, topic, arguments.rounds, arguments.cost_steps), ("host_limited", host_limited, topic, 2, 300), ("cupti", cupti_itself, topic)]


if __name__ == "__main__":
    sys.exit(main("telemetry", __doc__, PLANNED_BYTES, steps_of, add_flags, fixed_mode=""))
