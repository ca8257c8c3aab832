"""The matrix's runner, with a stand-in for the card and for the command `spillway`, and programs of a line."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest
from unittest import mock

import frameworks
import matrix_programs
from matrix_programs import Program, Timing
from row_evaluation import FITS, SPILLS_OR_REFUSES

# Runs the program with SHIMMED set, leaves a trace file, and answers `stats` with STATS and what the flags were.
STAND_IN = r"""#!/usr/bin/env python3
import glob, json, os, sys
words = sys.argv[1:]
if words[0] == "run":
    flags, command = words[1:words.index("--")], words[words.index("--") + 1:]
    trace = flags[flags.index("--trace") + 1].replace("%p", "7").replace("%r", "0")
    open(trace, "w").write(json.dumps(flags))
    os.environ["SHIMMED"] = " ".join(flags)
    os.execvp(command[0], command)
stats = json.loads(os.environ["STATS"])
print(json.dumps(stats))
"""
CARD = """#!/bin/sh
case "$*" in
-L) echo "GPU 0: card";;
*name*) echo "card, 1, 100000, 99000";;
*) echo 99000;;
esac
"""


def says(result, shimmed=None):
    """A program that prints a result, and another one under Spillway; `exit` in it is its exit code."""
    code = ("import json, os, sys\n"
            f"result = json.loads({json.dumps(json.dumps(shimmed or result))} if 'SHIMMED' in os.environ else {json.dumps(json.dumps(result))})\n"
            "code = result.pop('exit', 0)\n"
            "print('RESULT ' + json.dumps({'row': 'a', **result}))\n"
            "print('out of memory: 1 over the device budget (memory.device_budget)' if code else '')\n"
            "sys.exit(code)\n")
    return (sys.executable, "-c", code)


GOOD = {"values": [1, 2], "peak_bytes": 400 << 20, "path": "native", "version": "1", "step_ms": 2.0}
ROWS = {"a": ("Framework", "what it does")}


class Runner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()
        for name, text in (("bin/spillway", STAND_IN), ("bin/nvidia-smi", CARD)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def run_matrix(self, programs=(), graphs=(), timings=(), two=(), flags=(), spilled=1, launches=40, graph_launches=0, ranks=None, gpus=1):
        kind = {"linear": {"count": 3, "bytes": 900 << 20}}
        graphs_row = [{"name": "(graphs and unknown)", "host_bytes": 5}]
        stats = {"launches": launches, "graph_launches": graph_launches, "dropped_events": 0, "dropped_frames": 0, "whole": True, "rank": "", "pid": 7,
                 "by_kernel": graphs_row if graph_launches else [],
                 "allocations": {"by_kind": kind, "managed": {"bytes": 9}, "device": {"bytes": 1}, "refused": {"count": 0}},
                 "devices": [{"device": 0, "on_host_peak": spilled, "moved_in": 0, "moved_out": 0, "resident_peak": 1, "plain": 1, "reserved": 1,
                              "budget": 200 << 20}]}
        if ranks:
            stats = {"traces": [{**stats, "rank": rank, "pid": 10 + number} for number, rank in enumerate(ranks)], "one_run": True}
        (self.folder / "bin/nvidia-smi").write_text(CARD.replace('echo "GPU 0: card"', "; ".join(['echo "GPU 0: card"'] * gpus)))
        arguments = ["frameworks.sh", "--build", str(self.folder), "--out", str(self.folder / "out"), "--work", str(self.folder / "work"),
                     "--pairs", "2", "--jobs", "2", *flags]
        environment = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "STATS": json.dumps(stats)}
        with mock.patch.object(matrix_programs, "programs", lambda build: list(programs)), \
                mock.patch.object(matrix_programs, "graph_programs", lambda: list(graphs)), \
                mock.patch.object(matrix_programs, "timings", lambda: list(timings)), \
                mock.patch.object(matrix_programs, "two_gpu_programs", lambda: list(two)), \
                mock.patch.object(frameworks, "PACKAGES", []), mock.patch.object(sys, "argv", arguments), \
                mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(io.StringIO()) as out:
            self.code = frameworks.main()
        self.out = out.getvalue()
        name = "frameworks_two" if "--two" in flags else "frameworks"
        return json.loads((self.folder / f"out/{name}.json").read_text())

    def test_a_program_runs_bare_and_at_half_of_its_peak(self):
        result = self.run_matrix([Program("one", says(GOOD), ROWS)])
        row = result["rows"]["one"]
        self.assertEqual((row["result"], row["outcome"], row["budget_bytes"], self.code), ("pass", "spilled", 200 << 20, 0))
        flags = json.loads((self.folder / "work/frameworks/one.half/7.swt").read_text())
        self.assertEqual(flags[flags.index("--device-budget") + 1], str(200 << 20))
        self.assertEqual(flags[flags.index("--host-budget") + 1], str(frameworks.HOST_BUDGET))

    def test_a_limit_that_the_program_takes_of_what_it_sees_is_a_figure(self):
        limit = (200 << 20) + frameworks.HOST_BUDGET
        result = self.run_matrix([Program("one", says({**GOOD, "bytes_limit": 3 * limit // 4}), ROWS)])
        self.assertEqual(result["rows"]["one"]["limit_share"], 0.75)
        self.assertIn("its own limit is 75% of what it sees", result["rows"]["one"]["remarks"][0])

    def test_a_wrong_result_fails_the_row_and_the_script(self):
        result = self.run_matrix([Program("one", says(GOOD, {**GOOD, "values": [1, 3]}), ROWS)])
        self.assertEqual((result["rows"]["one"]["result"], self.code), ("fail", 1))
        self.assertIn("half_output", result["rows"]["one"])

    def test_rows_of_one_process_are_judged_each(self):
        code = ("import json\n" + "\n".join(
            f"print('RESULT ' + json.dumps({json.dumps({'row': name, **GOOD})}))" for name in ("a", "b")))
        rows = {"a": ("F", "a"), "b": ("F", "b"), "c": ("F", "c")}
        result = self.run_matrix([Program("many", (sys.executable, "-c", code), rows)])
        self.assertEqual([result["rows"][f"many.{name}"]["result"] for name in "abc"], ["pass", "pass", "fail"])

    def test_no_budget_is_set_where_it_shall_fit(self):
        result = self.run_matrix([Program("one", says(GOOD), ROWS, FITS)], spilled=0)
        self.assertEqual(result["rows"]["one"]["result"], "pass")
        self.assertNotIn("--device-budget", json.loads((self.folder / "work/frameworks/one.fits/7.swt").read_text()))

    def test_a_refused_program_runs_again_with_enough(self):
        refused = {"error": "out of memory", "out_of_memory": True, "exit": 3}
        result = self.run_matrix([Program("one", says(GOOD, refused), ROWS, SPILLS_OR_REFUSES)])
        row = result["rows"]["one"]
        self.assertEqual(row["outcome"], "refused")
        self.assertIn("generous", row["seconds"])
        self.assertEqual(row["result"], "fail")  # this stand-in refuses with enough budget as well
        self.assertIn("with enough budget: out of memory", row["problems"])

    def test_an_exit_code_is_a_problem_of_rows_that_look_well(self):
        result = self.run_matrix([Program("one", says(GOOD, {**GOOD, "exit": 5}), ROWS)])
        self.assertIn("half: exit code 5", result["rows"]["one"]["problems"])

    def test_what_takes_too_long_is_ended_and_fails(self):
        result = self.run_matrix([Program("slow", ("sleep", "60"), ROWS, limit=4)])
        self.assertIn("took longer than 4 s", result["rows"]["slow"]["problems"][0])

    def test_what_a_slow_program_started_is_ended_with_it(self):
        number = self.folder / "child"
        code = ("import subprocess, sys, time\nchild = subprocess.Popen(['sleep', '600'])\n"
                f"open({str(number)!r}, 'w').write(str(child.pid))\ntime.sleep(600)")
        self.run_matrix([Program("slow", (sys.executable, "-c", code), ROWS, limit=4)])
        status = pathlib.Path(f"/proc/{number.read_text()}/stat")

        def state():
            try:
                return status.read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                return "gone"

        deadline = time.monotonic() + 60  # who was killed may still have to be scheduled for it
        while state() not in ("gone", "Z", "X") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertIn(state(), ("gone", "Z", "X"))

    def test_a_missing_package_is_no_pass_and_no_failure(self):
        result = self.run_matrix([Program("one", says(GOOD), ROWS), Program("two", says(GOOD), ROWS, needs=("no_such_package",))])
        self.assertEqual(result["rows"]["two"]["result"], "not installed")
        self.assertEqual((result["passed"], result["failed"], result["not_installed"], self.code), (1, 0, ["two"], 0))

    def test_rows_for_which_no_time_is_left_are_not_run_and_the_script_fails(self):
        result = self.run_matrix([Program("one", says(GOOD), ROWS)], flags=("--limit", "2"))
        self.assertEqual((result["rows"]["one"]["result"], result["not_run"], self.code), ("not run", ["one"], 1))

    def test_graphs_are_compared_with_demand(self):
        result = self.run_matrix(graphs=[Program("graph", says(GOOD), ROWS, demand=("--steps", "2"))], graph_launches=9, flags=("--pairs", "3"))
        row = result["rows"]["graph"]
        self.assertEqual((row["result"], row["demand_ratio"], row["pairs"]), ("pass", 1.0, 3))
        self.assertEqual(row["step_ms_of_runs"], {"bare": [2.0], "adaptive": [2.0] * 3, "demand": [2.0] * 3})
        self.assertIn("medians of 3 in turn", row["remarks"][-1])
        for kind in ("demand", "demand.2", "demand.3"):
            self.assertIn("demand", json.loads((self.folder / f"work/frameworks/graph.{kind}/7.swt").read_text()))
        for kind in ("half", "half.2", "half.3"):
            self.assertNotIn("demand", json.loads((self.folder / f"work/frameworks/graph.{kind}/7.swt").read_text()))

    def test_a_later_run_with_wrong_results_fails_the_row(self):
        code = ("import json, os, sys\n"
                f"result = {{**{GOOD!r}, 'values': [1, 9] if 'half.3' in os.environ.get('SHIMMED', '') else [1, 2]}}\n"
                "print('RESULT ' + json.dumps({'row': 'a', **result}))\n")
        result = self.run_matrix(graphs=[Program("graph", (sys.executable, "-c", code), ROWS, demand=("--steps", "2"))], graph_launches=9,
                                 flags=("--pairs", "3"))
        self.assertEqual(result["rows"]["graph"]["problems"], ["at half budget: results differ from bare"])

    def test_graphs_that_are_not_in_the_trace_fail(self):
        result = self.run_matrix(graphs=[Program("graph", says(GOOD), ROWS, demand=("--steps", "2"))])
        self.assertIn("no graph launch", " ".join(result["rows"]["graph"]["problems"]))

    def test_times_are_figures_of_interleaved_pairs(self):
        result = self.run_matrix([Program("one", says(GOOD), ROWS)], timings=[Timing("fits.one", says(GOOD, {**GOOD, "step_ms": 3.0}), ())])
        timing = result["timings"]["fits.one"]
        self.assertEqual((timing["pairs"], timing["ratio"], self.code), (2, 1.5, 0))

    def test_two_gpus_are_needed_for_two(self):
        result = self.run_matrix(two=[Program("two.ddp", says(GOOD), ROWS)], flags=("--two",))
        self.assertEqual((result["rows"]["two.ddp"]["result"], self.code), ("not run", 1))

    def test_each_rank_has_a_trace_of_its_own(self):
        program = Program("two.ddp", says(GOOD), ROWS, policy="nccl.toml")
        result = self.run_matrix(two=[program], flags=("--two",), ranks=["0", "1"], gpus=2)
        row = result["rows"]["two.ddp"]
        self.assertEqual((row["result"], row["ranks"], row["one_run"], result["gpus"], self.code), ("pass", ["0", "1"], True, 2, 0))
        flags = json.loads((self.folder / "work/frameworks_two/two.ddp.half/rank.0.swt").read_text())
        self.assertEqual(flags[flags.index("--policy") + 1], "nccl.toml")

    def test_a_rank_without_a_trace_fails(self):
        program = Program("two.ddp", says(GOOD), ROWS, policy="nccl.toml")
        row = self.run_matrix(two=[program], flags=("--two",), ranks=["0"], gpus=2)["rows"]["two.ddp"]
        self.assertIn("traces with launches are of ranks ['0'], 0 and 1 were expected", row["problems"])

    def test_only_chooses_and_nothing_chosen_is_no_success(self):
        programs = [Program("one", says(GOOD), ROWS), Program("two", says(GOOD), ROWS)]
        self.assertEqual(list(self.run_matrix(programs, flags=("--only", "tw"))["rows"]), ["two"])
        self.run_matrix(programs, flags=("--only", "three"))
        self.assertEqual(self.code, 1)


class Table(unittest.TestCase):
    """The real table of programs, as far as it can be looked at without running them."""

    def test_names_are_unique_and_the_scripts_are_there(self):
        build = pathlib.Path("/build")
        every = matrix_programs.programs(build) + matrix_programs.graph_programs() + matrix_programs.two_gpu_programs()
        self.assertEqual(len({program.name for program in every}), len(every))
        commands = [program.command for program in every] + [timing.command for timing in matrix_programs.timings()]
        for command in commands:
            for script in [word for word in command if word.endswith((".py", ".toml"))]:
                self.assertTrue(pathlib.Path(script).is_file(), script)
        self.assertTrue(pathlib.Path(matrix_programs.HERE / "nccl.toml").is_file())

    def test_the_managed_memory_of_all_at_a_time_is_a_small_part_of_an_h200(self):
        self.assertLess(5 * (frameworks.HOST_BUDGET + 2 * frameworks.GIB), 141 * frameworks.GIB / 2)


if __name__ == "__main__":
    unittest.main()
