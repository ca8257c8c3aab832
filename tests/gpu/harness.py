"""What every GPU topic shares: finding the build, running a command with a limit, sampling the card, PASS and FAIL lines,
the result file, and the main function. Standard library only; nothing here starts CUDA.

Safety: managed memory is oversubscribed only by Spillway's own device budget. `require_headroom` refuses to go on unless
what a step may turn into managed memory is less than half of the card's free memory: a driver that has to evict by itself
can hang the card for everyone on it.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import time

MIB = 1 << 20
GIB = 1 << 30
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failure(Exception):
    """One step went wrong; the text says what was expected and what came."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


def query_card(fields):
    """Values of nvidia-smi's --query-gpu fields for the first card, as text."""
    line = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--id=0"], check=True,
                          capture_output=True, text=True, timeout=60).stdout.splitlines()[0]
    return [value.strip() for value in line.split(",")]


class Topic:
    """One script's steps: each runs by itself, says PASS or FAIL, and leaves its figures in one result file."""

    def __init__(self, name, arguments):
        self.build = pathlib.Path(arguments.build).resolve()
        self.out = pathlib.Path(arguments.out).resolve()
        self.work = pathlib.Path(arguments.work).resolve()
        for folder in (self.out, self.work):
            folder.mkdir(parents=True, exist_ok=True)
        self.mode = arguments.mode
        self.name = name
        self.only = arguments.only
        self.deadline = time.monotonic() + arguments.limit
        self.failed = []
        self.passed = []
        model, driver, total, free = query_card("name,driver_version,memory.total,memory.free")
        self.card_bytes = int(total) * MIB
        self.result = {
            "topic": name, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": {"card": model, "driver": driver, "total_bytes": self.card_bytes, "free_bytes": int(free) * MIB,
                        "processors": os.cpu_count()},
            "steps": {},
        }

    def step(self, name, function, *arguments):
        """Runs one step; a failing one does not stop the rest. Returns what the function returned, or None."""
        if self.only and name != "headroom" and not re.search(self.only, name):
            return None
        figures = {"commands": []}
        self.result["steps"][name] = figures
        self.figures = figures
        start = time.monotonic()
        value = None
        try:
            expect(start < self.deadline, "not run: the time limit of the topic is used up")
            value = function(*arguments)
            figures["result"] = "pass"
            self.passed.append(name)
        except Exception as error:  # whatever it is, it is this step's failure
            figures["result"] = "fail"
            figures["error"] = f"{type(error).__name__}: {error}" if not isinstance(error, Failure) else str(error)
            self.failed.append(name)
        figures["seconds"] = round(time.monotonic() - start, 2)
        text = f"PASS {name}" if figures["result"] == "pass" else f"FAIL {name}: {figures['error']}"
        print(f"{text} ({figures['seconds']:.1f} s)", flush=True)
        self.save()
        return value

    def save(self):
        """Whole or not at all, so that a call that is ended leaves the last one; without the names of this machine's folders."""
        text = json.dumps(self.result, indent=1) + "\n"
        for place, name in ((self.work, "work"), (self.out, "out"), (self.build, "build/release"), (ROOT, "."), (sys.executable, "python3")):
            text = text.replace(f"{place}/" if name == "." else str(place), "" if name == "." else name)
        path = self.out / f"{self.name}.json"
        path.with_suffix(".part").write_text(text)
        path.with_suffix(".part").replace(path)

    def archive(self, most=15 * MIB):
        """Logs, traces and plans in one file beside the result, small ones first; what would make it larger than `most` is left out, and named."""
        path, held, left_out = self.out / f"{self.name}.tar.gz", 0, []
        files = sorted((file for file in self.work.rglob("*") if file.is_file()), key=lambda file: (file.stat().st_size, str(file)))
        with tarfile.open(path, "w:gz") as archive:
            for file in files:
                size = file.stat().st_size
                if held + size > most:
                    left_out.append(f"{file.relative_to(self.work)} ({size} bytes)")
                    continue
                held += size
                archive.add(file, f"{self.name}/{file.relative_to(self.work)}")
        self.result["left_out_of_archive"] = left_out

    def finish(self):
        if self.failed and "left_out_of_archive" not in self.result:
            self.archive()
        self.result["passed"], self.result["failed"] = len(self.passed), len(self.failed)
        self.save()
        print(f"{self.name}: {len(self.passed)} passed, {len(self.failed)} failed; figures in {self.out / (self.name + '.json')}")
        nothing_ran = not {*self.passed, *self.failed} - {"headroom"} and not self.failed
        if nothing_ran:
            print(f"{self.name}: no step matches --only {self.only}")
        return 1 if self.failed or nothing_ran else 0

    def require_headroom(self, planned_bytes):
        """Refuses to go on unless the managed memory a step may make is less than half of what the card has free."""
        free = int(query_card("memory.free")[0]) * MIB
        expect(planned_bytes < free / 2, f"refused: {planned_bytes / GIB:.1f} GiB of managed memory planned, and the card has "
               f"{free / GIB:.1f} GiB free; less than half of that is allowed")

    def run(self, command, limit, expected=0, environment=None, echo=""):
        """Runs a command; its output goes into a log in the work folder. Raises on a wrong exit code or a time-out. `echo`: lines that begin so
        are printed while it runs."""
        command = [str(word) for word in command]
        self.figures["commands"].append(shlex.join(command))
        limit = min(limit, max(5, self.deadline - time.monotonic()))
        number = sum(len(step["commands"]) for step in self.result["steps"].values())
        path = self.work / f"{self.name}-{number:03}.log"
        with open(path, "w") as file:
            file.write("$ " + shlex.join(command) + "\n")
            file.flush()
            # A session of its own, so that a time-out ends what the command started as well.
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=self.work, start_new_session=True,
                                       env={**os.environ, **(environment or {})})
            try:
                code = self.wait(process, limit, path, echo)
            except subprocess.TimeoutExpired:
                end_session(process)
                self.figures["output_tail"] = path.read_text(errors="replace").splitlines()[-20:]
                raise Failure(f"took longer than {limit:.0f} s: {shlex.join(command)}; see {path}") from None
            finally:
                end_session(process)  # when this script is ended, too
        text = path.read_text(errors="replace")
        if code != expected:
            lines = text.strip().splitlines()[1:]
            self.figures["output_tail"] = lines[-20:]
            raise Failure(f"exit code {code}, expected {expected}: {' | '.join(lines[-2:])}; see {path}")
        return text

    @staticmethod
    def wait(process, limit, path, echo):
        if not echo:
            return process.wait(timeout=limit)
        end, shown = time.monotonic() + limit, 0
        while True:
            try:
                code = process.wait(timeout=min(1, max(0.01, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                code = None
            lines = path.read_text(errors="replace").split("\n")[:-1]
            for line in lines[shown:]:
                if line.startswith(echo):
                    print(f"     {line}", flush=True)
            shown = len(lines)
            if code is not None:
                return code
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired(process.args, limit)

    def spillway(self, program, trace, budget=None, limit=120, extra=(), witness=None, echo=""):
        """Runs a program under `spillway run`; returns its output. `witness`: file for CUPTI's count of the page traffic."""
        trace.unlink(missing_ok=True)
        flags = ["--trace", trace, *extra]
        if budget is not None:
            flags += ["--device-budget", str(int(budget))]
        if self.mode and budget is not None:
            flags += ["--mode", self.mode]
        environment = {}
        if witness is not None:
            witness.unlink(missing_ok=True)
            environment = {"CUDA_INJECTION64_PATH": str(self.build / "lib/libunified_memory_witness.so"),
                           "UNIFIED_MEMORY_WITNESS": str(witness)}
        text = self.run([self.build / "bin/spillway", "run", *flags, "--", *program], limit, environment=environment,
                        echo=echo)
        expect(witness is None or witness.exists(), f"CUPTI's counters left no {witness}")
        return text

    def stats(self, trace):
        """Figures of a trace, from `spillway stats --json`."""
        expect(trace.exists(), f"there is no trace {trace}")
        command = [str(self.build / "bin/spillway"), "stats", "--json", str(trace)]
        self.figures["commands"].append(shlex.join(command))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0, f"spillway stats: exit code {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def add_arguments(parser):
    parser.add_argument("--build", default=os.environ.get("SPILLWAY_BUILD", str(ROOT / "build/release")),
                        help="build folder (default build/release)")
    parser.add_argument("--out", default=os.environ.get("OUT", str(ROOT / "build/gpu-results")), help="folder for the results")
    parser.add_argument("--work", default=str(ROOT / "build/gpu-work"), help="folder for traces, logs and programs' files")
    parser.add_argument("--mode", default=os.environ.get("SPILLWAY_TEST_MODE", ""), help="policy mode of the budgeted runs")
    parser.add_argument("--only", default="", help="run the steps whose names match this expression")
    parser.add_argument("--limit", type=float, default=460, help="seconds for the whole topic (default %(default)s)")


def end_session(process):
    """Ends a process that has a session of its own, with what it started, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_by_signal():
    """SIGTERM ends the script as an error would, so that what it has is written down."""
    def end(number, frame):
        sys.exit(128 + number)
    signal.signal(signal.SIGTERM, end)


def make_topic(kind, script, name, arguments):
    """A topic, or None with a line where there is no GPU to be asked."""
    try:
        return kind(name, arguments)
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        print(f"{script}: nvidia-smi does not answer ({error}): this needs an NVIDIA GPU", file=sys.stderr)
        return None


def main(name, description, planned_bytes, steps, add_flags=None, fixed_mode=None):
    """What the script of a topic does. `steps(topic, arguments)` returns what `Topic.step` takes, for each step in order; none is begun unless
    `planned_bytes` of managed memory are less than half of what the card has free. `fixed_mode`: in place of --mode."""
    parser = argparse.ArgumentParser(prog=f"{name}.sh", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    if add_flags:
        add_flags(parser)
    arguments = parser.parse_args()
    if fixed_mode is not None:
        arguments.mode = fixed_mode
    topic = make_topic(Topic, f"{name}.sh", name, arguments)
    if topic is None:
        return 1
    end_by_signal()
    topic.step("headroom", topic.require_headroom, planned_bytes)
    if not topic.failed:
        for step in steps(topic, arguments):
            topic.step(*step)
    return topic.finish()
