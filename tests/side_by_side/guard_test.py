"""The count of instructions: what passes, what fails, and what it says."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "benchmarks"))
import count_instructions


class Guard(unittest.TestCase):
    def test_a_tenth_more_passes_and_beyond_fails_with_a_remedy(self):
        self.assertTrue(count_instructions.verdict(("record", 10), 1000, 1099)[0])
        good, text = count_instructions.verdict(("record", 10), 1000, 1101)
        self.assertFalse(good)
        self.assertIn("1101.0 instructions a launch, 1000.0 recorded (+10.1%)", text)
        self.assertIn("SPILLWAY_REFRESH_GOLDEN=1", text)

    def test_much_better_passes_and_is_said(self):
        good, text = count_instructions.verdict(("record", 10), 1000, 800)
        self.assertTrue(good)
        self.assertIn("worth to be recorded", text)

    def test_a_build_type_without_a_count_fails(self):
        good, text = count_instructions.verdict(("record", 10), None, 800)
        self.assertFalse(good)
        self.assertIn("no count is recorded", text)

    def test_the_file_reads_back(self):
        counts = {("Release", "record", 10): 812.5, ("RelWithDebInfo", "symbol", 60): 1000.0}
        self.assertEqual(count_instructions.parse(count_instructions.write(counts)), counts)
        with self.assertRaisesRegex(SystemExit, "line 1 is no count"):
            count_instructions.parse("Release record ten")


if __name__ == "__main__":
    unittest.main()
