"""Side by side on one GPU: programs bare, under Spillway's modes, and with explicit offload code, under the same memory limit.

    benchmarks/run.sh --dry-run                                          # what would be run, in order, and what it should take
    benchmarks/run.sh --build build/release --out results --part 1 --limit 540
    benchmarks/run.sh --build build/release --out results --part 1 --resume results/benchmarks-part1.json

Three parts of nine minutes each are the default table, in the order of worth; --only and --shares choose other rows. A part always ends
within --limit and writes its JSON after every row; what did not fit into the time is listed in it, and --resume goes on with that. It leaves
two files: NAME.json, and NAME.tar.gz with logs, traces and plans. `benchmarks/report.py` makes tables and pictures of the JSON.

Every row is a process of its own with a limit in steps and seconds. Results of all rows are compared with the bare run's. The limit of a
row is a share of what the bare run took from the driver: a device budget under Spillway, whose peak is read from the trace and
includes Spillway's own memory; for explicit code PyTorch's per-process limit (or the limit of CuPy's pool), and the peak is what that
allocator took. Nothing here touches the card's clocks, power or modes.
"""
import argparse
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "tests" / "gpu"))

import figures
import matrix
from harness import GIB, Topic, add_arguments, end_by_signal, end_session, expect, make_topic

OUT_OF_MEMORY_CODE = 3  # of the workloads
RESERVE_SECONDS = 12  # kept for the last row's figures, the plans and the archive
LINK_SECONDS = 6


