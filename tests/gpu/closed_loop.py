"""Adaptive on a real GPU against what the link allows and against the baselines; see closed_loop.sh.

Every program runs bare first; budgets come from what that run needed. Figures are medians of the measured steps of one run, or of
several runs in turn. Results are compared with the bare run's each time, and resident bytes with the budget.
"""
import json
import re
import sys
import time

from harness import GIB, MIB, ROOT, expect, main

PLANNED_BYTES = 40 * GIB  # managed memory of the largest step
# The link, as measured (docs/driver_facts.md): a kernel that reads and writes host pages at once, and one that reads.
BOTH_WAYS = 82e9
INWARD = 51e9
OUR_CONTEXT = 360 * MIB  # a little more than our own context takes: a budget holds it too
LARGE = ["--layers", 36, "--width", 1280]


def spilled(topic, name, program, budget, mode="adaptive", limit=150, extra=()):
    """One run under a budget; returns the program's own figures and the trace's."""
    file, trace = topic.work / f"{name}.json", topic.work / f"{name}.swt"
    topic.spillway([*program, "--json", file], trace, budget=budget, limit=limit, extra=["--mode", mode, *extra])
    stats = topic.stats(trace)
    device = stats["devices"][0]
    resident = device["resident_peak"] + device["reserved"]
    expect(resident <= budget, f"{mode}: resident peak, with our own memory, {resident} is over the budget of {budget}")
    expect(stats["allocations"]["managed"]["bytes"] < topic.card_bytes / 2, f"{mode}: too much managed memory")
    return json.loads(file.read_text()), stats


def bare(topic, name, program, limit=90):
    file = topic.work / f"{name}.bare.json"
    topic.run([*program, "--json", file], limit)
    return json.loads(file.read_text())


def same(kind, bare_results, results):
    expect(all(a == b for a, b in zip(bare_results, results)), f"{kind}: the results differ from the bare run's")


def keep(topic, key, run, stats):
    device = stats["devices"][0]
    topic.figures[key] = {"step_ms": run.get("step_ms"), "median_step_ms": run.get("median_step_ms"),
                          "tokens_per_second": run.get("tokens_per_second"), "device": device,
                          "decisions": {f"{d['decision']}, {d['reason']}": d["count"] for d in stats["decisions"]}}


def states_out(topic):
    """All but the optimizer states fits."""
    train = ["python3", ROOT / "examples/pytorch/train_gpt2.py", *LARGE]
    plain = bare(topic, "states_out", [*train, "--steps", 12, "--warmup", 4])
    states = 8 * plain["parameters"]
    budget = plain["peak_reserved_bytes"] - states + OUR_CONTEXT
    run, stats = spilled(topic, "states_out", [*train, "--steps", 16, "--warmup", 24], budget)
    same("adaptive", plain["losses"], run["losses"])
    bound = plain["median_step_ms"] + 1.15e3 * 2 * states / BOTH_WAYS
    topic.figures.update(bare_ms=plain["median_step_ms"], bare_peak=plain["peak_reserved_bytes"], states=states, budget=budget, bound_ms=bound)
    keep(topic, "adaptive", run, stats)
    print(f"     bare {plain['median_step_ms']:.1f} ms, adaptive {run['median_step_ms']:.1f} ms, allowed {bound:.1f} ms", flush=True)
    expect(run["median_step_ms"] <= bound, f"{run['median_step_ms']:.1f} ms a step, {bound:.1f} allowed")


