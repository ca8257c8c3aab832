"""What the workloads share: flags, the loop over steps, and the lines they print.

Each workload prints lines of JSON on standard output, flushed one by one, so that a run that is ended early still tells what it did:
first {"describe": ...}, then {"step": ...} for each step, and last {"finish": ...}. A step's time is taken by the clock of the host
from an idle device to an idle device. Nothing here needs a GPU; the libraries come in through arguments.
"""
import argparse
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace
MIB = 1 << 20
GIB = 1 << 30
# The models of the examples are used as they are.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch"))


def make_parser(description, offloads=()):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10, help="measured steps (default %(default)s)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0,
                        help="no step is begun later than this; half of it ends the warm-up (default: no limit)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory-limit", type=int, default=0, help="bytes of device memory for the explicit code (default: no limit)")
    parser.add_argument("--offload", choices=("none", *offloads), default="none", help="explicit offload code (default %(default)s)")
    return parser


def plain(value):
    """A result as JSON can hold it: a number, or a list of them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


class Meter:
    """Runs the steps and prints their lines."""

    def __init__(self, arguments, synchronize, clock=time.perf_counter, write=None):
        self.arguments = arguments
        self.synchronize = synchronize
        self.clock = clock
        self.write = write or (lambda text: print(text, flush=True))
        self.began = clock()

    def line(self, **fields):
        self.write(json.dumps(fields))

    def describe(self, workload, touched_bytes, writes, **more):
        """`touched_bytes`: what one step has to read or write of all that it keeps; None: all of it. `writes`: whether
        that is written as well, so that what does not fit crosses both ways."""
        settings = {key: value for key, value in vars(self.arguments).items()}
        self.line(describe={"workload": workload, "touched_bytes": touched_bytes, "writes": writes, "settings": settings, **more})

    def run(self, step, names=None):
        """`step(index)` does one step and returns its result. `names(index)`: a name for steps that are of another kind
        and do not count among the others, or None."""
        arguments = self.arguments
        self.synchronize()
        begin = self.clock()
        setup = begin - self.began
        warm = arguments.warmup
        index = measured = 0
        while measured < arguments.steps:
            elapsed = self.clock() - begin
            if arguments.seconds and index > 0 and elapsed > arguments.seconds:
                break
            if arguments.seconds and index > 0 and index < warm and elapsed > arguments.seconds / 2:
                warm = index
            start = self.clock()
            value = step(index)
            self.synchronize()
            seconds = self.clock() - start
            fields = {"step": index, "warmup": index < warm, "seconds": seconds, "result": plain(value)}
            name = names(index) if names else None
            if name:
                fields["name"] = name
            self.line(**fields)
            if index >= warm and not name:
                measured += 1
            index += 1
        self.setup = setup

    def finish(self, peak_bytes, allocated_bytes, **more):
        """`peak_bytes`: what was taken from the driver at most; `allocated_bytes`: what of it was in use at most."""
        self.line(finish={"peak_bytes": int(peak_bytes), "allocated_bytes": int(allocated_bytes), "setup_seconds": self.setup, **more})


def out_of_memory(error):
    """Whether this error, of any of the libraries, says that device memory ran out."""
    text = f"{type(error).__name__}: {error}".lower()
    return "out of memory" in text or "outofmemory" in text or "memory_allocation" in text


def main(run, parser):
    """Parses, runs, and says in a line of its own when the memory did not suffice (exit code 3)."""
    arguments = parser.parse_args()
    try:
        run(arguments)
        return 0
    except Exception as error:
        if not out_of_memory(error):
            raise
        print(json.dumps({"out_of_memory": str(error).splitlines()[0][:200]}), flush=True)
        return 3


def check_positive(parser, arguments, names):
    for name in names:
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(arguments, name)} must be at least 1")
