"""CuPy: a blocked Gram matrix over more blocks than one pass needs, with the default pool or with the stream-ordered one."""
import argparse
import sys

from row_report import median_ms, need, run_rows, version_of


def gram():
    cupy = need("cupy")
    if arguments.pool == "async":
        pool = cupy.cuda.MemoryAsyncPool()
    else:
        pool = cupy.get_default_memory_pool()
    cupy.cuda.set_allocator(pool.malloc)
    shape = (arguments.rows, 1024)
    blocks = [cupy.full(shape, 1 + number % 3, dtype=cupy.float32) for number in range(arguments.blocks)]
    result = cupy.zeros((1024, 1024), dtype=cupy.float32)
    events = []
    for _ in range(arguments.passes):
        events.append([cupy.cuda.Event(), cupy.cuda.Event()])
        events[-1][0].record()
        result[...] = 0
        for index, block in enumerate(blocks):
            if index % 4 == 0:
                block += 0  # every fourth block is written as well
            result += block.T @ block
        events[-1][1].record()
    cupy.cuda.runtime.deviceSynchronize()
    times = [cupy.cuda.get_elapsed_time(*pair) for pair in events]
    expected = float(sum(arguments.rows * (1 + number % 3) ** 2 for number in range(arguments.blocks)))
    assert float(result[0, 0]) == expected, f"{float(result[0, 0])}, {expected} expected"
    peak = max(pool.total_bytes(), sum(block.nbytes for block in blocks))
    return {"values": [float(result[0, 0]), float(result.sum(dtype=cupy.float64))], "peak_bytes": int(peak),
            "path": f"{arguments.pool} pool", "version": version_of("cupy-cuda13x", "cupy-cuda12x", "cupy"),
            "step_ms": median_ms(times[len(times) // 2:])}


def main():
    global arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", choices=("default", "async"), default="default")
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--rows", type=int, default=16384, help="of 4 KiB")
    parser.add_argument("--passes", type=int, default=8)
    arguments = parser.parse_args()
    return run_rows([("gram", gram)])


if __name__ == "__main__":
    sys.exit(main())
