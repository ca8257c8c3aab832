"""What a trace costs on a real GPU; see tracing.sh.

GPT-2 training that fits, under Spillway without and with a trace in turn; the figure is the ratio of the medians. Also the bytes a launch
takes on disk.
"""
import json
import statistics
import sys

from harness import GIB, ROOT, expect, main

MOST = 1.01


def cost(topic, pairs):
    program = ["python3", ROOT / "examples/pytorch/train_gpt2.py", "--batch", 16, "--sequence", 1024, "--steps", 20, "--warmup", 3, "--json"]
    times = {"without": [], "with": []}
    trace = topic.work / "tracing.swt"
    for pair in range(pairs):
        for kind in ("without", "with") if pair % 2 == 0 else ("with", "without"):
            file = topic.work / f"tracing.{kind}.json"
            if kind == "with":
                topic.spillway([*program, file], trace, limit=60)
            else:
                topic.run([topic.build / "bin/spillway", "run", "--", *program, file], 60)
            times[kind].append(json.loads(file.read_text())["median_step_ms"])
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    stats = topic.stats(trace)
    ratio = medians["with"] / medians["without"]
    bytes_a_launch = trace.stat().st_size / stats["launches"]
    topic.figures.update(step_ms=times, medians=medians, ratio=ratio, trace_bytes=trace.stat().st_size, launches=stats["launches"],
                         bytes_a_launch=bytes_a_launch)
    print(f"     without {medians['without']:.2f} ms, with a trace {medians['with']:.2f} ms a step: ratio {ratio:.4f} (medians of {pairs}); "
          f"{bytes_a_launch:.1f} bytes a launch on disk")
    expect(stats["whole"] and stats["dropped_events"] == 0, "the trace is not whole")
    expect(ratio <= MOST, f"{(ratio - 1) * 100:.2f}% slower with a trace; 1% is allowed")


if __name__ == "__main__":
    sys.exit(main("tracing", __doc__, 4 * GIB, lambda topic, arguments: [("cost", cost, topic, arguments.pairs)],
                  lambda parser: parser.add_argument("--pairs", type=int, default=5)))
