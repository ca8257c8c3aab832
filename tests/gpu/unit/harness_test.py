"""What the topics share, with a stand-in for the card."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tarfile
import tempfile
import time
import unittest
from unittest import mock

import harness
from harness import GIB

CARD = """#!/bin/sh
case "$*" in
*name*) echo "card, 1, 100000, FREE";;
*) echo FREE;;
esac
"""


class Main(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.ran = []

    def start(self, *words, free=90000, steps=None, planned=GIB, smi=True):
        if smi:
            (self.folder / "nvidia-smi").write_text(CARD.replace("FREE", str(free)))
            (self.folder / "nvidia-smi").chmod(0o755)
        arguments = ["x.sh", "--build", str(self.folder), "--out", str(self.folder / "out"), "--work", str(self.folder / "work"), *words]
        steps = steps or (lambda topic, _: [(name, self.ran.append, name) for name in ("one", "two")])
        with mock.patch.object(sys, "argv", arguments), mock.patch.dict(os.environ, {"PATH": f"{self.folder}:/usr/bin:/bin"}), \
                contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors, \
                mock.patch.object(harness, "end_by_signal"):
            self.code = harness.main("x", "text", planned, steps, fixed_mode="")
        self.out, self.errors = out.getvalue(), errors.getvalue()

    def result(self):
        return json.loads((self.folder / "out/x.json").read_text())

    def test_steps_run_in_order_and_leave_a_result(self):
        self.start()
        self.assertEqual((self.code, self.ran, self.result()["passed"]), (0, ["one", "two"], 3))

    def test_nothing_begins_without_half_of_the_free_memory(self):
        self.start(free=3000, planned=2 * GIB)
        self.assertEqual((self.code, self.ran), (1, []))
        self.assertIn("less than half of that is allowed", self.result()["steps"]["headroom"]["error"])

    def test_a_chosen_step_does_not_go_round_that(self):
        self.start("--only", "two", free=3000, planned=2 * GIB)
        self.assertEqual((self.code, self.ran), (1, []))
        self.start("--only", "two")
        self.assertEqual((self.code, self.ran), (0, ["two"]))
        self.start("--only", "three")
        self.assertEqual(self.code, 1)
        self.assertIn("no step matches --only three", self.out)

    def test_without_a_card_there_is_a_line(self):
        with mock.patch.object(harness, "query_card", side_effect=FileNotFoundError("nvidia-smi")):
            self.start(smi=False)
        self.assertEqual((self.code, self.ran), (1, []))
        self.assertIn("x.sh: nvidia-smi does not answer", self.errors)

    def test_a_result_names_no_folder_of_this_machine(self):
        def steps(topic, _):
            command = [sys.executable, "-c", "", topic.build / "examples/x", harness.ROOT / "examples/y", topic.work / "z", topic.out]
            return [("one", lambda: topic.run(command, 30))]
        self.start(steps=steps)
        self.assertEqual(self.result()["steps"]["one"]["commands"], ["python3 -c '' build/release/examples/x examples/y work/z out"])
        self.assertEqual([path.name for path in (self.folder / "out").iterdir()], ["x.json"])

    def test_a_failure_leaves_an_archive_of_the_logs(self):
        command = [sys.executable, "-c", "print('here'); raise SystemExit(4)"]
        self.start(steps=lambda topic, _: [("one", lambda: topic.run(command, 30))])
        self.assertEqual(self.code, 1)
        with tarfile.open(self.folder / "out/x.tar.gz") as archive:
            self.assertIn(b"here", archive.extractfile("x/x-001.log").read())

    def test_lines_of_progress_are_shown_while_a_program_runs(self):
        code = "import time\nfor n in range(3):\n    print('progress:', n, flush=True)\n    print('other', flush=True)\n    time.sleep(0.1)\nraise SystemExit(0)"
        self.start(steps=lambda topic, _: [("one", lambda: topic.run([sys.executable, "-c", code], 30, echo="progress:"))])
        self.assertEqual([line.strip() for line in self.out.splitlines() if "progress" in line], [f"progress: {n}" for n in range(3)])
        self.assertNotIn("other", self.out)

    def test_a_program_beyond_its_limit_is_ended_with_what_it_started(self):
        number = self.folder / "child"
        code = ("import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\n"
                f"open({str(number)!r}, 'w').write(str(child.pid))\ntime.sleep(600)")
        self.start(steps=lambda topic, _: [("one", lambda: topic.run([sys.executable, "-c", code], 6, echo="progress:"))])
        self.assertIn("took longer than 6 s", self.result()["steps"]["one"]["error"])
        deadline = time.monotonic() + 10
        status = pathlib.Path(f"/proc/{number.read_text()}/stat")
        gone = lambda: not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] in "ZX"
        while not gone() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertTrue(gone())

    def test_an_archive_has_the_small_files_and_names_the_others(self):
        def steps(topic, _):
            (topic.work / "sub").mkdir()
            (topic.work / "sub/small.log").write_bytes(b"x" * 100)
            (topic.work / "large.swt").write_bytes(b"x" * 2000)
            return [("one", lambda: topic.archive(most=1000))]
        self.start(steps=steps)
        with tarfile.open(self.folder / "out/x.tar.gz") as archive:
            self.assertEqual(archive.getnames(), ["x/sub/small.log"])
        self.assertEqual(self.result()["left_out_of_archive"], ["large.swt (2000 bytes)"])


if __name__ == "__main__":
    unittest.main()
