#!/usr/bin/env python3
"""From the runner's JSON to tables, pictures and the README's short table.

    benchmarks/report.py docs/results/*-benchmarks-part*.json

writes docs/benchmarks.md, docs/pictures/benchmarks-*.svg, and the short table between the markers in README.md. A row that is in several files
is taken from the last one named; a row of the default table that is in none stands there as not run. Pictures are drawn by matplotlib
(Debian: python3-matplotlib); the same input gives the same files.
"""
import argparse
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import matrix
from measured_rows import GROUP_OF_PART, GROUPS, NAMES, good, load, median, milliseconds, note, rows_of, shares_of, ways_in_order
from pictures import draw

GIB = 1 << 30
FITS_NAMES = {"no_budget": "without a budget", "adaptive": "with a budget that has room for all"}
TARGETS = (
    # name, (workload, share) or None for all, function of the rows of that share -> (reached, goal) or None
    ("at least 3 times as fast as raw managed memory", "train", lambda rows: ratio(rows, "demand", "adaptive"), 3.0),
    ("at least 1.3 times as fast as one prefetch at allocation", "train", lambda rows: ratio(rows, "alloc_prefetch", "adaptive"), 1.3),
    ("at least as fast as the best explicit code", "train kv_ decode experts", lambda rows: against_best(rows), 1.0),
    ("at least 0.85 of what the hardware allows", "train decode kv_ experts", lambda rows: reached(rows, "adaptive"), 0.85),
)


def ratio(rows, slow, fast):
    return median(rows[slow]) / median(rows[fast]) if good(rows.get(slow)) and good(rows.get(fast)) else None


def against_best(rows):
    explicit = [median(row) for row in rows.values() if row["kind"] == "explicit" and good(row)]
    return min(explicit) / median(rows["adaptive"]) if explicit and good(rows.get("adaptive")) else None


def reached(rows, way):
    return rows[way].get("share_of_limit") if good(rows.get(way)) else None


def table(head, lines):
    text = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(text + ["| " + " | ".join(line) + " |" for line in lines]) + "\n"


def spread(figures):
    return f"{milliseconds(figures['first_quartile'])} to {milliseconds(figures['third_quartile'])} ({figures['count']})"


def row_line(share, name, row):
    first = [matrix.share_text(share) if share else "-", name]
    if not good(row):
        return first + ["-", "-", "-", "-", "-", note(row)]
    figures = row["seconds_a_step"]
    return first + [milliseconds(figures["median"]), spread(figures), f"{row['times_bare']:.2f}" if row.get("times_bare") else "1",
                    f"{100 * row['share_of_limit']:.0f}%" if row.get("share_of_limit") else "-",
                    f"{row['peak_bytes'] / GIB:.2f}" if row.get("peak_bytes") else "-", note(row)]


def workload_text(data, workload):
    bare = rows_of(data, workload.name, 0).get("bare")
    shares = shares_of(data, workload.name)
    if workload.shares == (matrix.FITS,):
        return ""
    if not any(good(row) for share in (0, *shares) for row in rows_of(data, workload.name, share).values()):
        return f"### {workload.name}\n\nNot run.\n\n"
    lines = [row_line(0, "bare, all of it fits", bare)]
    for share in shares:
        rows = rows_of(data, workload.name, share)
        lines += [row_line(share, NAMES.get(way, way), rows[way]) for way in ways_in_order(rows)]
    text = f"### {workload.name}\n\n{workload.what[0].upper()}{workload.what[1:]}. `{workload.script}`"
    if good(bare):
        text += f", bare peak {bare['peak_bytes'] / GIB:.2f} GiB, of it in use {bare['finish']['allocated_bytes'] / GIB:.2f} GiB"
    text += ".\n\n" + table(["budget", "way", "ms a step", "quartiles (steps)", "times bare", "of the limit", "peak GiB", ""], lines)
    limits = [limit_text(rows_of(data, workload.name, share), share) for share in shares]
    return text + "".join(f"\n{limit}" for limit in limits if limit) + "\n"


