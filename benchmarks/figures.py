"""From the lines of a run to figures: medians and spreads, whether results agree, what the hardware allows. Pure functions."""
import json
import math
import statistics

STEADY = 0.1  # a run is steady once its steps stay this near to their median


def read_lines(text):
    """What a workload printed, as {"describe", "steps", "finish", "out_of_memory", "link"}; other output is passed over, and so
    is a last line that was cut off."""
    run = {"describe": None, "steps": [], "finish": None, "out_of_memory": None, "link": None}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            fields = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "step" in fields:
            run["steps"].append(fields)
        for key in ("describe", "finish", "out_of_memory", "link"):
            if key in fields:
                run[key] = fields[key]
    return run


def quartiles(values):
    """First and third, by linear interpolation between the sorted values."""
    ordered = sorted(values)
    def at(share):
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
    return at(0.25), at(0.75)


def summary(values):
    """Median, spread and number of the values, or None if there are none."""
    if not values:
        return None
    first, third = quartiles(values)
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "first_quartile": first,
            "third_quartile": third, "count": len(values)}


def plain_steps(run):
    return [step for step in run["steps"] if not step.get("name")]


def measured_seconds(run):
    """Times of the measured steps. A run that ended in its warm-up gives its last step, and says that it was cut short."""
    steps = plain_steps(run)
    measured = [step["seconds"] for step in steps if not step["warmup"]]
    if measured:
        return measured, False
    return [step["seconds"] for step in steps[1:][-1:]], True


def steady_after(run):
    """The number of steps after which medians of three stay within a tenth of the measured steps' median; None: never."""
    times = [step["seconds"] for step in plain_steps(run)]
    measured, _ = measured_seconds(run)
    if len(times) < 3 or not measured:
        return None
    goal = statistics.median(measured)
    rolling = [statistics.median(times[at:at + 3]) for at in range(len(times) - 2)]
    after = len(rolling)
    while after > 0 and abs(rolling[after - 1] - goal) <= STEADY * goal:
        after -= 1
    return after if after < len(rolling) else None


def named_seconds(run):
    """Times of steps that are of another kind, by name: the prefill of a decoding run."""
    named = {}
    for step in run["steps"]:
        if step.get("name"):
            named.setdefault(step["name"], []).append(step["seconds"])
    return {name: statistics.median(values) for name, values in named.items()}


def numbers(value):
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [value]


def agreement(expected, got):
    """Steps compared and the largest relative difference of their results; infinite where their shapes differ or one is no number."""
    largest, compared = 0.0, 0
    for mine, other in zip(expected["steps"], got["steps"]):
        left, right = numbers(mine["result"]), numbers(other["result"])
        compared += 1
        if len(left) != len(right):
            return {"compared": compared, "largest_difference": math.inf}
        for a, b in zip(left, right):
            if a == b:
                continue
            scale = max(abs(a), abs(b))
            difference = abs(a - b) / scale
            largest = max(largest, math.inf if math.isnan(difference) else difference)
    return {"compared": compared, "largest_difference": largest}


def limits(bare_seconds, needed_bytes, budget_bytes, touched_bytes, writes, link):
    """What no placement can beat: the step as it is where all fits, and the link's time for the bytes that must cross.

    Of `needed_bytes`, those above the budget are outside when a step begins; a step that touches all of it has to bring in so many bytes,
    and if it writes them, to send so many out. A step that touches a part of it, at random, meets that share of them. `link`: bytes a second
    `in`, `out` and `both`, as pinned copies reach them.
    """
    over = max(0, needed_bytes - budget_bytes)
    share = 1.0 if touched_bytes is None or needed_bytes == 0 else min(1.0, touched_bytes / needed_bytes)
    inward = over * share
    outward = inward if writes else 0
    link_seconds = max(inward / link["in"], outward / link["out"], (inward + outward) / link["both"]) if link else 0.0
    return {"bytes_in": int(inward), "bytes_out": int(outward), "link_seconds": link_seconds, "bare_seconds": bare_seconds,
            "seconds": max(bare_seconds, link_seconds)}


def units_in_step(launches, steps, iteration_launches):
    """How many of the trace's iterations make one step of the program: a whole number, or one over one. Where no iteration was found
    (0), the unit is a launch.

    Launches before the first step are counted among the steps': they are few.
    """
    if iteration_launches == 0:
        return launches / steps
    ratio = launches / steps / iteration_launches
    return float(round(ratio)) if ratio >= 0.75 else 1.0 / max(1, round(1 / ratio))


def prediction(expected, launches, steps, measured):
    """What `spillway plan --json` expected, as time of a step of the program, against what was measured (None: nothing yet)."""
    if not launches or not steps or not expected.get("seconds"):
        return {"seconds": None, "error": None}
    units = units_in_step(launches, steps, expected["iteration_launches"])
    seconds = expected["seconds"] * units
    return {"seconds": seconds, "units_in_step": units, "fits": expected["fits"], "least_seconds": expected["least_seconds"] * units,
            "error": (seconds - measured) / measured if measured else None}
