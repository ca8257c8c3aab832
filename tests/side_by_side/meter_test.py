"""The loop that all workloads share, on a clock that the test moves."""
import argparse
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks/workloads"))
import common


class Meter(unittest.TestCase):
    def run_steps(self, costs, names=None, **given):
        arguments = argparse.Namespace(**{"steps": 3, "warmup": 2, "seconds": 0, **given})
        self.now, lines = 0.0, []
        meter = common.Meter(arguments, lambda: None, lambda: self.now, lines.append)

        def step(index):
            self.now += costs[min(index, len(costs) - 1)]
            return index * 10

        meter.run(step, names)
        meter.finish(5, 4)
        return [json.loads(line) for line in lines]

    def test_warm_up_then_measured_steps(self):
        lines = self.run_steps([5, 1])
        self.assertEqual([line["warmup"] for line in lines[:-1]], [True, True, False, False, False])
        self.assertEqual([line["seconds"] for line in lines[:-1]], [5, 1, 1, 1, 1])
        self.assertEqual(lines[2]["result"], 20)
        self.assertEqual(lines[-1]["finish"]["peak_bytes"], 5)

    def test_no_step_is_begun_after_its_time(self):
        self.assertEqual(len(self.run_steps([10], seconds=15)) - 1, 2)

    def test_a_long_warm_up_is_cut_at_half_of_the_time(self):
        lines = self.run_steps([10], warmup=50, seconds=100)
        warm = sum(line["warmup"] for line in lines[:-1])
        self.assertEqual((warm, len(lines) - 1), (6, 9))

    def test_steps_of_another_kind_do_not_count_as_measured(self):
        lines = self.run_steps([1], lambda index: "prefill" if index == 0 else None, warmup=0)
        self.assertEqual([line.get("name") for line in lines[:-1]], ["prefill", None, None, None])

    def test_results_become_plain(self):
        class Array:
            def tolist(self):
                return [1, 2]
        self.assertEqual(common.plain([Array(), 3]), [[1, 2], 3])

    def test_out_of_memory_is_told_apart(self):
        self.assertTrue(common.out_of_memory(RuntimeError("CUDA out of memory. Tried")))
        self.assertFalse(common.out_of_memory(ValueError("shapes differ")))


if __name__ == "__main__":
    unittest.main()