def limit_text(rows, share):
    limits = next((row["limits"] for row in rows.values() if row.get("limits")), None)
    if limits is None:
        return ""
    which = "the link" if limits["link_seconds"] > limits["bare_seconds"] else "the card"
    return (f"At {matrix.share_text(share)}: {limits['bytes_in'] / GIB:.2f} GiB must come in and {limits['bytes_out'] / GIB:.2f} GiB go out a step, "
            f"{milliseconds(limits['link_seconds'])} ms of the link; the limit is {milliseconds(limits['seconds'])} ms, set by {which}, "
            f"and {milliseconds(limits['bare_seconds'] + limits['link_seconds'])} ms if none of it happens beside the computing.\n")


def fits_times(data, workload):
    """Medians of each run, by way."""
    times = {}
    for row in data["rows"].values():
        if row["workload"] == workload.name and good(row):
            times.setdefault(row["way"], []).append(median(row))
    return times


def fits_medians(data, workload):
    return {way: statistics.median(values) for way, values in fits_times(data, workload).items()}


def fits_fastest(data, workload):
    """Fastest step of all runs, by way: where the machine's own pace changes, it is what says something."""
    fastest = {}
    for row in data["rows"].values():
        if row["workload"] == workload.name and good(row):
            least = row["seconds_a_step"]["least"]
            fastest[row["way"]] = min(fastest.get(row["way"], least), least)
    return fastest


def fits_text(data):
    lines = []
    for workload in matrix.WORKLOADS:
        if workload.shares != (matrix.FITS,):
            continue
        middle = fits_medians(data, workload)
        for way, name in FITS_NAMES.items():
            if "bare" in middle and way in middle:
                lines.append([workload.name, workload.what, name, milliseconds(middle["bare"]), milliseconds(middle[way]),
                              f"{middle[way] / middle['bare']:.4f}", f"{len(fits_times(data, workload)[way])} in turn",
                              f"{fits_fastest(data, workload)[way] / fits_fastest(data, workload)['bare']:.4f}"])
            else:
                lines.append([workload.name, workload.what, name, "-", "-", "-", "not run", "-"])
    return "## Where all fits\n\n" + table(["workload", "what", "under Spillway, traced", "bare ms", "ms", "ratio", "runs", "ratio of the fastest steps"], lines) + "\n"


def prediction_lines(data):
    """(workload, share, expected from a run that fits, expected from the run under the budget, measured)."""
    lines = []
    for workload in matrix.WORKLOADS:
        record = rows_of(data, workload.name, 0).get("record")
        for share in shares_of(data, workload.name):
            if share == matrix.FITS:
                continue
            rows = rows_of(data, workload.name, share)
            adaptive, planned = rows.get("adaptive"), rows.get("adaptive_plan")
            before = ((record or {}).get("predictions") or {}).get(matrix.share_text(share), {}).get("seconds")
            after = ((adaptive or {}).get("prediction") or {}).get("seconds")
            if before or after:
                lines.append((workload.name, share, before, after, median(adaptive) if good(adaptive) else None,
                              median(planned) if good(planned) else None))
    return lines


def error(expected, measured):
    return "-" if not expected or not measured else f"{100 * (expected - measured) / measured:+.0f}%"


def prediction_text(data):
    time = lambda seconds: milliseconds(seconds) if seconds else "-"
    lines = [[name, matrix.share_text(share), time(before), error(before, adaptive), time(after), error(after, planned), time(adaptive),
              time(planned)]
             for name, share, before, after, adaptive, planned in prediction_lines(data)]
    if not lines:
        return ""
    return ("## What `spillway plan` expected\n\nThe first expectation is made from a trace of a run where all fits (mode off), for a budget "
            "that was not tried before, and compared with adaptive. The second is made from adaptive's own trace, with the plan, and compared "
            "with the run under that plan.\n\n" +
            table(["workload", "budget", "expected before, ms", "error", "expected with the plan, ms", "error", "adaptive ms", "with the plan, ms"],
                  lines) + "\n")


def learning_text(data):
    lines = []
    for row in data["rows"].values():
        if row["way"] in ("adaptive", "adaptive_plan") and row["share"] != matrix.FITS and good(row):
            steady = row.get("steady_after")
            lines.append([row["workload"], matrix.share_text(row["share"]), NAMES[row["way"]].strip("*"),
                          "not within the run" if steady is None else str(steady), milliseconds(max(row["all_seconds"])),
                          milliseconds(median(row))])
    if not lines:
        return ""
    return ("## Until it is steady\n\nSteps after which the medians of three stay within a tenth of the measured median.\n\n" +
            table(["workload", "budget", "way", "steps until steady", "slowest step, ms", "median, ms"], lines) + "\n")


