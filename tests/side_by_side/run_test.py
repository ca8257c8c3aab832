"""The runner end to end, with stand-ins for the card, the command and the workloads."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fakes
import matrix
import run


class RunTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.before = {name: os.environ.get(name) for name in ("PATH", "FAKE_WRONG")}
        self.kept = (run.HERE, matrix.WORKLOADS, matrix.BY_NAME, matrix.PARTS)
        fakes.make(self.folder, ROOT / "benchmarks/workloads")
        run.HERE = self.folder
        pace = matrix.Pace(3, 4, 60)
        costs = dict.fromkeys(("bare", "adaptive", "by_hand", "demand", "alloc_prefetch", "arrival", "adaptive_plan", "record", "no_budget"), 1)
        matrix.WORKLOADS = (
            matrix.Workload("fake", "fake.py", (), ("by_hand",), 1, (0.8, 0.5), "a stand-in", costs, bare=pace, learned=pace, static=pace, slow=pace,
                            by_hand=pace),
            matrix.Workload("fits_fake", "fake.py", (), (), 1, (matrix.FITS,), "another", costs, bare=pace, learned=pace))
        matrix.BY_NAME = {workload.name: workload for workload in matrix.WORKLOADS}
        both = "{0}/adaptive {0}/by_hand {0}/demand {0}/alloc_prefetch {0}/adaptive_plan {0}/arrival"
        matrix.PARTS = {1: (("fake", f"bare {both.format('80%')} record {both.format('50%')} bare/2"), ("fits_fake", "bare fits/no_budget fits/adaptive"))}

    def tearDown(self):
        run.HERE, matrix.WORKLOADS, matrix.BY_NAME, matrix.PARTS = self.kept
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.temporary.cleanup()

    def start(self, *words):
        self.output = io.StringIO()
        with contextlib.redirect_stdout(self.output):
            code = run.main(["--build", str(self.folder / "build"), "--out", str(self.folder / "out"), "--work", str(self.folder / "work"), *words])
        files = sorted((self.folder / "out").glob("*.json"))
        return code, json.loads(files[0].read_text()) if files else None

    def test_every_way_is_run_and_compared_with_bare(self):
        code, result = self.start("--part", "1")
        self.assertEqual(code, 0, self.output.getvalue())
        rows = result["steps"]
        self.assertEqual(result["not_run"], [])
        for share in ("80%", "50%"):
            for way in ("adaptive", "by_hand", "adaptive_plan", "alloc_prefetch", "demand", "arrival"):
                self.assertIn(f"fake/{share}/{way}", rows)
        bare, adaptive = rows["fake/bare"], rows["fake/80%/adaptive"]
        self.assertAlmostEqual(bare["seconds_a_step"]["median"], 0.01)
        self.assertEqual(bare["seconds_a_step"]["count"], 4)
        self.assertEqual((adaptive["budget_bytes"], adaptive["peak_bytes"]), (800, 720))
        self.assertTrue(adaptive["correct"])
        self.assertEqual(adaptive["agreement"]["compared"], 7)
        self.assertAlmostEqual(adaptive["times_bare"], 2)
        self.assertAlmostEqual(rows["fake/80%/demand"]["times_bare"], 50)
        # 100 bytes must come in and go out; the bare step is longer than that takes.
        self.assertEqual((adaptive["limits"]["bytes_in"], adaptive["limits"]["bytes_out"]), (100, 100))
        self.assertAlmostEqual(adaptive["share_of_limit"], 0.5)
        self.assertEqual(adaptive["steady_after"], 1)

    def test_code_that_does_not_fit_is_a_result_and_no_failure(self):
        code, result = self.start("--only", "by_hand")
        self.assertEqual(code, 0, self.output.getvalue())
        self.assertEqual(result["steps"]["fake/80%/by_hand"]["status"], "ok")
        self.assertEqual(result["steps"]["fake/50%/by_hand"]["status"], "out_of_memory")
        self.assertIn("does not fit", self.output.getvalue())

    def test_a_plan_is_used_and_its_expectation_compared(self):
        code, result = self.start("--only", "50%/adaptive_plan|record")
        self.assertEqual(code, 0, self.output.getvalue())
        row = result["steps"]["fake/50%/adaptive_plan"]
        self.assertTrue(any("--policy" in command for command in row["commands"]))
        # 400 launches in 7 steps are about six iterations of 10.
        self.assertEqual(row["prediction"]["units_in_step"], 6)
        self.assertAlmostEqual(row["prediction"]["error"], (6 * 0.0205 - 0.02) / 0.02)
        self.assertEqual(list(result["steps"]["fake/record"]["predictions"]), ["50%"])
        # That run had no memory of Spillway's own, so it is taken off the budget of 500.
        self.assertEqual(result["steps"]["fake/record"]["predictions"]["50%"]["budget_bytes"], 470)

    def test_a_row_whose_plan_is_not_there_yet_lets_the_next_one_go_first(self):
        os.environ["FAKE_GATE"] = str(self.folder / "gate")
        try:
            code, result = self.start("--only", "50%/(adaptive_plan|arrival)")
        finally:
            del os.environ["FAKE_GATE"]
        self.assertEqual(code, 0, self.output.getvalue())
        self.assertEqual([name for name in result["steps"] if "%" in name], ["fake/50%/adaptive", "fake/50%/arrival", "fake/50%/adaptive_plan"])

    def test_wrong_results_fail_the_row(self):
        os.environ["FAKE_WRONG"] = "1"
        code, result = self.start("--only", "80%/(demand|arrival)")
        self.assertEqual(code, 1)
        self.assertEqual(result["steps"]["fake/80%/demand"]["result"], "fail")
        self.assertFalse(result["steps"]["fake/80%/demand"]["correct"])
        self.assertEqual(result["steps"]["fake/80%/arrival"]["result"], "pass")

    def test_what_has_no_time_left_is_listed(self):
        code, result = self.start("--part", "1", "--limit", str(run.RESERVE_SECONDS + 1))
        self.assertIn("fake/bare", result["not_run"])
        self.assertIn("not run, for lack of time", self.output.getvalue())
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()), ["benchmarks-part1.json", "benchmarks-part1.tar.gz"])

    def test_a_later_call_goes_on_where_an_earlier_one_ended(self):
        code, whole = self.start("--part", "1")
        cut = {**whole, "steps": {name: row for name, row in whole["steps"].items() if "/50%/" not in name}}
        cut["steps"]["fake/50%/adaptive"] = whole["steps"]["fake/50%/adaptive"]
        file = self.folder / "earlier.json"
        file.write_text(json.dumps(cut))
        code, result = self.start("--part", "1", "--resume", str(file))
        self.assertEqual(code, 0, self.output.getvalue())
        self.assertEqual(set(result["steps"]), set(whole["steps"]))
        rows = result["steps"]
        self.assertTrue(rows["fake/80%/demand"]["resumed"])
        self.assertNotIn("resumed", rows["fake/50%/demand"])
        # Its plan needs the trace, which is gone.
        self.assertNotIn("resumed", rows["fake/50%/adaptive"])
        self.assertEqual(rows["fake/50%/demand"]["agreement"]["compared"], 7)
        self.assertEqual(rows["fake/50%/demand"]["budget_bytes"], 500)
        self.assertNotIn("fake/80%/demand, about", self.output.getvalue())

    def test_what_is_there_is_kept_when_the_call_is_ended(self):
        class Ended(SystemExit):
            pass

        def end(runner, row):
            if row.way == "demand":
                raise Ended(143)
            return run_row(runner, row)

        run_row, run.Runner.run_row = run.Runner.run_row, end
        try:
            with self.assertRaises(Ended):
                self.start("--part", "1")
        finally:
            run.Runner.run_row = run_row
        result = json.loads((self.folder / "out/benchmarks-part1.json").read_text())
        self.assertEqual(result["steps"]["fake/80%/adaptive"]["result"], "pass")
        self.assertIn("fake/50%/demand", result["not_run"])
        with tarfile.open(self.folder / "out/benchmarks-part1.tar.gz") as archive:
            self.assertIn("benchmarks-part1/fake-80-adaptive.swt", archive.getnames())

    def test_a_row_beyond_its_limit_is_ended_and_keeps_what_it_has(self):
        os.environ["FAKE_SLEEP"] = "1"
        limits, matrix.Row.limit_seconds = matrix.Row.limit_seconds, property(lambda row: 8)
        try:
            code, result = self.start("--only", "80%/arrival")
        finally:
            matrix.Row.limit_seconds = limits
            del os.environ["FAKE_SLEEP"]
        row = result["steps"]["fake/80%/arrival"]
        self.assertEqual((row["status"], row["exit_code"], row["result"]), ("timed_out", None, "pass"), self.output.getvalue())
        self.assertEqual(row["seconds_a_step"]["count"], 2)

    def test_a_dry_run_prints_order_and_time_and_runs_nothing(self):
        code, result = self.start("--dry-run", "--limit", "27")
        self.assertEqual((code, result), (0, None))
        text = self.output.getvalue()
        self.assertIn("      6    1 s  fake/bare\n      7    1 s  fake/80%/adaptive\n", text)
        self.assertIn("     14    1 s  fake/50%/adaptive\n     15    1 s  fake/50%/by_hand  (only if time is left)\n", text)
        self.assertIn("15 s: 9 rows; 9 more, of 9 s, if time is left", text)

    def test_a_dry_run_goes_by_what_an_earlier_call_took(self):
        code, result = self.start("--part", "1")
        file = self.folder / "out/benchmarks-part1.json"
        result["steps"]["fake/80%/demand"]["seconds"] = 400
        file.write_text(json.dumps(result))
        self.start("--dry-run", "--resume", str(file))
        self.assertIn(" 400 s  fake/80%/demand\n", self.output.getvalue())

    def test_a_card_that_is_nearly_full_is_refused(self):
        fakes.make(self.folder, ROOT / "benchmarks/workloads", free_mib=20000)
        code, result = self.start("--only", "80%/demand")
        self.assertEqual(code, 1)
        self.assertIn("less than half of that is allowed", result["steps"]["fake/bare"]["error"])
        self.assertIn("no peak to take a share of", result["steps"]["fake/80%/demand"]["error"])

    def test_fitting_rows_alternate_with_bare_ones(self):
        code, result = self.start("--only", "fits_fake")
        self.assertEqual(code, 0, self.output.getvalue())
        self.assertEqual([name for name in result["steps"] if name != "link"],
                         [f"fits_fake/{way}{turn}" for turn in ("", "/2", "/3") for way in ("bare", "fits/no_budget", "fits/adaptive")])
        rows = result["steps"]
        self.assertNotIn("--device-budget", rows["fits_fake/fits/no_budget"]["commands"][0])
        self.assertIn("--device-budget", rows["fits_fake/fits/adaptive"]["commands"][0])

    def test_a_missing_row_and_bad_shares_are_said(self):
        self.assertEqual(self.start("--only", "nothing_like_it")[0], 2)
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            self.start("--shares", "80,x")
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            self.start("--shares", "150")


if __name__ == "__main__":
    unittest.main()