class Runner(Topic):
    def __init__(self, name, arguments):
        super().__init__(name, arguments)
        self.work = self.work / name
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.only = ""  # the rows were chosen already
        self.link = None
        self.bare = {}  # by workload: {"run", "median", "peak", "allocated", "describe"}
        self.shares = set()  # (workload, share) of all rows
        self.plans = {}  # by (workload, share, round): what `spillway plan` was asked, with launches and steps of the trace
        self.predictions = []  # the same of runs where all fits
        self.reserved = 0  # Spillway's own device memory, at most, by traces of runs under a budget
        self.result["topic"] = "benchmarks"
        self.result["command"] = shlex.join(["benchmarks/run.sh", *arguments.words])
        self.result["part"] = arguments.part
        self.result["not_run"] = []
        self.began = time.monotonic()

    def resume(self, file, rows):
        """Takes over what an earlier call has run, and returns the rows that are left. Traces are not kept over calls, so an adaptive row is run
        again where the plan made from it is missing."""
        earlier = json.loads(pathlib.Path(file).read_text())
        expect(earlier.get("topic") == "benchmarks", f"--resume {file}: is no result of benchmarks/run.sh")
        done = {name: row for name, row in earlier["steps"].items() if row.get("result") == "pass" and row.get("workload") in matrix.BY_NAME}
        again = {row.name.replace("/adaptive_plan", "/adaptive") for row in rows if row.way == "adaptive_plan" and row.name not in done}
        for row in rows:
            if row.name not in done or row.name in again:
                continue
            kept = self.result["steps"][row.name] = {**done[row.name], "resumed": True}
            self.passed.append(row.name)
            if row.kind == "bare" and row.workload.name not in self.bare:
                self.keep_bare(row, kept, kept["results"])
        self.result["resumed_from"] = {"command": earlier.get("command"), "date": earlier.get("date"), "link": earlier.get("link")}
        return [row for row in rows if row.name not in done or row.name in again]

    def left(self):
        return self.deadline - time.monotonic() - RESERVE_SECONDS

    def execute(self, command, limit):
        """Runs a command with standard output and error in files; returns (output, exit code or None after the limit, error tail)."""
        command = [str(word) for word in command]
        self.figures["commands"].append(shlex.join(command))
        number = sum(len(step["commands"]) for step in self.result["steps"].values())
        log = self.work / f"{self.name}-{number:03}.log"
        errors = log.with_suffix(".err")
        with open(log, "w") as out, open(errors, "w") as err:
            # A session of its own, so that the limit ends what the command started as well.
            process = subprocess.Popen(command, stdout=out, stderr=err, cwd=self.work, start_new_session=True)
            try:
                code = process.wait(timeout=max(1, limit))
            except subprocess.TimeoutExpired:
                code = None
            finally:
                end_session(process)  # after the limit, or when this runner is ended
        tail = errors.read_text(errors="replace").strip().splitlines()[-12:]
        return log.read_text(errors="replace"), code, tail

    def measure_link(self):
        text, code, tail = self.execute([sys.executable, HERE / "workloads/link.py"], min(60, self.left()))
        self.figures["error_tail"] = tail
        expect(code == 0, f"link.py ended with {code}: {' | '.join(tail[-2:])}")
        self.link = figures.read_lines(text)["link"]
        self.figures["link"] = self.result["link"] = self.link
        print("     " + ", ".join(f"{name} {rate / 1e9:.1f} GB/s" for name, rate in self.link.items()), flush=True)

    def program(self, row):
        pace = row.pace
        command = [sys.executable, HERE / "workloads" / row.workload.script, *row.workload.flags, "--warmup", pace.warmup, "--steps", pace.steps,
                   "--seconds", pace.seconds]
        return command

    def budget(self, row):
        peak = self.bare[row.workload.name]["peak"]
        extra = GIB if row.share == matrix.FITS else 0  # small programs: Spillway's own memory must fit as well
        return int(peak * row.share) + extra

    def run_row(self, row):
        kept = self.figures
        kept.update(workload=row.workload.name, what=row.workload.what, way=row.way, kind=row.kind, share=row.share, round=row.round)
        bare = self.bare.get(row.workload.name)
        expect(row.kind == "bare" or bare is not None, "not run: its bare run failed, so there is no peak to take a share of")
        planned = row.workload.planned_bytes if bare is None else int(1.25 * bare["peak"]) + 2 * GIB
        self.require_headroom(planned)
        command, trace, wrapped = self.program(row), None, []
        kept["estimate"] = row.estimate
        if row.share and row.way != "no_budget":
            kept["budget_bytes"] = budget = self.budget(row)
            kept["bare_peak_bytes"] = bare["peak"]
        if row.kind == "explicit":
            command += ["--offload", row.way, "--memory-limit", budget]
        if row.kind == "spillway":
            trace = self.work / (row.name.replace("/", "-").replace("%", "") + ".swt")
            wrapped = [self.build / "bin/spillway", "run", "--trace", trace]
            if row.way == "record":
                wrapped += ["--mode", "off", "--telemetry-sample", "100%"]
            elif row.way == "adaptive_plan":
                plan = self.plans.get((row.workload.name, row.share, row.round))
                expect(plan is not None, "not run: the adaptive row left no trace to plan from")
                expect(self.answer(plan, min(60, self.left() - row.estimate)) is not None, f"not run: spillway plan: {plan.get('error')}")
                wrapped += ["--policy", plan["file"]]
            elif row.way != "no_budget":
                wrapped += ["--device-budget", budget, "--mode", row.way]
            wrapped += ["--"]
        text, code, tail = self.execute([*wrapped, *command], min(row.limit_seconds, self.left()))
        run = figures.read_lines(text)
        kept["exit_code"], kept["error_tail"] = code, tail
        self.note_times(row, run)
        if trace is not None and trace.exists():
            try:
                self.note_trace(row, run, trace)
            except Exception:
                if code is not None:  # of a run that was ended, the trace may end anywhere
                    raise
        if run["out_of_memory"] or code == OUT_OF_MEMORY_CODE:
            kept["status"] = "out_of_memory"
            expect(row.kind == "explicit", f"out of memory: {run['out_of_memory']}")
            print(f"     {row.name}: does not fit into {budget / GIB:.1f} GiB", flush=True)
            return
        if code is None:
            kept["status"] = "timed_out"
            expect(kept.get("seconds_a_step"), f"ended after its limit without two steps: {' | '.join(tail[-2:])}")
        else:
            expect(code == 0, f"exit code {code}: {' | '.join(tail[-2:])}")
            kept["status"] = "ok"
        if row.kind == "bare":
            self.note_bare(row, run)
        self.compare(row, run)
        self.say(row)
        if row.way == "adaptive" and row.share != matrix.FITS:
            self.make_plan(row, trace)
        if row.way == "record":
            self.predict(row, trace)

    def note_times(self, row, run):
        kept = self.figures
        kept["describe"] = run["describe"]
        seconds, cut = figures.measured_seconds(run)
        kept["all_seconds"] = [step["seconds"] for step in figures.plain_steps(run)]
        kept["seconds_a_step"] = figures.summary(seconds)
        kept["cut_short"] = cut
        kept["steady_after"] = figures.steady_after(run)
        kept["named_seconds"] = figures.named_seconds(run)
        if run["finish"]:
            kept["finish"] = run["finish"]
            kept["peak_bytes"] = run["finish"]["peak_bytes"]
            kept["peak_by"] = "its allocator"

    def note_trace(self, row, run, trace):
        kept = self.figures
        stats = self.stats(trace)
        device = stats["devices"][0]
        if "budget_bytes" in kept:
            kept["peak_bytes"] = device["resident_peak"] + device["reserved"]
            self.reserved = max(self.reserved, device["reserved"])
            kept["peak_by"] = "the trace, with Spillway's own memory"
        kept["trace"] = {"bytes": trace.stat().st_size, "launches": stats["launches"], "dropped_events": stats["dropped_events"],
                         "resident_peak": device["resident_peak"], "reserved": device["reserved"], "moved_in": device["moved_in"],
                         "moved_out": device["moved_out"], "managed_bytes": stats["allocations"]["managed"]["bytes"]}

    def note_bare(self, row, run):
        kept = self.figures
        expect(run["finish"] and kept["seconds_a_step"], "it printed no steps or no end")
        if row.workload.name not in self.bare:
            kept["results"] = [step["result"] for step in run["steps"]]
            self.keep_bare(row, kept, kept["results"])

    def keep_bare(self, row, kept, results):
        self.bare[row.workload.name] = {"run": {"steps": [{"result": result} for result in results]}, "median": kept["seconds_a_step"]["median"],
                                        "peak": kept["finish"]["peak_bytes"], "allocated": kept["finish"]["allocated_bytes"],
                                        "describe": kept["describe"]}

    def compare(self, row, run):
        """Against the bare run: results, time, and what the hardware allows."""
        kept, bare = self.figures, self.bare[row.workload.name]
        kept["agreement"] = agreement = figures.agreement(bare["run"], run)
        allowed = row.workload.explicit_tolerance if row.kind == "explicit" else row.workload.tolerance
        agreement["allowed"] = allowed
        kept["correct"] = agreement["largest_difference"] <= allowed
        median = kept["seconds_a_step"]["median"]
        kept["times_bare"] = median / bare["median"]
        if "budget_bytes" in kept:
            about = bare["describe"]
            kept["limits"] = figures.limits(bare["median"], bare["allocated"], kept["budget_bytes"], about["touched_bytes"], about["writes"],
                                            self.link)
            kept["share_of_limit"] = kept["limits"]["seconds"] / median
            kept["within_budget"] = "peak_bytes" not in kept or kept["peak_bytes"] <= kept["budget_bytes"]
            plan = self.plans.get((row.workload.name, row.share, row.round))
            if row.way == "adaptive_plan" and plan and plan.get("figures"):
                kept["prediction"] = figures.prediction(plan["figures"], plan["launches"], plan["steps"], median)
        expect(kept["correct"], f"results differ from the bare run's by {agreement['largest_difference']:.2g} of them; {allowed:g} is allowed")
        expect(kept.get("within_budget", True), f"its peak of {kept.get('peak_bytes', 0) / GIB:.2f} GiB is over the budget")

    def ask_plan(self, trace, budget, file):
        """Starts `spillway plan` under this budget beside the rows that follow: a long trace takes it a while. The policy file goes to `file`."""
        command = [str(self.build / "bin/spillway"), "plan", str(trace), "--device-budget", str(budget), "-o", str(file), "--json"]
        self.figures["commands"].append(shlex.join(command))
        answer = file.with_suffix(".plan.json")
        with open(answer, "w") as out, open(file.with_suffix(".plan.err"), "w") as err:
            process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True)
        kept = self.figures
        return {"file": file, "answer": answer, "process": process, "budget": budget, "launches": kept["trace"]["launches"], "steps": len(kept["all_seconds"])}

    def answer(self, asked, patience):
        """What it expects, or None with the reason in `asked["error"]`."""
        if "figures" in asked or "error" in asked:
            return asked.get("figures")
        try:
            code = asked["process"].wait(timeout=max(0, patience))
        except subprocess.TimeoutExpired:
            asked["process"].kill()
            asked["process"].wait()
            asked["error"] = "it took too long"
            return None
        if code != 0:
            asked["error"] = asked["file"].with_suffix(".plan.err").read_text(errors="replace").strip()[-300:] or f"exit code {code}"
            return None
        asked["figures"] = json.loads(asked["answer"].read_text())
        return asked["figures"]

    def make_plan(self, row, trace):
        file = trace.with_suffix(".toml")
        self.plans[(row.workload.name, row.share, row.round)] = {"row": self.figures, **self.ask_plan(trace, self.figures["budget_bytes"], file)}

    def predict(self, row, trace):
        """From a run where all fits: what each budget would cost, before any run under it. That run has no memory of Spillway's own in it, so it
        is taken off the budget, as far as another row has shown it."""
        for share in sorted({share for name, share in self.shares if name == row.workload.name}, reverse=True):
            budget = int(self.bare[row.workload.name]["peak"] * share) - self.reserved
            file = trace.with_name(f"{trace.stem}-{matrix.share_text(share).rstrip('%')}.toml")
            self.predictions.append({"row": self.figures, "share": matrix.share_text(share), **self.ask_plan(trace, budget, file)})

    def note_plans(self):
        """What was expected goes into the rows that the traces came from."""
        for plan in self.plans.values():
            kept = plan["row"]
            expected = self.answer(plan, min(60, self.left() + RESERVE_SECONDS / 2))
            kept["plan"] = expected or {"error": plan["error"]}
            if expected:
                measured = kept["seconds_a_step"]["median"]
                kept["prediction"] = figures.prediction(expected, plan["launches"], plan["steps"], measured)
        for plan in self.predictions:
            expected = self.answer(plan, min(60, self.left() + RESERVE_SECONDS / 2))
            found = figures.prediction(expected, plan["launches"], plan["steps"], None) if expected else {"seconds": None, "why": plan["error"]}
            plan["row"].setdefault("predictions", {})[plan["share"]] = {**found, "budget_bytes": plan["budget"], "plan": expected}

    def say(self, row):
        kept = self.figures
        text = f"     {row.name}: {1e3 * kept['seconds_a_step']['median']:.2f} ms a step, {kept['times_bare']:.2f} times bare"
        if "share_of_limit" in kept:
            text += f", {100 * kept['share_of_limit']:.0f}% of what the hardware allows"
        print(text, flush=True)

    def all_rows(self, rows):
        self.step("link", self.measure_link)
        waiting = list(rows)
        while waiting:
            # A row whose plan is still being made lets the next one go first.
            row = waiting.pop(next((place for place, row in enumerate(waiting) if self.has_its_plan(row)), 0))
            if self.left() < row.estimate:
                self.result["not_run"].append(row.name)
                continue
            print(f"[{time.monotonic() - self.began:3.0f} s gone, {max(0, self.left()):3.0f} s left] {row.name}, about {row.estimate:.0f} s", flush=True)
            self.step(row.name, self.run_row, row)
        self.note_plans()

    def has_its_plan(self, row):
        plan = self.plans.get((row.workload.name, row.share, row.round)) if row.way == "adaptive_plan" else None
        return plan is None or plan["process"].poll() is not None

    def close(self, rows):
        """Whatever ended the call: what was not run is said, and what there is lies in two files."""
        for asked in [*self.plans.values(), *self.predictions]:
            self.answer(asked, 0)  # none goes on beyond this call
        self.result["not_run"] = [row.name for row in rows if row.name not in self.result["steps"]]
        if self.result["not_run"]:
            print("not run, for lack of time: " + ", ".join(self.result["not_run"]))
        self.archive()
        return self.finish()