def target_lines(data):
    """Each target on each row that it speaks of: (target, workload, share, reached, goal)."""
    lines = []
    for name, about, figure, goal in TARGETS:
        for workload in matrix.WORKLOADS:
            if not any(workload.name.startswith(start) for start in about.split()) or workload.shares == (matrix.FITS,):
                continue
            for share in shares_of(data, workload.name):
                lines.append((name, workload.name, share, figure(rows_of(data, workload.name, share)), goal))
    for workload in matrix.WORKLOADS:
        for way, name in FITS_NAMES.items() if workload.shares == (matrix.FITS,) else ():
            middle = fits_medians(data, workload)
            reached_share = middle["bare"] / middle[way] if "bare" in middle and way in middle else None
            lines.append((f"within 1% of bare, {name}", workload.name, matrix.FITS, reached_share, 0.99))
    near = lambda expected, measured: 1 - abs(expected - measured) / measured if expected and measured else None
    found = {(workload, share): rest for workload, share, *rest in prediction_lines(data)}
    for workload in matrix.WORKLOADS:
        for share in shares_of(data, workload.name) if GROUP_OF_PART[workload.part] != "arrays" else ():
            before, after, adaptive, planned = found.get((workload.name, share), [None] * 4)
            if "record" in rows_of(data, workload.name, 0):
                lines.append(("expected before the run within 15%: 1 less the error", workload.name, share, near(before, adaptive), 0.85))
            if "adaptive_plan" in rows_of(data, workload.name, share):
                lines.append(("expected with the plan within 15%: 1 less the error", workload.name, share, near(after, planned), 0.85))
    return lines


def targets_text(data):
    lines = [[name, f"{workload}, {matrix.share_text(share)}", "-" if value is None else f"{value:.{3 if abs(value - goal) < 0.01 else 2}f}", f"{goal:g}",
              "no figure" if value is None else "met" if value >= goal else "**missed**"]
             for name, workload, share, value, goal in target_lines(data)]
    if not lines:
        return ""
    return "## Targets\n\nOf adaptive, by medians. Why some are missed: [benchmark_findings.md](benchmark_findings.md).\n\n" + table(["target", "row", "reached", "goal", ""], lines) + "\n"


def head_text(data):
    text = ("# Side by side\n\n<!-- Made by benchmarks/report.py. Do not edit. -->\n\nPrograms bare, under Spillway's modes, and with explicit "
            "offload code, under the same limit of device memory. A budget is a share of what the bare run takes from the driver. Under Spillway "
            "its peak is read from the trace and includes Spillway's own memory (338 MiB on an H200); explicit code is limited by its allocator, "
            "and its peak is what that allocator took. Medians of steps after a warm-up. Results are compared with the bare run's; where nothing is "
            "said they are equal. *Of the limit* is the share of what no placement can beat: the bare step, or the link's time for the bytes that do not "
            "fit, whichever is longer.\n\n")
    for run in data["runs"]:
        machine, link = run["machine"], run["link"] or {}
        text += (f"- {run['date'][:10]}, {machine['card']}, driver {machine['driver']}, {machine['processors']} processors: `{run['command']}` "
                 f"([{run['file']}](results/{run['file']}))")
        if link:
            text += f"; pinned copies reach {link['in'] / 1e9:.1f} GB/s in, {link['out'] / 1e9:.1f} out, {link['both'] / 1e9:.1f} both at once"
        text += ".\n"
    missing = [name for name, row in data["rows"].items() if row.get("result") == "not run"]
    if missing:
        text += f"\nNot run: {', '.join(missing)}.\n"
    return text + "\n"


def page(data, pictures):
    text = head_text(data) + targets_text(data)
    for part, group in GROUP_OF_PART.items():
        body = "".join(workload_text(data, workload) for workload in matrix.WORKLOADS if workload.part == part)
        if not body:
            continue
        text += f"## {GROUPS[group]}\n\n"
        if group in pictures:
            text += f"![{GROUPS[group]}: time of a step, times bare](pictures/{pictures[group]})\n\n"
        text += body
    return text + fits_text(data) + prediction_text(data) + learning_text(data)


