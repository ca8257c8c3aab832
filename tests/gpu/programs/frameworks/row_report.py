"""What every program of the compatibility matrix prints: a line `RESULT {...}` for each of its rows. Standard library only.

A row's function returns a dictionary: `values` (numbers that must be the same bare and under Spillway), `peak_bytes`, `path` (how the
memory was asked for), `version`, and any figures. A row that ends in an error says so, and the next one runs.
"""
import importlib.metadata
import json
import statistics
import traceback

OUT_OF_MEMORY_EXIT = 3


class NotInstalled(Exception):
    """What the row needs is not on this machine; the text says what."""


def need(module, what=None):
    """Imports a module, or ends the row as `not installed`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise NotInstalled(f"{what or module}: {error}") from None


def version_of(*packages):
    """Name and version of each package that is there."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join(found)


def is_out_of_memory(error):
    text = f"{type(error).__name__} {error}"
    return any(word in text for word in ("OutOfMemory", "out of memory", "OUT_OF_MEMORY", "RESOURCE_EXHAUSTED", "MemoryAllocation"))


def print_row(row, result):
    print("RESULT " + json.dumps({"row": row, **result}), flush=True)


def run_rows(rows):
    """Runs (name, function) pairs one after the other; returns the exit code."""
    code = 0
    for name, function in rows:
        try:
            print_row(name, function())
        except NotInstalled as missing:
            print_row(name, {"not_installed": str(missing)})
        except Exception as error:  # whatever it is, it is this row's error
            no_memory = is_out_of_memory(error)
            text = f"{type(error).__name__}: {error}"
            if not no_memory:
                traceback.print_exc()
            print_row(name, {"error": text[:600], "out_of_memory": no_memory})
            code = max(code, OUT_OF_MEMORY_EXIT) if no_memory and code != 1 else 1
            traceback.clear_frames(error.__traceback__)
    return code


def median_ms(times):
    return statistics.median(times) if times else None
