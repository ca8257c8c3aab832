"""Foundations on a real GPU; see foundations.sh.

Every program runs bare first. Half of its bare peak is the budget of the run under Spillway, which has to give the same
results, keep its resident bytes within the budget (by the trace, and by the card's own memory counter), and keep its
managed memory below half of the card. Then a program that fits runs with and without Spillway, in pairs.
"""
import argparse
import json
import re
import statistics
import subprocess
import sys

from harness import GIB, MIB, ROOT, CardSampler, Topic, add_arguments, expect

# About 3 GiB each; what they check themselves takes some seconds of CPU time.
EXAMPLES = {
    "train_adam": (["--layers", 12, "--width", 4096, "--batch", 32, "--steps", 3], "--losses", "losses verified"),
    "decode_kv": (["--requests", 96, "--resident", 16, "--context", 2048, "--steps", 8, "--layers", 4, "--heads", 8],
                  "--outputs", "outputs verified"),
}
# Managed memory any step may make: the largest bare peak seen is 9 GiB, and a caching allocator may take a little more.
PLANNED_BYTES = 16 * GIB
# What a second context of ours takes on the card (DRIVER_FACTS: 392 to 524 MiB), and the counter's coarseness.
OWN_OVERHEAD = 640 * MIB
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


def check_budget(topic, trace, budget, card_rise, bare_overhead):
    """Residency within the budget, by two witnesses; managed memory below half of the card."""
    figures = trace_figures(topic.stats(trace))
    topic.figures["trace"] = figures
    topic.figures["card_rise_bytes"] = card_rise
    allowed = budget + max(bare_overhead, 0) + OWN_OVERHEAD
    topic.figures["card_rise_allowed_bytes"] = allowed
    expect(figures["launches"] > 0, "the trace has no launch: the program was not intercepted")
    expect(figures["whole"], "the trace is not whole although the program ended by itself")
    expect(figures["budget_bytes"] <= budget, f"the trace says a budget of {figures['budget_bytes']}, {budget} was asked for")
    resident = figures["resident_peak_bytes"] + figures["reserved_bytes"]
    expect(resident <= budget, f"resident peak, with our own memory, {resident} bytes is over the budget of {budget}")
    expect(figures["managed_bytes"] > 0, "nothing was managed: the run did not go beyond its budget")
    expect(figures["managed_bytes"] < topic.card_bytes / 2,
           f"{figures['managed_bytes']} bytes of managed memory are half of the card or more")
    expect(card_rise <= allowed, f"the card's used memory rose by {card_rise / MIB:.0f} MiB; budget and contexts explain "
           f"{allowed / MIB:.0f} MiB")


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
    with CardSampler() as card:
        text = topic.run([program, *flags, result_flag, bare_file], 90)
    expect(last_line in text, f"no line '{last_line}' in the bare run")
    peak = float(re.search(r"([0-9.]+) MiB allocated", text).group(1)) * MIB
    overhead = card.rise - peak
    budget = budget_of(topic, peak)
    trace = topic.work / f"{binary}.swt"
    with CardSampler() as card:
        text = topic.spillway([program, *flags, result_flag, file], trace, budget=budget, limit=120)
    expect(last_line in text, f"no line '{last_line}' under Spillway")
    expect(bare_file.read_bytes() == file.read_bytes(), f"{bare_file} and {file} differ: not the same results, bit by bit")
    check_budget(topic, trace, budget, card.rise, overhead)


def pytorch_under_budget(topic, script, flags, compare):
    name = script.removesuffix(".py")
    program = ["python3", ROOT / "examples/pytorch" / script, *flags, "--json"]
    bare_file, file = topic.work / f"{name}.bare.json", topic.work / f"{name}.spillway.json"
    with CardSampler() as card:
        topic.run([*program, bare_file], 120)
    bare = json.loads(bare_file.read_text())
    overhead = card.rise - bare["peak_reserved_bytes"]
    budget = budget_of(topic, bare["peak_reserved_bytes"])
    trace = topic.work / f"{name}.swt"
    with CardSampler() as card:
        topic.spillway([*program, file], trace, budget=budget, limit=180)
    shimmed = json.loads(file.read_text())
    topic.figures["bare"] = {key: bare[key] for key in bare if key not in ("tokens", "settings")}
    topic.figures["spillway"] = {key: shimmed[key] for key in shimmed if key not in ("tokens", "settings")}
    compare(topic, bare, shimmed)
    check_budget(topic, trace, budget, card.rise, overhead)


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
    program = ["python3", ROOT / "examples/pytorch/train_gpt2.py", "--steps", 30, "--warmup", 5, "--json"]
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


def main():
    parser = argparse.ArgumentParser(prog="foundations.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of the comparison where everything fits")
    arguments = parser.parse_args()
    try:
        topic = Topic("foundations", arguments)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"foundations.sh: nvidia-smi does not answer ({error}): these tests need an NVIDIA GPU", file=sys.stderr)
        return 1
    # Nothing that could oversubscribe starts before this has passed.
    topic.step("headroom", topic.require_headroom, PLANNED_BYTES)
    if topic.failed:
        return topic.finish()
    for name in EXAMPLES:
        for binary in (name, f"{name}_static"):
            topic.step(f"half_budget.{binary}", example_under_budget, topic, name, binary)
    topic.step("half_budget.train_gpt2", pytorch_under_budget, topic, "train_gpt2.py", ["--steps", 9], compare_losses)
    topic.step("half_budget.generate_llama", pytorch_under_budget, topic, "generate_llama.py", [], compare_tokens)
    topic.step("fits.train_gpt2", fits, topic, arguments.pairs)
    return topic.finish()


if __name__ == "__main__":
    sys.exit(main())