def seconds_of(file):
    """What rows took in an earlier call, by name."""
    return {name: row["seconds"] for name, row in json.loads(pathlib.Path(file).read_text())["steps"].items() if row.get("seconds")}


def show_plan(arguments):
    """What would be run and what it should take, part by part; what does not fit into --limit by these estimates is marked."""
    known = seconds_of(arguments.resume) if arguments.resume else {}
    chosen = bool(arguments.part or arguments.only or arguments.shares or arguments.rounds > 1)
    for part in [arguments.part] if chosen else matrix.PARTS:
        rows = matrix.plan(part, arguments.only, arguments.shares, arguments.rounds)
        at, late, late_rows = LINK_SECONDS, 0, 0
        print(f"part {part}, --limit {arguments.limit:.0f}:" if part else f"--limit {arguments.limit:.0f}:")
        print(f"  {'':>5} {LINK_SECONDS:4.0f} s  link")
        for row in rows:
            seconds = known.get(row.name, row.estimate)
            fits = at + seconds <= arguments.limit - RESERVE_SECONDS
            print(f"  {at:5.0f} {seconds:4.0f} s  {row.name}{'' if fits else '  (only if time is left)'}")
            at, late, late_rows = (at + seconds, late, late_rows) if fits else (at, late + seconds, late_rows + 1)
        print(f"  {at:5.0f} s: {len(rows) - late_rows} rows; {late_rows} more, of {late:.0f} s, if time is left")


