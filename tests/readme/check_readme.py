#!/usr/bin/env python3
"""Keeps the commands of a Markdown page true.

  check_readme.py static PAGE --build BUILD             every relative link leads somewhere; every `build/release/bin/spillway`
                                                        in an `sh` block names a command and flags that its --help shows
  check_readme.py commands PAGE --build BUILD           the page names every command of spillway: `stats` or `stats TRACE`
  check_readme.py run PAGE --build BUILD --root ROOT    runs the `sh` blocks whose first line is "# runs in CI"
  ... --expect FILE                                     exit code 0 only if the problems are exactly the lines of FILE

The blocks run in the order of the page, each in a bash of its own that stops at the first command that fails, all in one
fresh folder that looks like the repository's root: its entries are links, and build/release is BUILD. So a block reads what
an earlier one wrote, the commands run as they are printed, and nothing is left in the tree. In a reader's tree the files
are left: .gitignore has to name them.
"""
import argparse
import fnmatch
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

MARK = "# runs in CI"
SPILLWAY = "build/release/bin/spillway"
LIMIT_SECONDS = 120
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def blocks(text):
    """(line number of the first command, text) of every sh block."""
    for fence in FENCE.finditer(text):
        if fence.group(1) == "sh":
            yield text.count("\n", 0, fence.start()) + 2, fence.group(2)


def logical_lines(first, block):
    """Commands with their continuation lines joined, without here-documents."""
    lines = block.split("\n")
    index = 0
    while index < len(lines):
        number, line = first + index, lines[index]
        while line.endswith("\\") and index + 1 < len(lines):
            index += 1
            line = line[:-1] + lines[index]
        here = re.search(r"<<'(\w+)'", line)
        if here:
            while index + 1 < len(lines) and lines[index + 1] != here.group(1):
                index += 1
            index += 1
        yield number, line
        index += 1


class Help:
    """What `spillway COMMAND --help` shows; asked once each."""

    def __init__(self, spillway):
        self.spillway = spillway
        self.texts = {}

    def flags(self, command):
        if command not in self.texts:
            done = subprocess.run([self.spillway, command, "--help"], capture_output=True, text=True, timeout=LIMIT_SECONDS)
            known = f"Usage: spillway {command} " in done.stdout  # the help of all commands, otherwise
            self.texts[command] = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", done.stdout)) if known else None
        return self.texts[command]


def flag_problems(text, spillway):
    help_of = Help(spillway)
    for first, block in blocks(text):
        for number, line in logical_lines(first, block):
            words = shlex.split(line, comments=True)
            if SPILLWAY not in words:
                continue
            words = words[words.index(SPILLWAY) + 1:]
            if words and words[0] == "--version":
                continue
            command = words[0] if words else ""
            flags = help_of.flags(command)
            if flags is None:
                yield f"line {number}: \"{command}\" is no command of spillway"
                continue
            for word in words[1:]:
                if word in ("--", "|", ">"):  # the program's own flags, or another program's
                    break
                name = word.split("=")[0]
                if name.startswith("-") and name not in flags:
                    yield f"line {number}: spillway {command} has no flag {name}"


def command_problems(text, spillway):
    shown = subprocess.run([spillway, "--help"], capture_output=True, text=True, timeout=LIMIT_SECONDS).stdout
    for command in re.findall(r"^  (\w+)", shown.split("Subcommands:")[1], re.MULTILINE):
        if not re.search(rf"`{command}[` ]", text):
            yield f"the command {command} is not named"


def link_problems(text, folder):
    for number, line in enumerate(text.split("\n"), 1):
        for target in LINK.findall(line):
            if "://" not in target and not (folder / target).exists():
                yield f"line {number}: {target} is not there"


def left_problems(folder, root):
    patterns = [line.strip().strip("/") for line in (root / ".gitignore").read_text(encoding="utf-8").splitlines()]
    for entry in sorted(folder.iterdir()):
        own = not entry.is_symlink() and entry.name != "build"
        if own and not any(fnmatch.fnmatch(entry.name, pattern) for pattern in patterns):
            yield f"{entry.name} is left in the tree, and .gitignore does not name it"


def run_problems(text, root, build):
    marked = [(number, block) for number, block in blocks(text) if block.split("\n")[0].strip() == MARK]
    if not marked:
        yield f"no block begins with \"{MARK}\""
    with tempfile.TemporaryDirectory(prefix="readme-") as name:
        folder = Path(name)
        for entry in root.iterdir():
            if entry.name != "build":
                (folder / entry.name).symlink_to(entry)
        (folder / "build").mkdir()
        (folder / "build/release").symlink_to(build)
        for number, block in marked:
            print(f"== line {number}\n{block}", flush=True)
            try:
                code = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, stdin=subprocess.DEVNULL,
                                      timeout=LIMIT_SECONDS).returncode
            except subprocess.TimeoutExpired:
                code = f"none within {LIMIT_SECONDS} s"
            if code != 0:
                yield f"line {number}: exit code {code}"
        yield from left_problems(folder, root)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["static", "commands", "run"])
    parser.add_argument("page", type=Path)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--expect", type=Path)
    arguments = parser.parse_args()
    text = arguments.page.read_text(encoding="utf-8")
    build = arguments.build.resolve()
    if arguments.what == "run":
        found = list(run_problems(text, (arguments.root or arguments.page.parent).resolve(), build))
    elif arguments.what == "commands":
        found = list(command_problems(text, build / "bin/spillway"))
    else:
        found = list(link_problems(text, arguments.page.parent)) + list(flag_problems(text, build / "bin/spillway"))
    print("\n".join(found + [f"{len(found)} problems"]), flush=True)
    if arguments.expect is None:
        return 1 if found else 0
    expected = arguments.expect.read_text(encoding="utf-8").splitlines()
    return 0 if found == expected else 1


sys.exit(main())
