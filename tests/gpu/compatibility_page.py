#!/usr/bin/env python3
"""Makes docs/compatibility.md from the results of the compatibility matrix.

    tests/gpu/compatibility_page.py docs/results/2026-11-29-h200-frameworks.json [more.json] > docs/compatibility.md

Of a row that is in several files the last file's counts. Rows that failed, were not installed or did not run are listed as such.
"""
import argparse
import json
import os
import sys

RESULTS = ("pass", "fail", "not installed", "not run")
HEAD = """# Compatibility

<!-- Made by `tests/gpu/compatibility_page.py`. Do not edit: run `tests/gpu/frameworks.sh`, then make it anew. -->

Small real programs, unmodified, each run bare and then under Spillway with half of the device memory that the bare run held
(`tests/gpu/frameworks.sh`). A row passes if the results are the same and no more than the budget was resident; or, where the memory
cannot spill, if out-of-memory came at the budget and named the setting, and the results are the same with enough budget.
"""
COLUMNS = """
- *path*: how the program asks for memory, and the kinds of allocation that the trace has of it.
- *seen*: kernel and graph launches, and bytes of allocations, in the trace.
- *spilled*: the most that was on the host at a time, and the budget; `no: refused` where out-of-memory came instead; `no need` where it ran
  without a budget.
"""


def size(count):
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} B"


def cell(text):
    """Text that stays in its cell."""
    return " ".join(str(text).replace("|", "\\|").split())


def path_of(row):
    trace = row.get("generous_trace") or row.get("trace") or {}
    kinds = [kind for kind, of in sorted(trace.get("allocations", {}).items(), key=lambda item: -item[1]["bytes"])]
    return "; ".join(part for part in (row.get("path", ""), ", ".join(kinds)) if part)


def seen_of(row):
    trace = row.get("generous_trace") or row.get("trace")
    if not trace:
        return ""
    launches = f"{trace['launches']:,} launches"
    if trace["graph_launches"]:
        launches += f" ({trace['graph_launches']:,} of graphs)"
    return f"{launches}; {size(sum(of['bytes'] for of in trace['allocations'].values()))}"


def spilled_of(row):
    if row.get("outcome") == "refused":
        return "no: refused"
    trace = row.get("trace")
    if row.get("expectation") == "fits":
        return "no need"
    if not trace or row.get("budget_bytes") is None:
        return ""
    return f"{size(trace['spilled_bytes'])} at a budget of {size(row['budget_bytes'])}"


def remarks_of(row):
    parts = []
    if row["result"] == "fail":
        parts.append("**fails**: " + "; ".join(row.get("problems", [])))
    parts += row.get("remarks", [])
    if 0 < row.get("worst_difference", 0) <= 1:
        parts.append(f"results differ by {row['worst_difference']:.1g} relative at most")
    return ". ".join(parts)


def row_line(row):
    cells = (row["framework"] + ": " + row["what"], row.get("version", ""), path_of(row), seen_of(row), spilled_of(row), remarks_of(row))
    return "| " + " | ".join(cell(text) for text in cells) + " |"


def timing_lines(timings):
    lines = ["", "## Where everything fits", "",
             "Without a budget: the median step of several runs in turn, with and without Spillway. Figures; they decide nothing.", "",
             "| program | bare | under Spillway | ratio | pairs |", "|---|---|---|---|---|"]
    for name, timing in timings.items():
        if timing.get("pairs"):
            medians = timing["medians_ms"]
            lines.append(f"| {cell(name.removeprefix('fits.'))} | {medians['bare']:.3f} ms | {medians['spillway']:.3f} ms | "
                         f"{timing['ratio']:.4f} | {timing['pairs']} |")
        else:
            lines.append(f"| {cell(name.removeprefix('fits.'))} | not measured | | | 0 |")
    return lines


def page(results, sources):
    """The page's text. `results`: the JSON of each file, in order; `sources`: their names."""
    rows, timings, machines = {}, {}, []
    for result in results:
        rows.update(result["rows"])
        timings.update(result.get("timings", {}))
        machine = result["machine"]
        line = f"{result.get('gpus', 1)} x {machine['card']}, driver {machine['driver']}, {result['date'][:10]}"
        if line not in machines:
            machines.append(line)
    unknown = sorted({row["result"] for row in rows.values()} - set(RESULTS))
    if unknown:
        raise ValueError(f"results {', '.join(unknown)} are unknown; known are {', '.join(RESULTS)}")
    counts = {kind: sum(row["result"] == kind for row in rows.values()) for kind in RESULTS}
    lines = [HEAD.rstrip(), "", f"On {'; '.join(machines)}. From {', '.join(f'`{source}`' for source in sources)}.", "",
             ", ".join(f"{count} {kind}" for kind, count in counts.items()) + ".", COLUMNS.rstrip(), ""]
    ran = [row for row in rows.values() if row["result"] in ("pass", "fail")]
    lines += ["| program | version | path | seen | spilled | remarks |", "|---|---|---|---|---|---|"]
    lines += [row_line(row) for row in ran]
    others = [row for row in rows.values() if row["result"] not in ("pass", "fail")]
    if others:
        lines += ["", "## Not tested", "", "| program | why |", "|---|---|"]
        lines += [f"| {cell(row['framework'] + ': ' + row['what'])} | {cell(row['result'] + ': ' + '; '.join(row.get('remarks', [])))} |"
                  for row in others]
    if timings:
        lines += timing_lines(timings)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    arguments = parser.parse_args()
    read = []
    for path in arguments.results:
        try:
            with open(path) as file:
                read.append(json.load(file))
            read[-1]["rows"], read[-1]["machine"], read[-1]["date"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"compatibility_page.py: {path}: {error}: give a result file of tests/gpu/frameworks.sh", file=sys.stderr)
            return 2
    try:
        sys.stdout.write(page(read, [os.path.basename(path) for path in arguments.results]))
    except (ValueError, KeyError) as error:
        print(f"compatibility_page.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
