"""The compatibility matrix on a real GPU; see frameworks.sh.

Each program (matrix_programs.py) runs bare, and then under Spillway at half of its bare peak; its rows are judged by
row_evaluation.py from its results and from its traces. Several programs run at a time. Then graphs, alone, in turn with the mode
`demand` (--pairs); then programs that fit, with and without Spillway in turn: figures, which decide nothing. With --two, the rows
that need two GPUs. What is not installed is said to be so, and is no pass.
"""
import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

import matrix_programs
import row_evaluation
from harness import GIB, MIB, Failure, Topic, add_arguments, expect, make_topic

# Host memory that each program may spill into, which bounds the managed memory that it can make.
HOST_BUDGET = 6 * GIB
RETRY_HOST_BUDGET = 1 * GIB  # so that the first batches do not fit
LEAST_BUDGET = 64 * MIB
AMPLE = 4  # budget of a program that takes three quarters of what it sees, in what it needs
PACKAGES = ["torch", "triton", "jax", "cupy", "numba", "onnxruntime", "onnx"]
GIVE_UP_BEFORE = 12  # seconds before the deadline in which nothing new is started


class Run:
    """What one process, with its children, left behind."""

    def __init__(self, process, text, seconds):
        self.code, self.process, self.text, self.seconds = process.returncode, process.pid, text, seconds
        self.trace, self.stats = None, {}
        self.rows = row_evaluation.parse_results(text)


