#!/usr/bin/env python3
"""Fails when the launch path takes more instructions than it did.

  count_instructions.py PROGRAM RECORDED --build-type Release

Callgrind counts what is executed within `counted_launches`; that does not depend on the machine's speed or load. RECORDED holds a count a
launch for each build type and case. More than MARGIN above it fails; so far below it is said. SPILLWAY_REFRESH_GOLDEN=1 writes the
counts of this build type anew: do so when a change is meant, and review the diff.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MARGIN = 0.10  # compilers differ by some percent
LAUNCHES = 2000
CASES = (("record", 10), ("record", 60), ("symbol", 10))


def parse(text):
    """{(build type, case, pointers): instructions a launch}; a line that is none of it is named."""
    counts = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\w+) +(\w+) +(\d+) pointers +([\d.]+)", line.strip())
        if not match:
            raise SystemExit(f"line {number} is no count: {line!r}; write 'BUILD_TYPE CASE N pointers COUNT', or refresh the file")
        counts[(match[1], match[2], int(match[3]))] = float(match[4])
    return counts


def write(counts):
    head = ("# Instructions that Spillway adds to a launch of 60 argument words with 10,000 live allocations; made by count_instructions.py.\n"
            "# record: reading and recording it. symbol: a whole cuLaunchKernel through the exported symbol, the stand-in driver's included.\n")
    return head + "".join(f"{kind:15} {case:7} {pointers:3} pointers {count:10.1f}\n" for (kind, case, pointers), count in sorted(counts.items()))


def verdict(case, recorded, counted):
    """(passes, sentence)."""
    name = f"{case[0]} with {case[1]} pointers"
    if recorded is None:
        return False, f"{name}: no count is recorded for this build type; run once with SPILLWAY_REFRESH_GOLDEN=1, and look at what it says"
    change = counted / recorded - 1
    text = f"{name}: {counted:.1f} instructions a launch, {recorded:.1f} recorded ({100 * change:+.1f}%)"
    if change > MARGIN:
        return False, f"{text}; {100 * MARGIN:.0f}% more are allowed. If the change is meant: SPILLWAY_REFRESH_GOLDEN=1, and review the diff"
    if change < -MARGIN:
        text += "; so much better that it is worth to be recorded: SPILLWAY_REFRESH_GOLDEN=1"
    return True, text


def count(program, case, folder):
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("valgrind is missing; tools/development/install_dependencies.sh test installs it")
    command = [valgrind, "--tool=callgrind", "--toggle-collect=counted_launches", f"--callgrind-out-file={folder}/out", program, case[0],
               str(case[1]), str(LAUNCHES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    collected = re.search(r"Collected *: *(\d+)", done.stderr)
    if done.returncode != 0 or not collected or int(collected[1]) == 0:
        raise SystemExit(f"callgrind counted nothing (exit code {done.returncode}): {done.stdout}{done.stderr[-600:]}")
    return int(collected[1]) / (LAUNCHES + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("recorded")
    parser.add_argument("--build-type", required=True)
    arguments = parser.parse_args()
    file = pathlib.Path(arguments.recorded)
    counts = parse(file.read_text()) if file.exists() else {}
    passes = True
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            counted = count(arguments.program, case, folder)
            key = (arguments.build_type, *case)
            if os.environ.get("SPILLWAY_REFRESH_GOLDEN"):
                counts[key] = round(counted, 1)
                print(f"{case[0]} with {case[1]} pointers: {counted:.1f} instructions a launch, recorded")
                continue
            good, text = verdict(case, counts.get(key), counted)
            passes = passes and good
            print(("ok: " if good else "FAILED: ") + text, flush=True)
    if os.environ.get("SPILLWAY_REFRESH_GOLDEN"):
        file.write_text(write(counts))
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main())
