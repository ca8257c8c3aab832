"""What each policy mode costs on a real GPU; see modes.sh.

GPT-2 training and Llama generation, bare and then in every mode at half of the bare peak, all of them in turn, several rounds.
The step is the median of the measured steps of a run; the figure is the median of the rounds. Results are compared as well.
"""
import json
import statistics
import sys

from foundations import PLANNED_BYTES
from harness import ROOT, expect, main

MODES = ["demand", "alloc_prefetch", "arrival", "adaptive"]
# Steps before the measured ones: adaptive plans after some iterations, the others place at once.
WARMUP = {"bare": 5, "demand": 1, "alloc_prefetch": 1, "arrival": 3, "adaptive": 16}
STEPS = {"bare": 20, "demand": 3, "alloc_prefetch": 3, "arrival": 10, "adaptive": 16}


def run_one(topic, kind, program, budget):
    file, trace = topic.work / f"modes.{kind}.json", topic.work / f"modes.{kind}.swt"
    command = [*program, "--json", file]
    if kind == "bare":
        topic.run(command, 90)
    else:
        topic.spillway(command, trace, budget=budget, limit=120, extra=["--mode", kind])
        device = topic.stats(trace)["devices"][0]
        expect(device["resident_peak"] + device["reserved"] <= budget, f"{kind}: resident peak {device['resident_peak']} is over the budget")
    return json.loads(file.read_text())


def compare(topic, rounds, script, flags_of, figure, result):
    """`figure`: the run's number; `result`: what must be equal in all of them, as far as the shortest goes."""
    program = ["python3", ROOT / "examples/pytorch" / script]
    bare = run_one(topic, "bare", [*program, *flags_of("bare")], None)
    budget = int(bare["peak_reserved_bytes"] // 2)
    topic.figures.update(budget_bytes=budget, bare_peak_bytes=bare["peak_reserved_bytes"], unit=figure)
    figures = {kind: [] for kind in ["bare", *MODES]}
    for _ in range(rounds):
        for kind in figures:
            run = run_one(topic, kind, [*program, *flags_of(kind)], budget)
            figures[kind].append(run[figure])
            expect(all(a == b for a, b in zip(run[result], bare[result])), f"{kind}: {result} differ from the bare run's")
    medians = {kind: statistics.median(values) for kind, values in figures.items()}
    topic.figures.update(figures=figures, medians=medians)
    for kind, value in medians.items():
        print(f"     {kind:15} {value:10.2f} {figure}", flush=True)


def steps_of(topic, arguments):
    steps = lambda kind: ["--steps", STEPS[kind], "--warmup", WARMUP[kind]]
    return [("train_gpt2", compare, topic, arguments.rounds, "train_gpt2.py", steps, "median_step_ms", "losses"),
            ("generate_llama", compare, topic, arguments.rounds, "generate_llama.py", lambda kind: [], "tokens_per_second", "tokens")]


if __name__ == "__main__":
    sys.exit(main("modes", __doc__, PLANNED_BYTES, steps_of, lambda parser: parser.add_argument("--rounds", type=int, default=3), fixed_mode=""))
