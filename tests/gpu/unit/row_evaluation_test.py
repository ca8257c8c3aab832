"""How rows of the compatibility matrix are judged."""
import math
import unittest

from matrix_samples import BARE, OUT_OF_MEMORY, REFUSAL_LINE, fitting, stats
from row_evaluation import (EXPORT_LINE, EXPORTS, FITS, RETRIES, SEES_BUDGET, SPILLS, SPILLS_OR_REFUSES, add_up, judge, parse_results,
                            traces_of, worst_difference)


def verdict(expectation=SPILLS, bare=BARE, half=BARE, traces=None, log="", tolerance=1e-5, generous=None, generous_traces=None):
    traces = [stats()] if traces is None else traces
    return judge(expectation, bare, half, add_up(traces), log, tolerance, generous,
                 None if generous_traces is None else add_up(generous_traces))


class Results(unittest.TestCase):
    def test_rows_are_found_among_other_output(self):
        text = 'noise\nRESULT {"row": "a", "values": [1]}\n[rank0] RESULT {"row": "b", "values": [2]}\nRESULT {broken\nRESULT {"no": 1}\n'
        self.assertEqual(parse_results(text), {"a": {"values": [1]}, "b": {"values": [2]}})

    def test_the_last_result_of_a_row_counts(self):
        self.assertEqual(parse_results('RESULT {"row": "a", "n": 1}\nRESULT {"row": "a", "n": 2}'), {"a": {"n": 2}})

    def test_difference_is_relative_and_infinite_where_nothing_can_be_compared(self):
        self.assertEqual(worst_difference([1.0, 0.0], [1.0, 0.0]), 0)
        self.assertAlmostEqual(worst_difference([100.0], [101.0]), 1 / 101)
        self.assertEqual(worst_difference([1.0], [1.0, 2.0]), math.inf)
        self.assertEqual(worst_difference([1.0], [math.nan]), math.inf)


class Traces(unittest.TestCase):
    def test_whether_it_is_whole_says_the_process_that_was_started_or_the_busiest(self):
        both = [stats(pid=7, launches=2), stats(pid=8, launches=40, whole=False)]
        self.assertTrue(add_up(both, 7)["whole"])
        self.assertFalse(add_up(both, 8)["whole"])
        self.assertFalse(add_up(both, 9)["whole"])
        self.assertFalse(add_up(both)["whole"])

    def test_processes_are_added_up(self):
        figures = add_up([stats(), stats(launches=2, whole=False)])
        self.assertEqual((figures["traces"], figures["launches"], figures["spilled_bytes"]), (2, 42, 2400))
        self.assertEqual(figures["allocations"], {"linear": {"count": 6, "bytes": 4000}})
        self.assertTrue(figures["whole"])
        self.assertEqual(figures["resident_peak_bytes"], 900)

    def test_graphs_have_what_their_kernels_touched(self):
        rows = [{"name": "(graphs and unknown)", "host_bytes": 7}, {"name": "add", "host_bytes": 5}]
        self.assertEqual(add_up([stats(by_kernel=rows)])["on_host_touched_by_graphs_bytes"], 7)

    def test_one_trace_and_several_have_different_forms(self):
        self.assertEqual(len(traces_of(stats())), 1)
        self.assertEqual(len(traces_of({"traces": [stats(), stats()]})), 2)


class Spills(unittest.TestCase):
    def test_same_results_with_memory_on_the_host_pass(self):
        self.assertEqual((verdict()["result"], verdict()["outcome"]), ("pass", "spilled"))

    def assert_fails(self, text, **arguments):
        found = verdict(**arguments)
        self.assertEqual(found["result"], "fail")
        self.assertIn(text, " ".join(found["problems"]))

    def test_other_results_fail(self):
        self.assert_fails("differ from bare by 0.2", half={**BARE, "values": [1.5, 2.5, 4]})

    def test_nothing_spilled_fails(self):
        self.assert_fails("nothing was spilled", traces=[fitting()])

    def test_out_of_memory_fails_where_the_memory_can_spill(self):
        self.assert_fails("OutOfMemoryError", half=OUT_OF_MEMORY, log=REFUSAL_LINE)

    def test_no_result_fails(self):
        self.assert_fails("without a result", half=None)
        self.assert_fails("bare: it ended without a result", bare=None)

    def test_no_launch_fails(self):
        self.assert_fails("not intercepted", traces=[stats(launches=0)])
        self.assert_fails("not intercepted", traces=[])

    def test_dropped_events_fail(self):
        self.assert_fails("3 events dropped", traces=[stats(dropped_events=1, dropped_frames=2)])

    def test_a_trace_that_is_not_whole_fails(self):
        self.assert_fails("not whole", traces=[stats(whole=False)])

    def test_more_resident_than_the_budget_fails(self):
        device = {**stats()["devices"][0], "resident_peak": 901}
        self.assert_fails("resident peak 1001 is over the budget of 1000", traces=[stats(devices=[device])])

    def test_more_plain_memory_than_the_budget_fails(self):
        device = {**stats()["devices"][0], "plain": 950}
        self.assert_fails("over the budget of 1000", traces=[stats(devices=[device])])

    def test_memory_that_was_not_seen_fails(self):
        self.assert_fails("were seen", bare={**BARE, "peak_bytes": 3000}, half={**BARE, "peak_bytes": 3000})

    def test_an_error_in_the_bare_run_is_no_verdict_on_spillway(self):
        self.assert_fails("bare: ValueError", bare={"error": "ValueError: x", "out_of_memory": False})


