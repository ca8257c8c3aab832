"""Pictures of measured rows, drawn by matplotlib (Debian: python3-matplotlib); the same rows give the same files."""
import matrix
from measured_rows import GROUP_OF_PART, NAMES, good, note, rows_of, shares_of, ways_in_order

COLOURS = {"adaptive": "#1b6ca8", "adaptive_plan": "#4f9bd0", "arrival": "#b9d3e6", "alloc_prefetch": "#c9c9c9", "demand": "#9a9a9a"}
EXPLICIT_COLOUR = "#d08a3c"


def draw(data, folder):
    """One picture a group, a panel for each workload and budget; returns {group: file name}."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("matplotlib is missing, so no picture can be drawn: install python3-matplotlib, or give --no-pictures") from None
    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot

    # Ids in the file depend on the salt, so it is fixed; the date is left out below.
    pyplot.rcParams.update({"svg.hashsalt": "spillway", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"})
    made = {}
    for part, group in GROUP_OF_PART.items():
        panels = [(workload, share, rows_of(data, workload.name, share)) for workload in matrix.WORKLOADS if workload.part == part
                  for share in shares_of(data, workload.name) if share != matrix.FITS]
        panels = [panel for panel in panels if any(good(row) and row.get("times_bare") for row in panel[2].values())]
        if not panels:
            continue
        heights = [1 + len(rows) for _, _, rows in panels]
        figure, axes = pyplot.subplots(len(panels), 1, figsize=(8, 0.3 * sum(heights) + 0.55 * len(panels)), squeeze=False,
                                       gridspec_kw={"height_ratios": heights})
        for axis, (workload, share, rows) in zip(axes[:, 0], panels):
            draw_panel(axis, workload, share, rows)
        figure.tight_layout()
        made[group] = f"benchmarks-{group}.svg"
        figure.savefig(folder / made[group], metadata={"Date": None, "Creator": "benchmarks/report.py"})
        pyplot.close(figure)
    return made


def draw_panel(axis, workload, share, rows):
    ways = list(reversed(ways_in_order(rows)))
    for place, way in enumerate(ways):
        row = rows[way]
        if good(row):
            times = row["times_bare"]
            axis.barh(place, times, color=COLOURS.get(way, EXPLICIT_COLOUR), height=0.7)
            axis.text(times * 1.04, place, f"{times:.2f}" if times < 10 else f"{times:.0f}", va="center", fontsize=8)
        else:
            axis.text(1.04, place, note(row)[:40] or "no figure", va="center", fontsize=8, style="italic", color="#777777")
    limits = next((row["limits"] for row in rows.values() if row.get("limits")), None)
    if limits:
        axis.axvline(limits["seconds"] / limits["bare_seconds"], color="#222222", linewidth=1, linestyle="--")
    axis.set_yticks(range(len(ways)), [NAMES.get(way, way).strip("*") for way in ways])
    axis.set_ylim(-0.6, len(ways) - 0.4)  # a last way without a bar needs its room, too
    axis.set_xscale("log")
    most = max([row["times_bare"] for row in rows.values() if good(row)] + [2])
    axis.set_xlim(0.8, most * 2)
    axis.set_title(f"{workload.name}, budget {matrix.share_text(share)} of the peak: time of a step, times bare (dashed: the limit)", fontsize=9,
                   loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
