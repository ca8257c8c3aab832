#!/usr/bin/env python3
"""The files in examples/launchers name only settings, flags and files that there are."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/launchers"
REFERENCE = (ROOT / "docs/policy_reference.md").read_text()


def problems_of(text):
    """Settings and flags in a file that the reference does not have."""
    found = []
    for name in sorted(set(re.findall(r"\bSPILLWAY_[A-Z_]+", text))):
        if f"`{name}`" not in REFERENCE:
            found.append(f"{name} is no setting")
    for command in re.findall(r"spillway run ((?:.|\\\n)*?) -- ", text.replace("\\\n", " ")):
        for flag in re.findall(r"(?<!\S)--[a-z-]+", command):
            if flag not in ("--policy", "--summary") and f"`{flag}`" not in REFERENCE:
                found.append(f"{flag} is no flag of run")
    return found


class LauncherFiles(unittest.TestCase):
    def test_settings_and_flags_are_known(self):
        files = sorted(FOLDER.iterdir())
        self.assertGreaterEqual(len(files), 2)
        for file in files:
            self.assertEqual(problems_of(file.read_text()), [], file.name)

    def test_unknown_ones_would_be_found(self):
        text = "SPILLWAY_DEVICE_BUDGET SPILLWAY_MAGIC\nspillway run --device-budget 1GiB \\\n  --no-such-flag 3 -- python\n"
        self.assertEqual(problems_of(text), ["SPILLWAY_MAGIC is no setting", "--no-such-flag is no flag of run"])

    def test_the_batch_file_is_a_shell_script(self):
        done = subprocess.run(["bash", "-n", FOLDER / "slurm.sbatch"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_mounts_of_the_manifest_are_volumes_of_it(self):
        text = (FOLDER / "kubernetes.yaml").read_text()
        self.assertNotIn("\t", text)
        mounts = set(re.findall(r"- name: (\w+)\n\s+mountPath:", text))
        volumes = set(re.findall(r"- name: (\w+)\n\s+(?:emptyDir|persistentVolumeClaim):", text))
        self.assertEqual(mounts, volumes)
        library = re.search(r"name: LD_PRELOAD\n\s+value: (\S+)", text).group(1)
        self.assertIn("libspillway.so /spillway/", text)
        self.assertEqual(library, "/spillway/libspillway.so")
        indents = {len(line) - len(line.lstrip(" ")) for line in text.splitlines() if line.strip()}
        self.assertTrue(all(indent % 2 == 0 for indent in indents))


if __name__ == "__main__":
    unittest.main()
