"""Adaptive on a real GPU against what the link allows and against the baselines; see closed_loop.sh.

Every program runs bare first; budgets come from what that run needed. Figures are medians of the measured steps of one run, or of
several runs in turn. Results are compared with the bare run's each time, and resident bytes with the budget.
"""
import json
import re
import statistics
import sys

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
    flags = ["--requests", 32, "--resident", 6, "--context", 2048, "--steps", 1024, "--quantum", 512, "--layers", 4, "--heads", 8, "--check", 1]
    cache = 32 * (2048 + 1024) * 4 * 8 * 64 * 2 * 4  # requests x tokens x layers x heads x head size x (key, value) x float
    program = [topic.build / "examples/decode_kv", *flags]

    def files(mode):
        return topic.work / f"decode.{mode}.txt", topic.work / f"decode.{mode}.json"

    text = topic.run([*program, "--outputs", files("bare")[0], "--json", files("bare")[1]], 90)
    peak = float(re.search(r"([0-9.]+) MiB allocated", text).group(1)) * MIB
    budget = int(peak - cache * 3 / 4) + OUR_CONTEXT
    plain = json.loads(files("bare")[1].read_text())
    topic.figures.update(peak=peak, cache=cache, budget=budget, tokens_per_second={"bare": plain["tokens"] / plain["seconds"]})
    for mode, steps in (("adaptive", None), ("demand", 384), ("arrival", 384)):
        outputs, times = files(mode)
        trace = topic.work / f"decode.{mode}.swt"
        stop = [] if steps is None else ["--stop-after", steps]
        topic.spillway([*program, *stop, "--outputs", outputs, "--json", times], trace, budget=budget, limit=150, extra=["--mode", mode])
        expect(same_outputs(files("bare")[0], outputs, whole=steps is None), f"{mode}: outputs differ")
        run, device = json.loads(times.read_text()), topic.stats(trace)["devices"][0]
        expect(device["resident_peak"] + device["reserved"] <= budget, f"{mode}: over the budget")
        seconds = topic.figures["tokens_per_second"]
        seconds[mode] = run["tokens"] / run["seconds"]
        rounds = decode_rounds(plain["rounds"], run["rounds"], cache / 32)
        hot = sum(r["bare_hot_ms"] for r in rounds) / sum(r["hot_ms"] for r in rounds)
        topic.figures[mode] = {"hot": hot, "rounds": rounds, "device": device}
        print(f"     {mode:10} {seconds[mode]:8.1f} tokens/s in all (bare {seconds['bare']:.1f}); hot requests {hot:.3f} of bare", flush=True)
        for r in rounds:
            print("       " + ", ".join(f"{key} {value:.4g}" for key, value in r.items()), flush=True)
    expect(topic.figures["adaptive"]["hot"] >= 0.9, "hot requests are more than 10% slower than where all fits")
    expect(seconds["adaptive"] >= 3 * seconds["demand"], "less than 3 times faster than demand")


def same_outputs(bare, run, whole):
    """Every token and logit as in the bare run; in a run that was stopped, of what it came to."""
    lines, others = (path.read_text().splitlines() for path in (bare, run))
    if whole:
        return lines == others
    requests = list(zip(lines, others, strict=True))[:-1]  # the last line is the check-sum of a cache that is not full
    return any(len(other) > len("request 00:") for _, other in requests) and all(line.startswith(other) for line, other in requests)


def decode_rounds(bare, run, request_bytes):
    """What each round between two changes of requests took. Hot: the second half of its steps. Settled: after so long eight steps in turn
    took less than 1.25 of what they take bare. Wait: how much longer all steps took than bare."""
    rounds = []
    for plain, spilled in zip(bare, run):
        steps = len(spilled["step_ms"])
        base, took = plain["step_ms"][:steps], spilled["step_ms"]
        near = [sum(took[i:i + 8]) < 1.25 * sum(base[i:i + 8]) for i in range(max(1, steps - 7))]
        settled = near.index(True) if True in near else steps
        rounds.append({
            "resumed": spilled["resumed"], "steps": steps,
            "bare_hot_ms": statistics.median(base[steps // 2:]), "hot_ms": statistics.median(took[steps // 2:]), "settled_ms": sum(took[:settled]),
            "wait_ms": sum(took) - sum(base), "link_ms": 1e3 * spilled["resumed"] * request_bytes / INWARD,
        })
    return rounds


if __name__ == "__main__":
    steps = (states_out, generation, decode_kv, third_out)
    sys.exit(main("closed_loop", __doc__, PLANNED_BYTES, lambda topic, _: [(step.__name__, step, topic) for step in steps], fixed_mode=""))
