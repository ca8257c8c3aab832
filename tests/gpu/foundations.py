"""Foundations on a real GPU; see foundations.sh.

Every program runs bare first. Half of its bare peak is the budget of the run under Spillway, which has to give the same
results, keep its resident bytes within the budget (by the trace, with CUPTI's counters as witness of it), and keep its
managed memory below half of the card. Then a program that fits runs with and without Spillway, in pairs.
"""
import json
import re
import statistics
import sys

from harness import GIB, MIB, ROOT, expect, main

# About 3 GiB each; what they check themselves takes some seconds of CPU time.
EXAMPLES = {
    "train_adam": (["--layers", 12, "--width", 4096, "--batch", 32, "--steps", 3], "--losses", "losses verified"),
    "decode_kv": (["--requests", 96, "--resident", 16, "--context", 2048, "--steps", 8, "--layers", 4, "--heads", 8],
                  "--outputs", "outputs verified"),
}
# Managed memory any step may make: the largest bare peak seen is 9 GiB, and a caching allocator may take a little more.
PLANNED_BYTES = 16 * GIB
# By how much the witness's page traffic may exceed what the trace says was moved: pages of 4 KiB and 64 KiB at edges.
WITNESS_TOLERANCE = 1.02
WITNESS_FLOOR = 32 * MIB
LOSS_TOLERANCE = 1e-5
FITS_TOLERANCE = 1.01


def trace_figures(stats):
    """The figures these tests need, from `spillway stats --json`."""
    device = stats["devices"][0]
    acting = [decision for decision in stats["decisions"] if decision["decision"] not in ("back allocation", "note")]
    return {
        "whole": stats["whole"], "launches": stats["launches"],
        "dropped": stats["dropped_events"] + stats["dropped_frames"],
        "budget_bytes": device["budget"], "resident_peak_bytes": device["resident_peak"], "reserved_bytes": device["reserved"],
        "managed_bytes": stats["allocations"]["managed"]["bytes"],  # all that were ever made: no less than what lived at once
        "moved_in_bytes": device["moved_in"], "moved_out_bytes": device["moved_out"],
        "decisions": {f"{decision['decision']}, {decision['reason']}": decision["count"] for decision in stats["decisions"]},
        "acting_decisions": sum(decision["count"] for decision in acting),
    }


def check_budget(topic, trace, budget, witness):
    """Residency within the budget by the trace; by CUPTI, that nothing came in or went out but what the trace says; managed
    memory below half of the card.

    The card's used-memory counter is no witness: the driver keeps the HBM block of a chunk that was moved out, so the counter
    shows all that was ever resident."""
    figures = trace_figures(topic.stats(trace))
    counters = json.loads(witness.read_text())
    topic.figures["trace"], topic.figures["cupti"] = figures, counters
    expect(figures["launches"] > 0, "the trace has no launch: the program was not intercepted")
    expect(figures["whole"], "the trace is not whole although the program ended by itself")
    expect(figures["budget_bytes"] <= budget, f"the trace says a budget of {figures['budget_bytes']}, {budget} was asked for")
    resident = figures["resident_peak_bytes"] + figures["reserved_bytes"]
    expect(resident <= budget, f"resident peak, with our own memory, {resident} bytes is over the budget of {budget}")
    expect(figures["managed_bytes"] > 0, "nothing was managed: the run did not go beyond its budget")
    expect(figures["managed_bytes"] < topic.card_bytes / 2,
           f"{figures['managed_bytes']} bytes of managed memory are half of the card or more")
    expect(counters["dropped_records"] == 0, f"CUPTI dropped {counters['dropped_records']} records: it is no witness")
    for ours, theirs in (("moved_in_bytes", "host_to_device_bytes"), ("moved_out_bytes", "device_to_host_bytes")):
        allowed = figures[ours] * WITNESS_TOLERANCE + WITNESS_FLOOR
        expect(counters[theirs] <= allowed, f"CUPTI saw {counters[theirs]} {theirs}, the trace says {figures[ours]} {ours}")


