"""Stand-ins for what the runner starts: nvidia-smi, the `spillway` command, and workloads without a GPU."""
import os
import pathlib
import stat
import sys
import textwrap

NVIDIA_SMI = '''
import sys
fields = next(word for word in sys.argv if word.startswith("--query-gpu=")).split("=")[1].split(",")
values = {"name": "Stand-in card", "driver_version": "1.2", "memory.total": "143771", "memory.free": "FREE_MIB"}
print(", ".join(values[field] for field in fields))
'''

# Under `run` the program is slower by its mode; stats and plan answer with fixed figures.
SPILLWAY = '''
import json, os, pathlib, subprocess, sys, time
words = sys.argv[1:]
if words[0] == "run":
    at = words.index("--")
    flags, program = words[1:at], words[at + 1:]
    value = lambda name: flags[flags.index(name) + 1] if name in flags else None
    mode = value("--mode") or "adaptive"
    trace = pathlib.Path(value("--trace"))
    if mode == "arrival" and os.environ.get("FAKE_GATE"):
        pathlib.Path(os.environ["FAKE_GATE"]).touch()
    trace.write_text(json.dumps({"budget": int(value("--device-budget") or 0)}))
    sys.exit(subprocess.run(program, env={**os.environ, "FAKE_SLOWER": {"demand": "50", "adaptive": "2"}.get(mode, "3")}).returncode)
trace = json.loads(pathlib.Path(words[words.index("--json") + 1] if words[0] == "stats" else words[1]).read_text())
if words[0] == "stats":
    device = {"resident_peak": trace["budget"] * 9 // 10 - 30, "reserved": 30 if trace["budget"] else 0, "moved_in": 5, "moved_out": 5}
    print(json.dumps({"devices": [device], "launches": 400, "dropped_events": 0, "allocations": {"managed": {"bytes": 10}}}))
gate = os.environ.get("FAKE_GATE")  # plan waits for it, a run in mode arrival opens it
if words[0] == "plan":
    while gate and not os.path.exists(gate):
        time.sleep(0.05)
    pathlib.Path(words[words.index("-o") + 1]).write_text("# a plan")
    print(json.dumps({"iteration_launches": 10, "seconds": 0.0205, "least_seconds": 0.015, "fits": True}))
'''

WORKLOAD = '''
import os, sys, time
sys.path.insert(0, WORKLOADS)
import common

def run(arguments):
    clock = {"now": 0.0}
    slower = float(os.environ.get("FAKE_SLOWER", 4 if arguments.offload != "none" else 1))
    if arguments.offload != "none" and arguments.memory_limit < 700:
        raise RuntimeError("CUDA out of memory. Tried to allocate")
    meter = common.Meter(arguments, lambda: None, lambda: clock["now"])
    meter.describe("fake", None, True)
    def step(index):
        clock["now"] += 0.01 * slower * (3 if index < 2 else 1)
        if os.environ.get("FAKE_SLEEP") and slower == 3 and index == 5:
            time.sleep(60)
        if os.environ.get("FAKE_WRONG") and slower == 50:
            return 1.5
        return 1.0 / (index + 1)
    meter.run(step)
    meter.finish(1000 if arguments.offload == "none" else arguments.memory_limit, 900)

sys.exit(common.main(run, common.make_parser("A stand-in.", ("by_hand",))))
'''

LINK = '''
import json
print(json.dumps({"link": {"in": 50e9, "out": 50e9, "both": 90e9, "device_memory": 4e12}}))
'''


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(text).lstrip())
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def make(folder, workloads, free_mib=140000):
    """Lays them out: folder/path (put it first in PATH), folder/build (a build folder), folder/workloads."""
    folder = pathlib.Path(folder)
    program(folder / "path/nvidia-smi", NVIDIA_SMI.replace("FREE_MIB", str(free_mib)))
    program(folder / "build/bin/spillway", SPILLWAY)
    program(folder / "workloads/fake.py", WORKLOAD.replace("WORKLOADS", repr(str(workloads))))
    program(folder / "workloads/link.py", LINK)
    os.environ["PATH"] = f"{folder / 'path'}:{os.environ['PATH']}"
    return folder