class NotInstalled(unittest.TestCase):
    def test_it_is_neither_pass_nor_fail(self):
        found = verdict(bare={"not_installed": "onnxruntime has no CUDA provider"})
        self.assertEqual(found["result"], "not installed")
        self.assertEqual(found["remarks"], ["onnxruntime has no CUDA provider"])

    def test_what_is_installed_bare_has_to_be_there_under_spillway(self):
        self.assertEqual(verdict(half={"not_installed": "sees no device"})["result"], "fail")


class SpillsOrRefuses(unittest.TestCase):
    def refused(self, **changes):
        arguments = {"half": OUT_OF_MEMORY, "log": REFUSAL_LINE, "traces": [stats(launches=0)], "generous": BARE,
                     "generous_traces": [fitting()], **changes}
        return verdict(SPILLS_OR_REFUSES, **arguments)

    def test_spilling_passes(self):
        self.assertEqual(verdict(SPILLS_OR_REFUSES)["outcome"], "spilled")

    def test_a_plain_refusal_passes_if_it_runs_with_enough_budget(self):
        self.assertEqual((self.refused()["result"], self.refused()["outcome"]), ("pass", "refused"))

    def test_a_refusal_that_does_not_name_the_setting_fails(self):
        self.assertEqual(self.refused(log="out of memory")["result"], "fail")

    def test_another_error_than_out_of_memory_fails(self):
        self.assertEqual(self.refused(half={"error": "illegal address", "out_of_memory": False})["result"], "fail")

    def test_other_results_with_enough_budget_fail(self):
        self.assertEqual(self.refused(generous={**BARE, "values": [0, 0, 0]})["result"], "fail")
        self.assertEqual(self.refused(generous_traces=None)["result"], "fail")

    def test_memory_that_is_not_counted_fails(self):
        nothing = fitting(allocations={**stats()["allocations"], "by_kind": {}})
        self.assertEqual(self.refused(generous_traces=[nothing])["result"], "fail")


class SeesTheBudget(unittest.TestCase):
    def of(self, limit, traces):
        return verdict(SEES_BUDGET, half={**BARE, "bytes_limit": limit}, traces=traces)

    def test_a_limit_of_its_own_within_the_budget_passes(self):
        budget = add_up([fitting()])["budget_bytes"]
        self.assertEqual(self.of(budget * 3 // 4, [fitting()])["problems"], [])
        self.assertEqual(self.of(budget * 3 // 4, [fitting()])["outcome"], "fits")

    def test_a_limit_beyond_the_budget_and_spilling_fail(self):
        budget = add_up([fitting()])["budget_bytes"]
        for limit in (0, budget + 1):
            self.assertIn("its own limit is", "; ".join(self.of(limit, [fitting()])["problems"]))
        self.assertIn("bytes spilled", "; ".join(self.of(budget // 2, [stats()])["problems"]))


class Others(unittest.TestCase):
    def test_fits_wants_nothing_spilled_or_refused(self):
        self.assertEqual((verdict(FITS, traces=[fitting()])["result"], verdict(FITS, traces=[fitting()])["outcome"]), ("pass", "fits"))
        self.assertEqual(verdict(FITS)["result"], "fail")

    def test_retries_wants_at_least_one(self):
        self.assertEqual(verdict(RETRIES, half={**BARE, "retries": 2, "last_batch": 8})["result"], "pass")
        self.assertEqual(verdict(RETRIES, half={**BARE, "retries": 0, "last_batch": 8})["result"], "fail")

    # Two blocks: their codes, what the other process read in the first and the last, the last error.
    plain = {**BARE, "values": [0, 0, 11, 22, 0]}

    def exports(self, values, log=EXPORT_LINE):
        return verdict(EXPORTS, bare=self.plain, half={**BARE, "values": values}, log=log, generous=self.plain)["problems"]

    def test_exports_want_plain_blocks_shared_and_spilled_ones_refused_by_the_driver(self):
        self.assertEqual(self.exports([0, 1, 11, -1, 1]), [])
        self.assertIn("every block was exported", self.exports([0, 0, 11, 22, 0])[0])
        self.assertIn("no line says why", self.exports([0, 1, 11, -1, 1], log="")[0])
        self.assertIn("the last error is 0", self.exports([0, 1, 11, -1, 0])[0])
        self.assertIn("codes [0, 2]", self.exports([0, 2, 11, -1, 2])[0])
        self.assertIn("the other process read -1", self.exports([0, 1, -1, -1, 1])[0])


if __name__ == "__main__":
    unittest.main()
