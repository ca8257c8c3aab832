"""The page that is made from the compatibility matrix's results."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import compatibility_page
from matrix_samples import stats
from row_evaluation import add_up

MACHINE = {"card": "NVIDIA H200", "driver": "580", "total_bytes": 1, "free_bytes": 1, "processors": 16}


def row(**changes):
    return {"framework": "PyTorch", "what": "training", "expectation": "spills", "result": "pass", "outcome": "spilled", "problems": [],
            "remarks": [], "version": "torch 2.0", "path": "native", "budget_bytes": 1 << 30, "trace": add_up([stats()]),
            "generous_trace": None, "worst_difference": 0.0, **changes}


def result(rows, **changes):
    return {"machine": MACHINE, "date": "2026-11-29T10:00:00+00:00", "rows": rows, "timings": {}, **changes}


def page(rows, **changes):
    return compatibility_page.page([result(rows, **changes)], ["a.json"])


class Page(unittest.TestCase):
    def test_a_row_has_all_columns(self):
        self.assertIn("| PyTorch: training | torch 2.0 | native; linear | 40 launches; 2.0 KiB | 1.2 KiB at a budget of 1.0 GiB |  |",
                      page({"a": row()}))

    def test_a_refused_row_shows_what_was_seen_with_enough_budget(self):
        enough = add_up([stats(launches=99, graph_launches=9)])
        text = page({"a": row(outcome="refused", generous_trace=enough, remarks=["out of memory where the budget ends"])})
        self.assertIn("| 99 launches (9 of graphs); 2.0 KiB | no: refused | out of memory where the budget ends |", text)

    def test_a_failing_row_says_so(self):
        text = page({"a": row(result="fail", problems=["results differ"])})
        self.assertIn("**fails**: results differ", text)
        self.assertIn("0 pass, 1 fail, 0 not installed, 0 not run.", text)

    def test_what_is_not_installed_is_no_pass(self):
        text = page({"a": {"framework": "Numba", "what": "kernel", "result": "not installed", "remarks": ["numba"]}, "b": row()})
        self.assertIn("1 pass, 0 fail, 1 not installed, 0 not run.", text)
        self.assertIn("## Not tested", text)
        self.assertIn("| Numba: kernel | not installed: numba |", text)

    def test_a_row_that_never_left_a_result_is_shown(self):
        text = page({"a": {"framework": "JAX", "what": "x", "result": "fail", "problems": ["bare: exit code 1"], "remarks": []}})
        self.assertIn("| JAX: x |  |  |  |  | **fails**: bare: exit code 1 |", text)

    def test_text_stays_in_its_cell(self):
        self.assertIn("a \\| b c |", page({"a": row(remarks=["a | b\nc"])}))

    def test_an_unknown_result_is_refused(self):
        with self.assertRaisesRegex(ValueError, "splendid"):
            page({"a": row(result="splendid")})

    def test_later_files_count(self):
        text = compatibility_page.page([result({"a": row(result="fail", problems=["x"])}), result({"a": row()}, gpus=2)], ["a.json", "b.json"])
        self.assertIn("1 pass, 0 fail", text)
        self.assertIn("1 x NVIDIA H200, driver 580, 2026-11-29; 2 x NVIDIA H200", text)

    def test_times_are_listed_or_said_to_be_missing(self):
        text = page({"a": row()}, timings={
            "fits.jax": {"pairs": 3, "medians_ms": {"bare": 10.0, "spillway": 10.05}, "ratio": 1.005}, "fits.cupy": {"pairs": 0}})
        self.assertIn("| jax | 10.000 ms | 10.050 ms | 1.0050 | 3 |", text)
        self.assertIn("| cupy | not measured |", text)

    def test_size_has_a_unit(self):
        self.assertEqual([compatibility_page.size(count) for count in (12, 2048, 3 << 20, 5 << 30)],
                         ["12 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"])


class Command(unittest.TestCase):
    def run_command(self, *paths):
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, "argv", ["compatibility_page.py", *paths]), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err):
            code = compatibility_page.main()
        return code, out.getvalue(), err.getvalue()

    def test_it_reads_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results.json"
            path.write_text(json.dumps(result({"a": row()})))
            code, out, _ = self.run_command(str(path))
        self.assertEqual(code, 0)
        self.assertIn("From `results.json`.", out)

    def test_a_file_of_another_kind_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "other.json"
            for text in ("{}", "no json", "[]"):
                path.write_text(text)
                code, out, err = self.run_command(str(path))
                self.assertEqual((code, out), (2, ""))
                self.assertIn("other.json", err)
                self.assertIn("give a result file", err)


if __name__ == "__main__":
    unittest.main()