class Matrix(Topic):
    def __init__(self, name, arguments):
        super().__init__(name, arguments)
        self.lock = threading.Lock()
        self.pairs = arguments.pairs
        self.traces = self.work / name
        shutil.rmtree(self.traces, ignore_errors=True)
        self.traces.mkdir(parents=True)
        self.result.update(rows={}, timings={}, not_run=[])
        self.installed = {}

    def left(self):
        return self.deadline - time.monotonic()

    def process(self, name, command, limit, environment):
        """Runs a command whose output goes into NAME.log; a time-out ends all that it started, and is a failure."""
        limit = min(limit, self.left())
        expect(limit > 3, "not run: the time limit of the topic is used up")
        path = self.traces / f"{name}.log"
        start = time.monotonic()
        with open(path, "w") as file:
            file.write("$ " + " ".join(command) + "\n")
            file.flush()
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=self.traces,
                                       start_new_session=True, env={**os.environ, **environment})
            try:
                process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                end_all(process)
                raise Failure(f"{name}: took longer than {limit:.0f} s; see {path}") from None
        return Run(process, path.read_text(errors="replace"), time.monotonic() - start)

    def bare(self, program):
        return self.process(f"{program.name}.bare", list(program.command), program.limit,
                            {**self.environment_of(program), **program.bare_environment})

    def environment_of(self, program):
        """Compiled kernels are kept where the next run of the same program finds them."""
        cache = self.work / "caches"
        return {"TRITON_CACHE_DIR": str(cache / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
                "CUPY_CACHE_DIR": str(cache / "cupy"), **program.environment}

    def shimmed(self, program, kind, budget, mode="", flags=(), host_budget=HOST_BUDGET):
        """A run under Spillway with a trace for each process; `budget` None: none is set."""
        folder = self.traces / f"{program.name}.{kind}"
        folder.mkdir()
        options = ["--trace", str(folder / ("rank.%r.swt" if program.policy else "%p.swt")), "--host-budget", str(int(host_budget))]
        if budget is not None:
            options += ["--device-budget", str(int(budget))]
        if program.policy:
            options += ["--policy", program.policy]
        if mode or self.mode:
            options += ["--mode", mode or self.mode]
        command = [str(self.build / "bin/spillway"), "run", *options, "--", *program.command, *flags]
        run = self.process(f"{program.name}.{kind}", command, program.limit * 1.5, self.environment_of(program))
        run.stats = self.stats_of(folder)
        run.trace = row_evaluation.add_up(row_evaluation.traces_of(run.stats), run.process)
        return run

    def stats_of(self, folder):
        """Of all traces in a folder."""
        if not any(folder.glob("*.swt")):
            return {"traces": []}
        command = [str(self.build / "bin/spillway"), "stats", "--json", "--by", "kernel", "--top", "1000", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        try:
            stats = json.loads(done.stdout)
        except ValueError:
            raise Failure(f"spillway stats {folder}: exit code {done.returncode}: {done.stderr.strip()}") from None
        stats["problem"] = done.stderr.strip() if done.returncode else ""  # a trace among them that cannot be read
        return stats

    # --- one program -----------------------------------------------------------------------------------------------------

    def publish(self, program, row, entry):
        framework, what = program.rows[row]
        name = program.name if len(program.rows) == 1 else f"{program.name}.{row}"
        entry = {"framework": framework, "what": what, "expectation": program.expectation, **entry}
        with self.lock:
            self.result["rows"][name] = entry
            list_of = {"pass": self.passed, "fail": self.failed}.get(entry["result"])
            if list_of is not None:
                list_of.append(name)
            elif entry["result"] == "not run":
                self.result["not_run"].append(name)
            problems = "; ".join(entry.get("problems", []))
            note = problems or "; ".join(entry.get("remarks", []))
            print(f"{entry['result'].upper():4} {name}: {what} [{entry.get('outcome', '')}]" + (f": {note}" if note else ""), flush=True)
            self.save()

    def missing(self, program):
        return [package for package in program.needs if not self.installed.get(package)]

    def each_row(self, program, entry):
        for row in program.rows:
            self.publish(program, row, dict(entry))

    def matrix_program(self, program):
        """Runs a program bare and under Spillway, and publishes its rows."""
        missing = self.missing(program)
        if missing:
            return self.each_row(program, {"result": "not installed", "outcome": "not installed", "remarks": [", ".join(missing)]})
        if self.left() < GIVE_UP_BEFORE:
            return self.each_row(program, {"result": "not run", "remarks": ["the time limit was used up"]})
        runs, problem = {}, ""
        try:
            self.run_kinds(program, runs)
        except Exception as error:  # a time-out, a trace that cannot be read: the rows' failure
            problem = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
        for row in program.rows:
            self.publish(program, row, self.entry(program, row, runs, problem))

    def run_kinds(self, program, runs):
        runs["bare"] = bare = self.bare(program)
        good = [row for row in bare.rows.values() if "values" in row]
        if not good:
            return
        peak = max(row["peak_bytes"] for row in good)
        fits = program.expectation == row_evaluation.FITS
        share = AMPLE if program.expectation == row_evaluation.SEES_BUDGET else 0.5
        runs["budget"] = budget = None if fits else max(LEAST_BUDGET, int(peak * share))
        host = RETRY_HOST_BUDGET if program.expectation == row_evaluation.RETRIES else HOST_BUDGET
        runs["half"] = half = self.shimmed(program, "fits" if fits else "half", budget, host_budget=host)
        refused = any("error" in row for row in half.rows.values())
        if program.expectation == row_evaluation.SPILLS_OR_REFUSES and refused:
            runs["generous"] = self.shimmed(program, "generous", 2 * peak + GIB)
        if program.expectation == row_evaluation.EXPORTS:
            runs["generous"] = self.shimmed(program, "generous", None)  # a budget would make a part of it managed
        if program.demand:
            self.run_in_turn_with_demand(program, runs, budget)

    def run_in_turn_with_demand(self, program, runs, budget):
        """The row's own run is the first of its kind; more pairs as long as there is time, the order changing with each."""
        runs["demand"] = self.shimmed(program, "demand", budget, mode="demand", flags=program.demand)
        took = runs["half"].seconds + runs["demand"].seconds
        for pair in range(2, self.pairs + 1):
            if self.left() < 1.3 * took + GIVE_UP_BEFORE:
                return
            for kind in ("demand", "half") if pair % 2 == 0 else ("half", "demand"):
                demand = kind == "demand"
                runs[f"{kind}.{pair}"] = self.shimmed(program, f"{kind}.{pair}", budget, mode=kind if demand else "",
                                                      flags=program.demand if demand else ())

    def entry(self, program, row, runs, problem):
        """A row of the result file."""
        of = lambda kind: runs[kind].rows.get(row) if kind in runs else None
        trace = lambda kind: runs[kind].trace if kind in runs else None
        log = runs["half"].text if "half" in runs else ""
        verdict = row_evaluation.judge(program.expectation, of("bare"), of("half"), trace("half"), log, program.tolerance, of("generous"),
                                       trace("generous"))
        if problem:
            verdict["result"] = "fail"
            verdict["problems"].insert(0, problem)
        entry = dict(verdict)
        if verdict["result"] == "not installed":
            return entry
        bare, half = of("bare"), of("half")
        if bare and "values" in bare:
            entry.update(version=bare.get("version", ""), path=bare.get("path", ""), bare_peak_bytes=bare["peak_bytes"],
                         values=len(bare["values"]), bare_figures=figures_of(bare))
            if half and "values" in half:
                entry["worst_difference"] = row_evaluation.worst_difference(bare["values"], half["values"])
                entry["figures"] = figures_of(half)
        if half and half.get("bytes_limit") and runs.get("budget"):
            real = program.expectation == row_evaluation.SEES_BUDGET
            entry["limit_share"] = half["bytes_limit"] / (runs["budget"] + (0 if real else HOST_BUDGET))
            what = "the device budget" if real else "device and host budget together"
            entry["remarks"].append(f"its own limit is {entry['limit_share']:.0%} of what it sees, {what}")
        entry.update(budget_bytes=runs.get("budget"), trace=trace("half"), generous_trace=trace("generous"),
                     seconds={kind: round(run.seconds, 1) for kind, run in runs.items() if isinstance(run, Run)},
                     exit_codes={kind: run.code for kind, run in runs.items() if isinstance(run, Run)})
        if "demand" in runs:
            self.compare_with_demand(entry, row, runs, program.tolerance)
        if program.policy:
            self.check_ranks(entry, runs)
        self.check_exit_codes(entry, runs)
        self.check_stats(entry, runs)
        if entry["problems"]:
            entry["result"] = "fail"
            for kind in ("bare", "half", "generous"):
                if kind in runs:
                    entry[f"{kind}_output"] = runs[kind].text.splitlines()[-25:]
        return entry

    @staticmethod
    def check_stats(entry, runs):
        for kind, run in runs.items():
            problem = run.stats.get("problem") if isinstance(run, Run) and run.trace else ""
            if problem:
                entry["problems"].append(f"{kind}: spillway stats: {problem}")

    @staticmethod
    def check_exit_codes(entry, runs):
        """A process whose rows are all well ends well too; one that left no row says how it ended."""
        for kind, run in runs.items():
            if isinstance(run, Run) and run.code != 0 and not any("error" in row for row in run.rows.values()):
                entry["problems"].append(f"{kind}: exit code {run.code}")

    def compare_with_demand(self, entry, row, runs, tolerance):
        """Graph rows: that graph launches are in the trace with what they touched, and the ratio to `demand`, as a figure."""
        found = {"bare": [], "half": [], "demand": []}
        for kind, run in runs.items():
            if isinstance(run, Run) and "values" in run.rows.get(row, {}):
                found[kind.split(".")[0]].append(run.rows[row])
        traced = runs["half"].trace if "half" in runs else None
        if traced and traced["graph_launches"] == 0:
            entry["problems"].append("at half budget: no graph launch is in the trace")
        elif traced and traced["spilled_bytes"] and not traced["on_host_touched_by_graphs_bytes"]:
            entry["problems"].append("at half budget: no touch of a graph's kernels is in the trace")
        for kind, what in (("half", "at half budget"), ("demand", "under demand")):
            for result in found[kind] if found["bare"] else []:
                values, count = found["bare"][0]["values"], len(result["values"])
                if row_evaluation.worst_difference(values[:count], result["values"]) > tolerance:
                    entry["problems"].append(f"{what}: results differ from bare")
        times = {kind: [result["step_ms"] for result in results if result.get("step_ms")] for kind, results in found.items()}
        entry["step_ms_of_runs"] = {"bare": times["bare"], "adaptive": times["half"], "demand": times["demand"]}
        entry["step_ms"] = steps = {kind: statistics.median(values) for kind, values in entry["step_ms_of_runs"].items() if values}
        if len(steps) == 3:
            entry["pairs"] = min(len(times["half"]), len(times["demand"]))
            entry["demand_ratio"] = steps["demand"] / steps["adaptive"]
            entry["remarks"].append(f"{steps['bare']:.1f} ms a step bare, {steps['adaptive']:.1f} at half budget, {steps['demand']:.1f} with "
                                    f"demand: {entry['demand_ratio']:.1f} times faster than that (medians of {entry['pairs']} in turn)")

    def check_ranks(self, entry, runs):
        """Each rank has a trace of its own, and stats takes the folder as one run."""
        if "half" not in runs:
            return
        stats = runs["half"].stats
        ranks = sorted(str(trace["rank"]) for trace in row_evaluation.traces_of(stats) if trace["launches"])
        entry["ranks"], entry["one_run"] = ranks, stats.get("one_run")
        if ranks != ["0", "1"]:
            entry["problems"].append(f"traces with launches are of ranks {ranks}, 0 and 1 were expected")
        if not stats.get("one_run"):
            entry["problems"].append("spillway stats does not take the ranks' traces as one run")

    # --- timing ----------------------------------------------------------------------------------------------------------

    def timing(self, timing, pairs):
        """Step times of a program that fits, bare and under Spillway in turn: a figure, no verdict."""
        program = matrix_programs.Program(timing.name, timing.command, {}, environment=timing.environment, limit=timing.limit)
        missing = [package for package in timing.needs if not self.installed.get(package)]
        figures = {"command": " ".join(timing.command), "step_ms": {"bare": [], "spillway": []}}
        if missing:
            figures["not_installed"] = missing
        try:
            for pair in range(0 if missing else pairs):
                kinds = ("bare", "spillway") if pair % 2 == 0 else ("spillway", "bare")
                began = time.monotonic()
                for kind in kinds:
                    run = self.process(f"{timing.name}.bare", list(timing.command), timing.limit, self.environment_of(program)) \
                        if kind == "bare" else self.shimmed(program, f"{pair}", None)
                    row = next(iter(run.rows.values()), {})
                    expect(row.get("step_ms"), f"{timing.name}, {kind}: no step time: {row.get('error', 'no result')}")
                    figures["step_ms"][kind].append(row["step_ms"])
                    if kind == "spillway":
                        figures.update(launches=run.trace["launches"], spilled_bytes=run.trace["spilled_bytes"],
                                       managed_bytes=run.trace["managed_bytes"])
                if self.left() < 1.3 * (time.monotonic() - began) + GIVE_UP_BEFORE:
                    break
        except Exception as error:
            figures["problem"] = str(error)
        counts = [len(times) for times in figures["step_ms"].values()]
        figures["pairs"] = min(counts)
        if figures["pairs"]:
            medians = {kind: statistics.median(times) for kind, times in figures["step_ms"].items()}
            figures.update(medians_ms=medians, ratio=medians["spillway"] / medians["bare"])
            print(f"TIME {timing.name}: bare {medians['bare']:.3f} ms, under Spillway {medians['spillway']:.3f} ms a step: ratio "
                  f"{figures['ratio']:.4f} (medians of {figures['pairs']} interleaved pairs)", flush=True)
        else:
            print(f"TIME {timing.name}: no pair: {figures.get('problem') or figures.get('not_installed') or 'no time left'}", flush=True)
        self.result["timings"][timing.name] = figures
        self.save()

    def detect(self):
        """Which packages are there; importing them once also brings their files into memory."""
        code = ("import importlib, importlib.util, sys\n"
                "for name in sys.argv[1:]:\n"
                "    try:\n"
                "        print('HAS', name, getattr(importlib.import_module(name), '__version__', 'there'), flush=True)\n"
                "    except BaseException as error:\n"
                "        print('HAS NOT', name, repr(error), flush=True)\n")
        wait = [subprocess.Popen(["python3", "-c", code, name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for name in PACKAGES]
        for name, process in zip(PACKAGES, wait):
            try:
                text = process.communicate(timeout=min(120, self.left()))[0]
            except subprocess.TimeoutExpired:
                process.kill()
                text = ""
            found = re.search(rf"^HAS {name} (.*)$", text, flags=re.MULTILINE)
            self.installed[name] = found.group(1) if found else ""
        self.result["installed"] = self.installed
        print("installed: " + ", ".join(f"{name} {version or 'no'}" for name, version in self.installed.items()), flush=True)
        self.save()

    def finish(self):
        not_installed = [name for name, row in self.result["rows"].items() if row["result"] == "not installed"]
        not_run = self.result["not_run"]
        self.result.update(not_installed=not_installed)
        code = super().finish()
        print(f"{self.name}: {len(not_installed)} not installed {not_installed}, {len(not_run)} not run {not_run}")
        return 1 if not_run else code


def end_all(process):
    """Ends a process that has a session of its own. It is asked first: torchrun's ranks have sessions of theirs, and only it ends them."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=4)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def figures_of(row):
    return {key: value for key, value in row.items() if key not in ("values", "peak_bytes", "path", "version")}


def gpu_count():
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60).stdout
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def main():
    parser = argparse.ArgumentParser(prog="frameworks.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.set_defaults(limit=525)
    parser.add_argument("--two", action="store_true", help="the rows that need two GPUs, and no other")
    parser.add_argument("--jobs", type=int, default=5, help="programs at a time (default %(default)s)")
    parser.add_argument("--pairs", type=int, default=3, help="runs in turn: graphs with demand (at least 1), and where everything fits (0 leaves it out)")
    arguments = parser.parse_args()
    matrix = make_topic(Matrix, "frameworks.sh", "frameworks_two" if arguments.two else "frameworks", arguments)
    if matrix is None:
        return 1
    jobs = 1 if arguments.two else arguments.jobs
    try:
        # A program makes no more managed memory than both its budgets, twice for two ranks; half of a peak is 2 GiB at most, 3 GiB for the one
        # that runs alone.
        matrix.require_headroom(jobs * (HOST_BUDGET + 2 * GIB))
    except Failure as failure:
        print(f"frameworks.sh: {failure}", file=sys.stderr)
        return 1
    matrix.detect()
    chosen = lambda programs: [one for one in programs if not arguments.only or re.search(arguments.only, one.name)]
    if arguments.two:
        matrix.result["gpus"] = gpu_count()
        for program in chosen(matrix_programs.two_gpu_programs()):
            if matrix.result["gpus"] < 2:
                matrix.each_row(program, {"result": "not run", "remarks": ["there is only one GPU"]})
            else:
                matrix.matrix_program(program)
        return matrix.finish()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(matrix.matrix_program, program) for program in chosen(matrix_programs.programs(matrix.build))]:
            done.result()
    for program in chosen(matrix_programs.graph_programs()):
        matrix.matrix_program(program)
    for timing in chosen(matrix_programs.timings()) if arguments.pairs else []:
        matrix.timing(timing, arguments.pairs)
    return matrix.finish()


if __name__ == "__main__":
    sys.exit(main())
