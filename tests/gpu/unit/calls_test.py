"""The list of calls: each fits ten minutes, and its commands have the flags that it gives them."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests/gpu/calls.sh"


class Calls(unittest.TestCase):
    def lines(self):
        text = subprocess.run([str(SCRIPT)], capture_output=True, text=True, check=True).stdout
        return re.findall(r"^(\d+) +(\d+) (\S+)(.*)$", text, flags=re.MULTILINE), text

    def test_a_call_fits_ten_minutes(self):
        lines, text = self.lines()
        sums = {}
        for call, seconds, *_ in lines:
            sums[call] = sums.get(call, 0) + int(seconds)
        self.assertGreater(len(sums), 3)
        self.assertEqual([call for call, seconds in sums.items() if seconds > 570], [])
        for call, seconds in sums.items():
            self.assertIn(f"call {call}: {seconds} s", text)

    def test_the_first_three_fit_half_an_hour_with_two_minutes_for_the_machine(self):
        self.assertLessEqual(sum(int(seconds) for call, seconds, *_ in self.lines()[0] if int(call) <= 3), 28 * 60)

    def test_a_limit_is_not_below_what_the_command_should_take(self):
        for _, seconds, command, flags in self.lines()[0]:
            limit = re.search(r"--limit (\d+)", flags)
            self.assertTrue(limit is None or int(limit.group(1)) >= int(seconds), command)

    def test_commands_are_there_and_know_their_flags(self):
        for _, _, command, flags in self.lines()[0]:
            usage = subprocess.run([str(ROOT / command), "--help"], capture_output=True, text=True, check=True).stdout
            for flag in re.findall(r"--[a-z-]+", flags):
                self.assertRegex(usage, rf"(?m)^ +{flag}\b", f"{command} {flag}")

    def test_a_call_that_there_is_not_is_said(self):
        done = subprocess.run([str(SCRIPT), "99"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "calls.sh: there is no call 99; without a number it lists them\n"))


if __name__ == "__main__":
    unittest.main()
