#!/usr/bin/env python3
"""A CuPy program over blocks: the Gram matrix of a tall matrix, block by block, round and round.

`pipeline` is the usual out-of-core loop: what does not fit is in pinned memory and comes through two buffers while the block before
is multiplied.
"""
import sys

import common
import cupy

from access import TO_DEVICE, TO_HOST, copy

ROOM = 512 * common.MIB  # the result, products and workspaces


def pinned_like(block):
    memory = cupy.cuda.alloc_pinned_memory(block.nbytes)
    device_memory = cupy.cuda.UnownedMemory(memory.ptr, block.nbytes, memory, 0)
    pinned = cupy.ndarray(block.shape, dtype=block.dtype, memptr=cupy.cuda.MemoryPointer(device_memory, 0))
    copy(pinned, block, TO_HOST, cupy.cuda.get_current_stream())
    cupy.cuda.get_current_stream().synchronize()
    return pinned


def run(arguments):
    pool = cupy.get_default_memory_pool()
    if arguments.memory_limit:
        pool.set_limit(size=arguments.memory_limit)
    meter = common.Meter(arguments, cupy.cuda.Device().synchronize)
    shape = (arguments.rows, arguments.columns)
    block_bytes = 4 * arguments.rows * arguments.columns
    resident = arguments.blocks
    if arguments.offload == "pipeline":
        resident = max(0, min(arguments.blocks, (arguments.memory_limit - ROOM) // block_bytes - 2))
    near = [cupy.full(shape, 1 + number % 3, dtype=cupy.float32) for number in range(resident)]
    far = []
    for number in range(resident, arguments.blocks):
        made = cupy.full(shape, 1 + number % 3, dtype=cupy.float32)
        far.append(pinned_like(made))
        del made
    gram = cupy.zeros((arguments.columns, arguments.columns), dtype=cupy.float32)
    meter.describe("out_of_core", None, False, resident_blocks=resident)
    buffers = [cupy.empty(shape, dtype=cupy.float32) for _ in range(2 if far else 0)]
    come = cupy.cuda.Stream(non_blocking=True)
    arrived, free = ([cupy.cuda.Event(disable_timing=True) for _ in range(2)] for _ in range(2))

    def add(block):
        gram[...] += block.T @ block

    def step(index):
        current = cupy.cuda.get_current_stream()
        gram[...] = 0

        def fetch(number):
            slot = number % 2
            come.wait_event(free[slot])
            copy(buffers[slot], far[number], TO_DEVICE, come)
            arrived[slot].record(come)

        for slot in range(2):
            free[slot].record(current)
        for number in range(min(2, len(far))):
            fetch(number)
        for block in near:  # the first two buffers fill meanwhile
            add(block)
        for number in range(len(far)):
            slot = number % 2
            current.wait_event(arrived[slot])
            add(buffers[slot])
            free[slot].record(current)
            if number + 2 < len(far):
                fetch(number + 2)
        return [float(gram[0, 0]), float(gram[-1, 1])]

    meter.run(step)
    meter.finish(pool.total_bytes(), pool.used_bytes(), cupy=cupy.__version__)


def main():
    parser = common.make_parser(__doc__, ("pipeline",))
    parser.add_argument("--blocks", type=int, default=32)
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--columns", type=int, default=2048)
    return common.main(run, parser)


if __name__ == "__main__":
    sys.exit(main())