def budget_of(topic, peak):
    budget = int(peak // 2)
    topic.figures["bare_peak_bytes"] = peak
    topic.figures["budget_bytes"] = budget
    topic.require_headroom(peak * 1.25)
    return budget


def example_under_budget(topic, name, binary):
    flags, result_flag, last_line = EXAMPLES[name]
    program = topic.build / "examples" / binary
    bare_file, file = topic.work / f"{binary}.bare.txt", topic.work / f"{binary}.spillway.txt"
    text = topic.run([program, *flags, result_flag, bare_file], 90)
    expect(last_line in text, f"no line '{last_line}' in the bare run")
    peak = float(re.search(r"([0-9.]+) MiB allocated", text).group(1)) * MIB
    budget = budget_of(topic, peak)
    trace, witness = topic.work / f"{binary}.swt", topic.work / f"{binary}.witness.json"
    text = topic.spillway([program, *flags, result_flag, file], trace, budget=budget, limit=120, witness=witness)
    expect(last_line in text, f"no line '{last_line}' under Spillway")
    expect(bare_file.read_bytes() == file.read_bytes(), f"{bare_file} and {file} differ: not the same results, bit by bit")
    check_budget(topic, trace, budget, witness)


def pytorch_under_budget(topic, script, flags, compare):
    name = script.removesuffix(".py")
    program = ["python3", ROOT / "examples/pytorch" / script, *flags, "--json"]
    bare_file, file = topic.work / f"{name}.bare.json", topic.work / f"{name}.spillway.json"
    topic.run([*program, bare_file], 120)
    bare = json.loads(bare_file.read_text())
    budget = budget_of(topic, bare["peak_reserved_bytes"])
    trace, witness = topic.work / f"{name}.swt", topic.work / f"{name}.witness.json"
    topic.spillway([*program, file], trace, budget=budget, limit=180, witness=witness)
    shimmed = json.loads(file.read_text())
    topic.figures["bare"] = {key: bare[key] for key in bare if key not in ("tokens", "settings")}
    topic.figures["spillway"] = {key: shimmed[key] for key in shimmed if key not in ("tokens", "settings")}
    compare(topic, bare, shimmed)
    check_budget(topic, trace, budget, witness)


def compare_losses(topic, bare, shimmed):
    expect(bare["parameters"] >= 200e6, f"only {bare['parameters']} parameters")
    expect(len(bare["losses"]) == len(shimmed["losses"]), "not the same number of losses")
    worst = max(abs(a - b) / abs(a) for a, b in zip(bare["losses"], shimmed["losses"]))
    topic.figures["worst_relative_loss_difference"] = worst
    expect(worst <= LOSS_TOLERANCE, f"losses differ by {worst:.2g} relative, {LOSS_TOLERANCE:.0e} is allowed")


def compare_tokens(topic, bare, shimmed):
    pairs = [(a, b) for bare_row, row in zip(bare["tokens"], shimmed["tokens"]) for a, b in zip(bare_row, row)]
    different = sum(a != b for a, b in pairs)
    topic.figures["tokens"], topic.figures["different_tokens"] = len(pairs), different
    expect(len(pairs) == sum(len(row) for row in bare["tokens"]), "not the same number of tokens")
    expect(different == 0, f"{different} of {len(pairs)} tokens differ")


def fits(topic, pairs):
    """Step times of a program that fits, bare and under Spillway in turn, without a budget."""
    # Large enough that the GPU is the limit: smaller steps measure the CPU's launch rate, which varies by a third there.
    program = ["python3", ROOT / "examples/pytorch/train_gpt2.py", "--batch", 16, "--sequence", 1024, "--steps", 20,
               "--warmup", 3, "--json"]
    times = {"bare": [], "spillway": []}
    losses = {}
    trace = topic.work / "fits.swt"
    for pair in range(pairs):
        for kind in ("bare", "spillway") if pair % 2 == 0 else ("spillway", "bare"):
            file = topic.work / f"fits.{kind}.json"
            if kind == "bare":
                topic.run([*program, file], 60)
            else:
                topic.spillway([*program, file], trace, limit=60)
            run = json.loads(file.read_text())
            times[kind].append(run["median_step_ms"])
            losses[kind] = run["losses"]
    ratio = statistics.median(times["spillway"]) / statistics.median(times["bare"])
    figures = trace_figures(topic.stats(trace))
    topic.figures.update(median_step_ms=times, ratio=ratio, trace=figures)
    print(f"     bare {statistics.median(times['bare']):.2f} ms, under Spillway {statistics.median(times['spillway']):.2f} ms "
          f"a step: ratio {ratio:.4f} (median of {pairs} interleaved pairs)")
    expect(losses["bare"] == losses["spillway"], "the losses differ")
    expect(figures["launches"] > 0, "the trace has no launch: the program was not intercepted")
    expect(figures["managed_bytes"] == 0, f"{figures['managed_bytes']} bytes were managed although everything fits")
    expect(figures["acting_decisions"] == 0, f"decisions were taken although everything fits: {figures['decisions']}")
    expect(ratio <= FITS_TOLERANCE, f"{(ratio - 1) * 100:.2f}% slower than bare; 1% is allowed")


def steps_of(topic, arguments):
    return [
        *((f"half_budget.{binary}", example_under_budget, topic, name, binary) for name in EXAMPLES for binary in (name, f"{name}_static")),
        ("half_budget.train_gpt2", pytorch_under_budget, topic, "train_gpt2.py", ["--steps", 9], compare_losses),
        ("half_budget.generate_llama", pytorch_under_budget, topic, "generate_llama.py", [], compare_tokens),
        ("fits.train_gpt2", fits, topic, arguments.pairs),
    ]


if __name__ == "__main__":
    sys.exit(main("foundations", __doc__, PLANNED_BYTES, steps_of,
                  lambda parser: parser.add_argument("--pairs", type=int, default=5, help="pairs of the comparison where everything fits")))
