"""`spillway probe` on a real GPU; see probe.sh.

Its figures are kept in the result; judged is only what holds on every machine: no way over the link is faster than the link, and
HBM is faster than it. Then a run and a replay must go by them.
"""
import json
import sys

from harness import GIB, MIB, expect, main

PROBE_BYTES = 1 * GIB  # managed memory at a time is half of that
NOISE = 1.1


def last_object(text):
    """The JSON object that ends a log."""
    return json.loads(text[text.index("\n{") + 1:])


def measure(topic, environment):
    report = last_object(topic.run([topic.build / "bin/spillway", "probe", "--json"], 30, environment=environment))
    topic.figures.update(report)
    costs, copies = report["costs"], report["figures"]
    expect(not report["simulated"], "this is the simulated device")
    expect(report["kept_in"], "the costs were not kept")
    for key, most in {"link_in": "copy_in", "move_in": "copy_in", "fault_in": "copy_in", "link_out": "copy_out", "move_out": "copy_out",
                      "link_both": "copy_both"}.items():
        expect(costs[key] <= copies[most] * NOISE, f"{key} is {costs[key]:.3g} bytes/s, more than the link's {most} of {copies[most]:.3g}")
    expect(copies["copy_both"] <= (copies["copy_in"] + copies["copy_out"]) * NOISE, "both ways at once are faster than each alone")
    expect(costs["hbm"] > costs["link_in"], f"HBM ({costs['hbm']:.3g}) is slower than the link ({costs['link_in']:.3g})")
    expect(costs["move_out_first"] <= costs["move_out"] * NOISE, "host pages cost nothing to make")


def goes_by_it(topic, environment):
    trace = topic.work / "probe.swt"
    trace.unlink(missing_ok=True)
    topic.run([topic.build / "bin/spillway", "run", "--device-budget", str(768 * MIB), "--trace", trace, "--",
               topic.build / "examples/train_adam", "--layers", "12", "--width", "1024", "--steps", "3", "--verify", "0"], 60,
              environment=environment)
    replayed = last_object(topic.run([topic.build / "bin/spillway", "replay", "--json", trace], 60))
    expect(replayed["costs"] == "as probed on the machine that recorded", f"the run went by costs that are {replayed['costs']}")


def steps_of(topic, arguments):
    environment = {"XDG_CACHE_HOME": str(topic.work / "cache")}
    return [("measure", measure, topic, environment), ("goes_by_it", goes_by_it, topic, environment)]


if __name__ == "__main__":
    sys.exit(main("probe", __doc__, PROBE_BYTES, steps_of))
