"""Records the golden traces on a real GPU; see record_golden.sh.

Small programs, so that a trace stays below 300 KiB; every kernel is timed, so that a replay knows the compute times. Each runs bare
first: half of its peak is the budget. The traces are copied into the --out folder; move them to tests/golden/traces, and refresh what is
expected of them with SPILLWAY_REFRESH_GOLDEN=1.
"""
import json
import re
import struct
import sys
import zlib

from harness import GIB, MIB, ROOT, expect, main

PYTORCH = ROOT / "examples/pytorch"
PROGRAMS = ROOT / "tests/gpu/programs"
LARGEST = 300 << 10
GPT = ["--layers", 6, "--width", 768, "--batch", 8, "--sequence", 512, "--steps", 2, "--warmup", 22]


def without_folder(trace):
    """The trace with another name of the same length for the folder of this checkout (policy/trace/FORMAT.md: the header)."""
    length, = struct.unpack_from("<I", trace, 12)
    folder = f"{ROOT}/".encode()
    neutral = (b"/home/user" + b"x" * len(folder))[:len(folder) - 1] + b"/"
    header = trace[20:20 + length].replace(folder, neutral)
    return trace[:16] + struct.pack("<I", zlib.crc32(header)) + header + trace[20 + length:]


def record(topic, name, command, peak_of, extra=()):
    """`peak_of`: bytes that the bare run held, from its output or its JSON."""
    peak = peak_of(topic, command)
    trace = topic.work / f"{name}.swt"
    topic.spillway(command, trace, budget=int(peak // 2), limit=120, extra=["--telemetry-sample", "100%", *extra])
    topic.figures.update(peak_bytes=peak, trace_bytes=trace.stat().st_size)
    stats = topic.stats(trace)
    expect(stats["whole"] and stats["dropped_events"] == 0, "the trace is not whole")
    expect(trace.stat().st_size <= LARGEST, f"{trace.stat().st_size} bytes are more than {LARGEST}")
    (topic.out / f"{name}.swt").write_bytes(without_folder(trace.read_bytes()))


def peak_in_json(topic, command):
    file = topic.work / "bare.json"
    topic.run([*command, "--json", file], 90)
    return json.loads(file.read_text())["peak_reserved_bytes"]


def peak_in_text(topic, command):
    return float(re.search(r"([0-9.]+) MiB (?:allocated|reserved)", topic.run(command, 90)).group(1)) * MIB


def steps_of(topic, arguments):
    def python(name, *command):
        return (name, record, topic, name, ["python3", *command], peak_in_json)

    def plain(name, *command):
        return (name, record, topic, name, list(command), peak_in_text)

    examples = topic.build / "examples"
    return [
        *(python(f"train_gpt2_{optimizer}", PYTORCH / "train_gpt2.py", *GPT, "--optimizer", optimizer) for optimizer in ("fused", "foreach")),
        python("generate_llama", PYTORCH / "generate_llama.py", "--layers", 6, "--tokens", 48),
        plain("train_adam", examples / "train_adam", "--layers", 8, "--width", 4096, "--batch", 64, "--steps", 40, "--verify", 2),
        plain("decode_kv", examples / "decode_kv", "--requests", 64, "--resident", 8, "--context", 1024, "--steps", 32, "--layers", 4, "--heads", 8,
              "--check", 1),
        plain("cupy_blocks", "python3", PROGRAMS / "cupy_blocks.py"),
    ]


if __name__ == "__main__":
    sys.exit(main("record_golden", __doc__, 16 * GIB, steps_of, fixed_mode="adaptive"))
