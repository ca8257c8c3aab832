"""What is run, in which order, and that workloads are as their flags say."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import matrix


class Plan(unittest.TestCase):
    def test_the_parts_make_up_the_whole(self):
        names = [row.name for part in matrix.PARTS for row in matrix.plan(part)]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(sorted(names), sorted(row.name for row in matrix.plan()))

    def test_bare_comes_before_what_is_compared_with_it(self):
        seen = set()
        for row in matrix.plan():
            if row.way == "bare":
                seen.add(row.workload.name)
            self.assertIn(row.workload.name, seen)

    def test_a_plan_comes_after_the_row_it_is_made_from(self):
        seen = set()
        for row in matrix.plan(rounds=2):
            if row.way == "adaptive_plan":
                self.assertIn((row.workload.name, row.share), seen)
            if row.way == "adaptive":
                seen.add((row.workload.name, row.share))

    def test_only_brings_along_what_a_row_needs(self):
        self.assertEqual([row.name for row in matrix.plan(only="^experts/50%/adaptive_plan$")],
                         ["experts/bare", "experts/50%/adaptive", "experts/50%/adaptive_plan", "experts/bare/2"])
        self.assertEqual([row.name for row in matrix.plan(only="^experts/bare$")], ["experts/bare"])
        self.assertEqual(matrix.plan(only="nothing"), [])

    def test_shares_replace_the_workloads_own_but_where_all_fits(self):
        rows = matrix.plan(only="^(stream|fits_train)/", shares=(0.8, 0.35))
        self.assertEqual({row.share for row in rows if row.workload.name == "stream"}, {0, 0.8, 0.35})
        self.assertEqual({row.share for row in rows if row.workload.name == "fits_train"}, {0, matrix.FITS})

    def test_a_part_has_its_acceptance_rows_within_its_time(self):
        """By the estimates, with 30 s for the link, the archive and the interpreter's own starts."""
        training = [f"train_states/{share}%/{way}" for share in (65, 50)
                    for way in ("adaptive", "zero_offload", "demand", "alloc_prefetch", "adaptive_plan", "arrival")]
        wanted = {1: ["train_states/bare", "train_states/record", *training, "train_compute/65%/adaptive", "train_compute/65%/save_on_cpu",
                      "train_compute/65%/zero_offload", "train_compute/65%/demand", "train_compute/65%/alloc_prefetch"],
                  2: ["kv_transformers/50%/adaptive", "kv_transformers/50%/offloaded_cache", "decode_1/50%/adaptive", "decode_1/50%/pipeline",
                      "decode_1/record", "decode_1/50%/adaptive_plan", "kv_long/50%/adaptive", "kv_long/50%/kv_pipeline", "decode_16/65%/adaptive",
                      "experts/50%/adaptive"],
                  3: [f"{name}/{way}" for name in ("fits_train", "fits_decode") for way in ("bare/3", "fits/no_budget/3", "fits/adaptive/3")] +
                     [f"{name}/50%/adaptive" for name in ("stream", "out_of_core", "block", "random", "embedding")]}
        self.assertEqual(set(wanted), set(matrix.PARTS))
        for part, names in wanted.items():
            at, run = 30, []
            for row in matrix.part_rows(part):
                if at + row.estimate <= matrix.PART_SECONDS:
                    at += row.estimate
                    run.append(row.name)
            self.assertEqual([name for name in names if name not in run], [], f"part {part}")

    def test_a_dry_run_needs_no_gpu(self):
        """As a user types it, with nothing in the PATH that could answer for a card."""
        done = subprocess.run([str(ROOT / "benchmarks/run.sh"), "--dry-run", "--limit", "520"], capture_output=True, text=True,
                              env={**os.environ, "PATH": "/usr/bin:/bin"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in matrix.PARTS:
            self.assertIn(f"part {part}, --limit 520:\n", done.stdout)
        printed = re.findall(r"^ +\d+ +\d+ s  (\S+/\S+)", done.stdout, flags=re.MULTILINE)
        self.assertEqual(printed, [row.name for row in matrix.default_rows()])

    def test_only_brings_back_what_the_default_table_leaves_out(self):
        self.assertNotIn("stream/50%/arrival", [row.name for row in matrix.plan(3)])
        self.assertIn("stream/50%/arrival", [row.name for row in matrix.plan(3, only="^stream/")])

    def test_a_name_is_read_back(self):
        for row in matrix.plan() + matrix.plan(only="", shares=(0.8,), rounds=2):
            name, text = row.name.split("/", 1)
            self.assertEqual(matrix.row_of(matrix.BY_NAME[name], text), row)

    def test_every_way_has_an_estimate(self):
        for row in matrix.plan() + matrix.plan(only="."):
            self.assertGreater(row.estimate, 4, row.name)
            self.assertLess(row.estimate, 60, row.name)

    def test_every_workload_has_adaptive_in_the_default_subset(self):
        names = {row.workload.name for row in matrix.plan() if row.way == "adaptive"}
        self.assertEqual(names, {workload.name for workload in matrix.WORKLOADS})

    def test_rounds_are_rows_of_their_own(self):
        names = [row.name for row in matrix.plan(only="^stream/50%/demand", rounds=2)]
        self.assertEqual(names, ["stream/bare", "stream/50%/demand", "stream/50%/demand/2", "stream/bare/2"])

    def test_page_faults_get_two_steps(self):
        for row in matrix.plan():
            if row.way in ("demand", "alloc_prefetch"):
                self.assertLessEqual(row.pace.steps, 2)

    def test_every_row_has_a_limit_well_below_a_part(self):
        for row in matrix.plan():
            self.assertLess(row.estimate, row.limit_seconds)
            self.assertLess(row.limit_seconds, 180)

    def test_managed_memory_stays_small(self):
        for workload in matrix.WORKLOADS:
            self.assertLessEqual(workload.planned_bytes, 24 << 30)


class Workloads(unittest.TestCase):
    def test_explicit_ways_are_choices_of_the_scripts(self):
        for workload in matrix.WORKLOADS:
            text = (ROOT / "benchmarks/workloads" / workload.script).read_text()
            choices = re.search(r"make_parser\(__doc__, \(([^)]*)\)\)", text).group(1)
            for way in workload.explicit:
                self.assertIn(f'"{way}"', choices, workload.name)

    def test_flags_are_flags_of_the_scripts(self):
        for workload in matrix.WORKLOADS:
            text = (ROOT / "benchmarks/workloads" / workload.script).read_text()
            for flag in workload.flags:
                if str(flag).startswith("--"):
                    self.assertIn(f'"{flag}"', text, workload.name)

    def test_no_workload_knows_spillway(self):
        for script in (ROOT / "benchmarks/workloads").glob("*.py"):
            self.assertNotIn("spillway", script.read_text().lower(), script.name)

    def test_every_script_compiles(self):
        for script in (ROOT / "benchmarks").rglob("*.py"):
            compile(script.read_text(), str(script), "exec")


if __name__ == "__main__":
    unittest.main()
