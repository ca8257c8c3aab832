"""What decode_kv tells of its steps.

Usage: decode_times_test.py PROGRAM [ARGUMENT...], with the arguments that start decode_kv on this machine
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SHAPE = ["--requests", "12", "--resident", "4", "--context", "64", "--steps", "6", "--quantum", "4"]


class Times(unittest.TestCase):
    command = []

    def told(self, *flags):
        with tempfile.TemporaryDirectory() as folder:
            file, outputs = pathlib.Path(folder) / "times.json", pathlib.Path(folder) / "outputs.txt"
            done = subprocess.run([*self.command, *SHAPE, *flags, "--json", str(file), "--outputs", str(outputs)], capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(file.read_text()), outputs.read_text().splitlines()

    def test_all_rounds_are_told(self):
        told, outputs = self.told()
        self.assertEqual(sum(r["tokens"] for r in told["rounds"]), 12 * 6)
        self.assertEqual(told["tokens"], 12 * 6)
        self.assertGreater(told["seconds"], sum(sum(r["step_ms"]) for r in told["rounds"]) / 1e3 * 0.99)
        self.assertTrue(all(0 < len(r["step_ms"]) <= 4 and min(r["step_ms"]) > 0 for r in told["rounds"]))
        self.assertEqual(told["rounds"][0]["resumed"], 4)
        self.assertEqual(len(outputs), 13)

    def test_a_stopped_run_is_the_beginning_of_a_whole_one(self):
        _, whole = self.told()
        told, part = self.told("--stop-after=6")
        self.assertEqual([len(r["step_ms"]) for r in told["rounds"]], [4, 2])
        for all_of_it, some in list(zip(whole, part, strict=True))[:-1]:
            self.assertTrue(all_of_it.startswith(some), some)
        self.assertGreater(sum(line.count(" ") for line in part), 12)


class Refusals(unittest.TestCase):
    def refused(self, *flags):
        done = subprocess.run([*Times.command, *SHAPE, *flags], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_a_file_that_takes_nothing_is_told(self):
        for flag in ("--json", "--outputs"):
            code, text = self.refused(flag, "/dev/full")
            self.assertEqual(code, 1)
            self.assertIn(f"{flag} /dev/full could not be written to its end (No space left on device)", text)

    def test_a_place_that_is_none_is_told_before_the_work(self):
        code, text = self.refused("--json", "/nope/times.json")
        self.assertEqual((code, text), (2, "decode_kv: --json /nope/times.json cannot be written (No such file or directory); name another file\n"))
        self.assertEqual(self.refused("--outputs", "")[0], 2)
        code, text = self.refused("--json=/dev/null", "--outputs=/dev/null")
        self.assertEqual(code, 2)
        self.assertIn("both name /dev/null", text)


if __name__ == "__main__":
    Times.command = sys.argv[1:]
    sys.argv[1:] = []
    unittest.main()
