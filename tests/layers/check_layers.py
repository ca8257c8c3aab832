#!/usr/bin/env python3
"""Fails on an include against the layers, and on what a layer must not use.

  check_layers.py ROOT              every violation as file:line: sentence
  check_layers.py ROOT --expect F   exit code 0 only if the violations are exactly the lines of F (for the bad tree)
"""
import argparse
import re
import sys
from pathlib import Path

SUFFIXES = {".hpp", ".cpp", ".h", ".cu", ".cuh", ".def", ".inc"}

# Which folders of ours a layer may include.
MAY_INCLUDE = {
    "policy": {"policy"},
    "kernels": {"kernels"},
    "shim": {"shim", "policy", "kernels"},
    "tools": {"tools", "policy", "kernels"},
    "examples": {"examples", "kernels"},  # their workloads; nothing of Spillway itself
}
LAYERS = set(MAY_INCLUDE) | {"tests"}

# What a layer must not use: (pattern on code without comments and text, why).
FORBIDDEN = {
    "policy": [
        (r"#\s*include\s*<(cuda|cupti|nvml)\w*\.h>", "policy knows no CUDA"),
        (r"#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|future|semaphore|stop_token)>", "policy has no threads"),
        (r"#\s*include\s*<(fstream|filesystem|unistd\.h|fcntl\.h|sys/\w+\.h)>", "policy has no file access"),
        (r"\b\w+_clock\b|\bclock_gettime\b|\bgettimeofday\b", "policy has no clock: time comes as an event"),
        (r"\b(secure_)?getenv\b|\benviron\b", "policy has no environment: settings are given to it"),
        (r"\bstd::j?thread\b|\bpthread_\w+", "policy has no threads"),
        (r"\bfopen\s*\(|(?<![\w>])::open\s*\(|\bstd::[io]?fstream\b", "policy has no file access"),
    ],
    "shim": [
        (r"(?<![\w:])(std::)?v?printf\s*\(|\bstd::cout\b|(?<![\w:])(std::)?puts\s*\(|(?<![\w:])(std::)?putchar\s*\(|\bstdout\b",
         "stdout is the program's"),
    ],
}
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def code_lines(text):
    """The lines without comments and, but for includes, without text in quotes."""
    def blank(match):
        found = match.group(0)
        if found.startswith("/"):
            return "\n" * found.count("\n")
        return '""' + "\n" * found.count("\n")

    pattern = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'')
    with_includes = re.sub(r'^(\s*#\s*include\s*)"([^"\n]+)"', r"\1<<\2>>", text, flags=re.MULTILINE)
    plain = pattern.sub(blank, with_includes)
    return [re.sub(r"^(\s*#\s*include\s*)<<([^>]+)>>", r'\1"\2"', line) for line in plain.split("\n")]


def check_file(layer, name, lines):
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line)
        if include:
            target = include.group(1).split("/")[0]
            if target in LAYERS and target not in MAY_INCLUDE[layer]:
                yield f"{name}:{number}: {layer} must not include {include.group(1)}"
            if layer == "shim" and target == "kernels" and not include.group(1).endswith(".hpp"):
                yield f"{name}:{number}: shim may include only plain headers of kernels, not {include.group(1)}"
            if "/" not in include.group(1) and not name.endswith((".cu", ".cuh")):
                yield f"{name}:{number}: {include.group(1)} is not included by its full path from the root"
            if ".." in include.group(1).split("/"):
                yield f"{name}:{number}: {include.group(1)} is not included by its full path from the root"
        for pattern, why in FORBIDDEN.get(layer, []):
            found = re.search(pattern, line)
            if found:
                yield f"{name}:{number}: {found.group(0).strip()}: {why}"


def violations(root):
    callers_of_getenv = []
    for layer in sorted(MAY_INCLUDE):
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            lines = code_lines(path.read_text(encoding="utf-8", errors="replace"))
            yield from check_file(layer, name, lines)
            if layer == "shim" and any(GETENV.search(line) for line in lines):
                callers_of_getenv.append(name)
    if len(callers_of_getenv) > 1:
        yield "shim: getenv is called in more than one file: " + ", ".join(callers_of_getenv)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--expect", type=Path)
    arguments = parser.parse_args()
    found = list(violations(arguments.root))
    if arguments.expect is None:
        print("\n".join(found + [f"{len(found)} violations"]))
        return 1 if found else 0
    expected = arguments.expect.read_text(encoding="utf-8").splitlines()
    for line in expected:
        if line not in found:
            print(f"not found: {line}")
    for line in found:
        if line not in expected:
            print(f"not expected: {line}")
    return 0 if found == expected else 1


sys.exit(main())