def parse(words):
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.set_defaults(limit=float(matrix.PART_SECONDS))
    parser.add_argument("--part", type=int, choices=tuple(matrix.PARTS), help="a third of the default table (default: all of it)")
    parser.add_argument("--shares", help="budgets in place of the default ones, as percentages of the bare peak: 100,80,65,50,35")
    parser.add_argument("--rounds", type=int, default=1, help="how often the ways are run in turn (default %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="print the rows with what they should take, and run nothing")
    parser.add_argument("--resume", metavar="FILE", help="take over the rows that this result has, and run the others")
    arguments = parser.parse_args(words)
    arguments.words = words
    arguments.mode = ""
    if arguments.shares:
        try:
            arguments.shares = tuple(float(share) / 100 for share in arguments.shares.split(","))
        except ValueError:
            parser.error(f"--shares {arguments.shares} is no list of percentages such as 80,50")
        if not all(0 < share <= 1 for share in arguments.shares):
            parser.error("--shares must be from 1 to 100")
    if arguments.resume and not pathlib.Path(arguments.resume).is_file():
        parser.error(f"--resume {arguments.resume}: there is no such file")
    return arguments


def main(words):
    arguments = parse(words)
    if arguments.dry_run:
        show_plan(arguments)
        return 0
    rows = matrix.plan(arguments.part, arguments.only, arguments.shares, arguments.rounds)
    if not rows:
        print(f"no row matches --only {arguments.only}; see --dry-run")
        return 2
    end_by_signal()
    runner = make_topic(Runner, "run.sh", f"benchmarks-part{arguments.part}" if arguments.part else "benchmarks", arguments)
    if runner is None:
        return 1
    runner.shares = {(row.workload.name, row.share) for row in rows if row.share}
    try:
        runner.all_rows(runner.resume(arguments.resume, rows) if arguments.resume else rows)
    finally:
        code = runner.close(rows)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
