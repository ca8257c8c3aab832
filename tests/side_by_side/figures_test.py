"""Statistics, agreement, limits and predictions by numbers worked out by hand."""
import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import figures

LINK = {"in": 50e9, "out": 40e9, "both": 60e9}


def run_of(*steps):
    return {"steps": [{"step": number, "warmup": warm, "seconds": seconds, "result": result, **({"name": name} if name else {})}
                      for number, (seconds, warm, result, name) in enumerate(steps)]}


def timed(*seconds, warmup=0):
    return run_of(*[(each, number < warmup, 1, None) for number, each in enumerate(seconds)])


class Lines(unittest.TestCase):
    def test_other_output_and_a_line_that_is_cut_off_are_passed_over(self):
        run = figures.read_lines('warning: x\n{"describe": {"a": 1}}\n{"step": 0, "seconds": 1, "warmup": true, "result": 2}\n{not json}\n{"step": 1, "se')
        self.assertEqual(run["describe"], {"a": 1})
        self.assertEqual(len(run["steps"]), 1)
        self.assertIsNone(run["finish"])

    def test_no_output_is_an_empty_run(self):
        self.assertEqual(figures.read_lines("")["steps"], [])


class Summaries(unittest.TestCase):
    def test_median_and_quartiles(self):
        made = figures.summary([4, 1, 3, 2, 5])
        self.assertEqual((made["median"], made["least"], made["most"], made["first_quartile"], made["third_quartile"], made["count"]), (3, 1, 5, 2, 4, 5))
        self.assertEqual(figures.summary([1, 2])["first_quartile"], 1.25)
        self.assertEqual(figures.summary([7])["third_quartile"], 7)
        self.assertIsNone(figures.summary([]))

    def test_warm_up_and_steps_of_another_kind_do_not_count(self):
        run = run_of((9, False, 0, "prefill"), (5, True, 0, None), (1, False, 0, None), (2, False, 0, None))
        self.assertEqual(figures.measured_seconds(run), ([1, 2], False))
        self.assertEqual(figures.named_seconds(run), {"prefill": 9})

    def test_a_run_that_ended_in_its_warm_up_says_so(self):
        self.assertEqual(figures.measured_seconds(timed(9, 3, warmup=5)), ([3], True))
        self.assertEqual(figures.measured_seconds(timed(9, warmup=5)), ([], True))

    def test_steady_after(self):
        self.assertEqual(figures.steady_after(timed(9, 9, 9, 9, 1, 1, 1, 1, 1, warmup=6)), 3)
        self.assertEqual(figures.steady_after(timed(1, 1, 1, 1, warmup=1)), 0)
        self.assertIsNone(figures.steady_after(timed(1, 1, 1, 1, 9, 9, 9, warmup=1)))
        self.assertIsNone(figures.steady_after(timed(1, 1)))


class Agreement(unittest.TestCase):
    def test_equal_as_far_as_the_shorter_goes(self):
        self.assertEqual(figures.agreement(run_of((1, 0, [1, 2], None), (1, 0, 3.0, None)), run_of((1, 0, [1, 2], None))),
                         {"compared": 1, "largest_difference": 0})

    def test_the_largest_relative_difference_counts(self):
        got = figures.agreement(run_of((1, 0, 2.0, None), (1, 0, -4.0, None)), run_of((1, 0, 2.0002, None), (1, 0, -5.0, None)))
        self.assertAlmostEqual(got["largest_difference"], 0.2)

    def test_other_shapes_and_no_numbers_never_agree(self):
        self.assertEqual(figures.agreement(run_of((1, 0, [1, 2], None)), run_of((1, 0, [1], None)))["largest_difference"], math.inf)
        self.assertEqual(figures.agreement(run_of((1, 0, 1.0, None)), run_of((1, 0, math.nan, None)))["largest_difference"], math.inf)
        self.assertEqual(figures.agreement(run_of((1, 0, 0.0, None)), run_of((1, 0, 0.0, None)))["largest_difference"], 0)


class Limits(unittest.TestCase):
    def test_what_fits_is_limited_by_the_bare_step(self):
        made = figures.limits(0.1, 8e9, 9e9, None, True, LINK)
        self.assertEqual((made["bytes_in"], made["bytes_out"], made["seconds"]), (0, 0, 0.1))

    def test_what_is_written_crosses_both_ways(self):
        made = figures.limits(0.1, 8e9, 2e9, None, True, LINK)
        self.assertEqual((made["bytes_in"], made["bytes_out"]), (6e9, 6e9))
        self.assertAlmostEqual(made["link_seconds"], 12 / 60)  # both ways at once, slower than either
        self.assertAlmostEqual(made["seconds"], 0.2)

    def test_what_is_only_read_comes_in(self):
        made = figures.limits(0.1, 8e9, 2e9, None, False, LINK)
        self.assertEqual(made["bytes_out"], 0)
        self.assertAlmostEqual(made["seconds"], 6 / 50)

    def test_a_step_that_touches_a_part_meets_its_share(self):
        self.assertEqual(figures.limits(0.1, 8e9, 6e9, 1e9, False, LINK)["bytes_in"], int(2e9 / 8))

    def test_without_a_link_the_card_is_the_limit(self):
        self.assertEqual(figures.limits(0.1, 8e9, 2e9, None, True, None)["seconds"], 0.1)


class Predictions(unittest.TestCase):
    def test_an_iteration_is_a_step_several_steps_or_a_part_of_one(self):
        self.assertEqual(figures.units_in_step(405, 10, 40), 1)
        self.assertEqual(figures.units_in_step(4100, 10, 40), 10)
        self.assertEqual(figures.units_in_step(405, 10, 160), 0.25)
        self.assertEqual(figures.units_in_step(400, 10, 0), 40)  # none was found: figures are of a launch

    def test_the_error_is_relative_to_what_was_measured(self):
        made = figures.prediction({"iteration_launches": 20, "seconds": 0.06, "least_seconds": 0.05, "fits": True}, 400, 10, 0.1)
        self.assertAlmostEqual(made["seconds"], 0.12)
        self.assertAlmostEqual(made["error"], 0.2)
        self.assertAlmostEqual(made["least_seconds"], 0.1)

    def test_nothing_expected_is_no_error(self):
        self.assertIsNone(figures.prediction({"iteration_launches": 0, "seconds": 0}, 400, 10, 0.1)["error"])


if __name__ == "__main__":
    unittest.main()