def short(row):
    """A row's milliseconds, or why it has none."""
    if row is None or row.get("result") == "not run":
        return "not run"
    return milliseconds(median(row)) if good(row) else "does not fit" if row.get("status") == "out_of_memory" else "failed"


def readme_text(data):
    """The short table: for each workload and budget bare, adaptive, the best explicit code and raw managed memory."""
    lines = []
    for workload in matrix.WORKLOADS:
        for share in shares_of(data, workload.name):
            rows = rows_of(data, workload.name, share)
            bare, adaptive = rows_of(data, workload.name, 0).get("bare"), rows.get("adaptive")
            if share == matrix.FITS or all(row.get("result") == "not run" for row in (bare, adaptive)):
                continue
            if not good(bare) or not good(adaptive):
                lines.append([workload.what, matrix.share_text(share), short(bare), short(adaptive), *["-"] * 4])
                continue
            explicit = [way for way in ways_in_order(rows) if rows[way]["kind"] == "explicit" and good(rows[way])]
            tried = {short(row) for row in rows.values() if row["kind"] == "explicit"} or {"not run"}
            wins = not explicit or median(adaptive) <= median(rows[explicit[0]])
            bold = lambda text, faster: f"**{text}**" if faster else text
            best = (f"{bold(milliseconds(median(rows[explicit[0]])), not wins)} ({NAMES.get(explicit[0], explicit[0])})" if explicit
                    else ", ".join(sorted(tried)))
            others = [short(rows.get(way)) for way in ("alloc_prefetch", "demand")]
            lines.append([workload.what, matrix.share_text(share), milliseconds(median(bare)), bold(milliseconds(median(adaptive)), wins),
                          milliseconds(adaptive["limits"]["seconds"]), best, *others])
    machine = data["runs"][-1]
    return (README_BEGIN + "\n" +
            table(["what, ms a step", "budget", "bare", "Spillway", "limit", "best explicit code", "one prefetch", "raw managed"], lines) +
            f"\nMedians, {machine['machine']['card']}, {machine['date'][:10]}. The budget is a share of what the bare run takes from the driver; the limit is the bare "
            "step, or the link's time for what does not fit, whichever is longer; bold is the faster of Spillway and the best explicit code. All rows, with "
            "commands, raw figures, prefill, steps until steady and what was not run: [docs/benchmarks.md](docs/benchmarks.md); why they are where they are: "
            "[docs/benchmark_findings.md](docs/benchmark_findings.md).\n" + README_END + "\n")


def put_into_readme(path, text):
    """Between the markers, which stay."""
    page = path.read_text()
    begin, end = page.find(README_BEGIN), page.find(README_END)
    if begin < 0 or end < begin:
        raise SystemExit(f"{path}: the markers '{README_BEGIN}' and '{README_END}' are missing, so there is no place for the short table")
    path.write_text(page[:begin] + text.rstrip("\n") + page[end + len(README_END):])


README_BEGIN, README_END = "<!-- benchmarks: made by benchmarks/report.py -->", "<!-- end of benchmarks -->"
def main(words=None):
    parser = argparse.ArgumentParser(prog="report.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="results of benchmarks/run.sh")
    parser.add_argument("--docs", default=str(HERE.parent / "docs"), help="folder for benchmarks.md and pictures/ (default docs)")
    parser.add_argument("--readme", default=str(HERE.parent / "README.md"), help="the page that gets the short table (default README.md)")
    parser.add_argument("--no-pictures", action="store_true")
    arguments = parser.parse_args(words)
    data = load(arguments.files)
    docs, readme = pathlib.Path(arguments.docs), pathlib.Path(arguments.readme)
    (docs / "pictures").mkdir(parents=True, exist_ok=True)
    pictures = {} if arguments.no_pictures else draw(data, docs / "pictures")
    (docs / "benchmarks.md").write_text(page(data, pictures))
    put_into_readme(readme, readme_text(data))
    run = sum(row.get("result") != "not run" for row in data["rows"].values())
    print(f"{docs / 'benchmarks.md'}, {len(pictures)} pictures and the table in {readme}, from {run} rows; {len(data['rows']) - run} were not run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