def third_out(topic):
    """The states and a third of all else do not fit."""
    train = ["python3", ROOT / "examples/pytorch/train_gpt2.py", *LARGE]
    plain = bare(topic, "third_out", [*train, "--steps", 12, "--warmup", 4])
    states = 8 * plain["parameters"]
    rest = plain["peak_reserved_bytes"] - states
    budget = rest * 2 // 3 + OUR_CONTEXT
    topic.figures.update(bare_ms=plain["median_step_ms"], bare_peak=plain["peak_reserved_bytes"], states=states, budget=budget)
    medians = {}
    for mode, steps, warmup in (("adaptive", 10, 30), ("alloc_prefetch", 2, 1), ("demand", 2, 1)):
        run, stats = spilled(topic, f"third_out.{mode}", [*train, "--steps", steps, "--warmup", warmup], budget, mode, 200)
        same(mode, plain["losses"], run["losses"])
        keep(topic, mode, run, stats)
        medians[mode] = run["median_step_ms"]
        print(f"     {mode:15} {medians[mode]:10.1f} ms", flush=True)
    link_ms = 1e3 * (2 * states / BOTH_WAYS + rest / 3 / INWARD)
    topic.figures.update(medians=medians, bound_ms=max(plain["median_step_ms"], link_ms))
    expect(medians["demand"] >= 3 * medians["adaptive"], "less than 3 times faster than demand")
    expect(medians["alloc_prefetch"] > medians["adaptive"], "not faster than alloc_prefetch")


def generation(topic):
    """Weights 1.5 and 2 times the budget."""
    generate = ["python3", ROOT / "examples/pytorch/generate_llama.py", "--layers", 32]
    plain = bare(topic, "generation", [*generate, "--tokens", 48])
    weights = 2 * plain["parameters"]
    batch = plain["settings"]["batch"]
    token_seconds = batch / plain["tokens_per_second"]
    topic.figures.update(bare=plain["tokens_per_second"], weights=weights)
    for ratio in (1.5, 2.0):
        budget = int(weights / ratio)
        figures = {}
        for mode, tokens in (("adaptive", 96), ("demand", 8)):
            run, stats = spilled(topic, f"generation.{ratio}.{mode}", [*generate, "--tokens", tokens], budget, mode, 200)
            same(mode, *([row[:min(48, tokens)] for row in both["tokens"]] for both in (plain, run)))
            keep(topic, f"{mode}_{ratio}", run, stats)
            figures[mode] = run["tokens_per_second"]
        device = stats["devices"][0]
        outside = weights - (budget - OUR_CONTEXT)
        bound = batch / (outside / INWARD + token_seconds)
        topic.figures[f"bound_{ratio}"] = bound
        print(f"     weights {ratio} x budget: bare {plain['tokens_per_second']:.0f}, adaptive {figures['adaptive']:.0f}, demand "
              f"{figures['demand']:.0f}, bound {bound:.0f} tokens/s", flush=True)
        expect(figures["adaptive"] >= 0.85 * bound, f"{ratio}: less than 0.85 of the bound")
        expect(figures["adaptive"] >= 3 * figures["demand"], f"{ratio}: less than 3 times demand")


def decode_kv(topic):
    """Four times more key-value cache than fits; requests are parked and resumed."""
    flags = ["--requests", 192, "--resident", 16, "--context", 2048, "--steps", 32, "--layers", 4, "--heads", 8, "--check", 1]
    program = [topic.build / "examples/decode_kv", *flags]
    seconds = {}
    text = topic.run([*program, "--outputs", topic.work / "decode.bare.txt"], 90)
    peak = float(re.search(r"([0-9.]+) MiB allocated", text).group(1)) * MIB
    budget = int(peak / 4) + OUR_CONTEXT
    topic.figures.update(peak=peak, budget=budget, text=text.splitlines()[-12:])
    for mode in ("adaptive", "demand", "arrival"):
        file, trace = topic.work / f"decode.{mode}.txt", topic.work / f"decode.{mode}.swt"
        began = time.monotonic()
        text = topic.spillway([*program, "--outputs", file], trace, budget=budget, limit=120, extra=["--mode", mode])
        seconds[mode] = time.monotonic() - began
        topic.figures[mode] = {"seconds": seconds[mode], "text": text.splitlines()[-12:], "device": topic.stats(trace)["devices"][0]}
        expect(file.read_bytes() == (topic.work / "decode.bare.txt").read_bytes(), f"{mode}: outputs differ")
        print(f"     {mode:10} {seconds[mode]:8.2f} s in all", flush=True)


if __name__ == "__main__":
    steps = (states_out, generation, decode_kv, third_out)
    sys.exit(main("closed_loop", __doc__, PLANNED_BYTES, lambda topic, _: [(step.__name__, step, topic) for step in steps], fixed_mode=""))
