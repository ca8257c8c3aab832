"""The soak's script on the simulated device, with stand-ins for nvidia-smi and compute-sanitizer.

Usage: soak_test.py SPILLWAY FOLDER_OF_EXAMPLES
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "soak.sh"
CARD = """#!/bin/sh
case "$*" in
*name*) echo "card, 1, 100000, 90000";;
*) echo 90000;;
esac
"""
SIMULATED = """#!/bin/sh
command=$1
shift
case $command in
run) exec SPILLWAY run --simulated "$@";;
*) exec SPILLWAY $command "$@";;
esac
"""
SANITIZER = """#!/bin/sh
while [ "${1#/}" = "$1" ]; do shift; done
"$@" && echo "========= ERROR SUMMARY: ERRORS errors"
"""


class Soak(unittest.TestCase):
    spillway = examples = ""

    def start(self, errors, *words):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "bin").mkdir()
            for program, text in (("nvidia-smi", CARD), ("spillway", SIMULATED.replace("SPILLWAY", self.spillway)),
                                  ("compute-sanitizer", SANITIZER.replace("ERRORS", str(errors)))):
                (folder / "bin" / program).write_text(text)
                (folder / "bin" / program).chmod(0o755)
            (folder / "examples").symlink_to(self.examples)
            command = [str(SCRIPT), "--build", name, "--out", f"{name}/out", "--work", f"{name}/work", "--live", "84", "--own", "4",
                       "--operations", "900", "--memcheck-operations", "40", *words]
            done = subprocess.run(command, capture_output=True, text=True,
                                  env={**os.environ, "PATH": f"{name}/bin:{os.environ['PATH']}", "SPILLWAY_SIMULATED_MEMORY": "160MiB"})
            return done, json.loads((folder / "out/soak.json").read_text())["steps"]

    def test_every_mode_does_everything_within_the_budget(self):
        done, steps = self.start(0)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(list(steps), ["headroom", "adaptive", "demand", "arrival", "memcheck"])
        for mode in ("adaptive", "demand", "arrival"):
            self.assertEqual(steps[mode]["did"]["operations"], 900)
            self.assertTrue(steps[mode]["did"]["ended"])
            self.assertGreater(steps[mode]["device"]["moved_out"] + steps[mode]["device"]["on_host_peak"], 0, "nothing spilled")

    def test_what_memcheck_finds_fails_it(self):
        done, steps = self.start(3, "--only", "memcheck")
        self.assertEqual((done.returncode, steps["memcheck"]["error"]), (1, "memcheck reports errors"))

    def test_too_little_done_is_no_pass(self):
        done, steps = self.start(0, "--only", "arrival", "--operations", "3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing was done of", steps["arrival"]["error"])


if __name__ == "__main__":
    Soak.examples, Soak.spillway = sys.argv.pop(2), sys.argv.pop(1)
    unittest.main()
