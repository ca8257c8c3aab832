"""A CuPy program: a blocked Gram matrix over more blocks than one pass needs, pass after pass, and its sum checked.

    cupy_blocks.py --blocks 24 --passes 24
"""
import argparse
import json
import statistics
import sys
import time

import cupy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--passes", type=int, default=24)
    parser.add_argument("--json", help="waits after each pass, and writes what the passes took here")
    arguments = parser.parse_args()
    shape = (arguments.rows, arguments.columns)
    blocks = [cupy.full(shape, 1 + number % 3, dtype=cupy.float32) for number in range(arguments.blocks)]
    gram = cupy.zeros((arguments.columns, arguments.columns), dtype=cupy.float32)
    pass_ms = []
    for number in range(arguments.passes):
        began = time.perf_counter()
        gram[...] = 0
        for index, block in enumerate(blocks):
            if index % 4 == 0:
                block += 0  # every fourth block is written as well
            gram += block.T @ block
        if arguments.json:
            cupy.cuda.get_current_stream().synchronize()
            pass_ms.append((time.perf_counter() - began) * 1e3)
    total = float(gram[0, 0])
    expected = float(sum(arguments.rows * (1 + number % 3) ** 2 for number in range(arguments.blocks)))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"pass_ms": pass_ms, "median_last_ms": statistics.median(pass_ms[-10:]), "sum": total,
                       "reserved_bytes": cupy.get_default_memory_pool().total_bytes()}, file)
    print(f"{cupy.get_default_memory_pool().total_bytes() / 2**20:.1f} MiB reserved; gram[0, 0] = {total}, expected {expected}")
    return 0 if total == expected else 1


if __name__ == "__main__":
    sys.exit(main())
