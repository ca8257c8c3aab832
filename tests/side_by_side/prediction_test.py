"""What `spillway plan` expects of the golden traces is a time of a step, by the runner's own reading of it.

Usage: prediction_test.py SPILLWAY
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import figures

# Steps of the programs as tests/gpu/record_golden.py ran them.
STEPS = {"train_gpt2_fused": 24, "train_gpt2_foreach": 24, "generate_llama": 48, "train_adam": 40}


class Prediction(unittest.TestCase):
    spillway = ""

    def ask(self, trace, *words):
        done = subprocess.run([self.spillway, *words[:1], str(trace), *words[1:]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_golden_trace_has_an_expected_step(self):
        for name, steps in STEPS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                trace = ROOT / "tests/golden/traces" / f"{name}.swt"
                stats = self.ask(trace, "stats", "--json")
                launches = stats["launches"]
                expected = self.ask(trace, "plan", "--device-budget", str(stats["devices"][0]["budget"]), "-o", f"{folder}/plan.toml", "--json")
                found = figures.prediction(expected, launches, steps, measured=2 * expected["seconds"])
                self.assertGreater(found["seconds"], 0)
                self.assertGreaterEqual(found["seconds"], found["least_seconds"] * 0.999)
                self.assertTrue(found["fits"])
                # A step of these programs is one or several iterations, or one part of one; its time is so many times the iteration's.
                self.assertAlmostEqual(found["seconds"], expected["seconds"] * found["units_in_step"])
                self.assertAlmostEqual(found["error"], (found["seconds"] - 2 * expected["seconds"]) / (2 * expected["seconds"]))
                self.assertGreater(expected["recorded_seconds"], 0)
                # All of a step's launches are in the iterations that make it, but for what comes once at the start. Where none was found the
                # figures are of a launch.
                length = expected["iteration_launches"] or 1
                self.assertLess(abs(found["units_in_step"] * length * steps / launches - 1), 0.35)


if __name__ == "__main__":
    Prediction.spillway = sys.argv.pop(1)
    unittest.main()
