#!/usr/bin/env python3
"""Plain access patterns of public studies of oversubscription, by kernels of our own in CuPy.

`stream`: every piece is read and written once a step. `block`: every piece is read and written several times before the next one.
`random`: lines of 128 bytes at random in one large array, read. Arithmetic is on whole numbers, so that the sum is exact.
`pipeline` (stream and block) keeps in device memory what fits and streams the other pieces from pinned memory through three buffers, in
and out at once; `zero_copy` (random) keeps what does not fit in pinned memory and reads it there.
"""
import sys

import common
import cupy

SOURCE = r"""
extern "C" __global__ void change(unsigned* data, unsigned long long count, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count;
       i += (unsigned long long)gridDim.x * blockDim.x) {
    unsigned value = data[i] * 1664525u + 1013904223u;
    data[i] = value;
    mine += value;
  }
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_down_sync(0xffffffffu, mine, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
extern "C" __global__ void fill(unsigned* data, unsigned long long count, unsigned seed) {
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < count;
       i += (unsigned long long)gridDim.x * blockDim.x)
    data[i] = (unsigned)i * 2654435761u + seed;
}
// A warp reads a line; lines below `near_lines` are in `near`, the others in `far`.
extern "C" __global__ void visit(const unsigned* near, const unsigned* far, unsigned long long near_lines, unsigned long long lines,
                                 unsigned long long visits, unsigned long long seed, unsigned long long* sum) {
  unsigned long long mine = 0;
  const unsigned long long warps = (unsigned long long)gridDim.x * blockDim.x / 32;
  for (unsigned long long v = (blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x) / 32; v < visits; v += warps) {
    unsigned long long h = (v + seed) * 0x9e3779b97f4a7c15ull;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
    const unsigned long long line = (h ^ (h >> 31)) % lines;
    const unsigned* place = line < near_lines ? near + line * 32 : far + (line - near_lines) * 32;
    mine += place[threadIdx.x % 32];
  }
  for (int lane = 16; lane > 0; lane /= 2) mine += __shfl_down_sync(0xffffffffu, mine, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}
"""
BLOCKS, THREADS = 1056, 256
TO_DEVICE, TO_HOST = 1, 2  # cudaMemcpyKind
ROOM = 64 * common.MIB


class Kernels:
    def __init__(self):
        module = cupy.RawModule(code=SOURCE)
        self.change, self.fill, self.visit = (module.get_function(name) for name in ("change", "fill", "visit"))
        self.sum = cupy.zeros(1, dtype=cupy.uint64)

    def make(self, count, seed):
        data = cupy.empty(count, dtype=cupy.uint32)
        self.fill((BLOCKS,), (THREADS,), (data, cupy.uint64(count), cupy.uint32(seed)))
        return data

    def change_piece(self, data):
        self.change((BLOCKS,), (THREADS,), (data, cupy.uint64(data.size), self.sum))

    def take_sum(self):
        value = int(self.sum[0])
        self.sum[...] = 0
        return value


def pinned_array(count):
    """An array in pinned memory that kernels can read."""
    memory = cupy.cuda.alloc_pinned_memory(4 * count)
    device_memory = cupy.cuda.UnownedMemory(memory.ptr, 4 * count, memory, 0)
    return cupy.ndarray((count,), dtype=cupy.uint32, memptr=cupy.cuda.MemoryPointer(device_memory, 0))


def copy(destination, source, kind, stream):
    cupy.cuda.runtime.memcpyAsync(destination.data.ptr, source.data.ptr, source.nbytes, kind, stream.ptr)


class Pipeline:
    """Pieces in pinned memory go through three buffers: one comes in, one is worked on, one goes out."""

    def __init__(self, kernels, host, count):
        self.host = host
        self.buffers = [cupy.empty(count, dtype=cupy.uint32) for _ in range(3)]
        self.come, self.go = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
        self.arrived = [cupy.cuda.Event(disable_timing=True) for _ in range(3)]
        self.worked = [cupy.cuda.Event(disable_timing=True) for _ in range(3)]
        self.left = [cupy.cuda.Event(disable_timing=True) for _ in range(3)]

    def fetch(self, number):
        slot = number % 3
        self.come.wait_event(self.left[slot])
        copy(self.buffers[slot], self.host[number], TO_DEVICE, self.come)
        self.arrived[slot].record(self.come)

    def step(self, work):
        current = cupy.cuda.get_current_stream()
        for slot in range(3):
            self.left[slot].record(self.go)
        for number in range(min(2, len(self.host))):
            self.fetch(number)
        for number, piece in enumerate(self.host):
            slot = number % 3
            current.wait_event(self.arrived[slot])
            work(self.buffers[slot])
            self.worked[slot].record(current)
            self.go.wait_event(self.worked[slot])
            copy(piece, self.buffers[slot], TO_HOST, self.go)
            self.left[slot].record(self.go)
            if number + 2 < len(self.host):
                self.fetch(number + 2)


def pieces_step(arguments, kernels, meter):
    count = arguments.piece_mib * common.MIB // 4
    passes = arguments.passes if arguments.pattern == "block" else 1
    resident = arguments.pieces
    if arguments.offload == "pipeline":
        resident = max(0, min(arguments.pieces, (arguments.memory_limit - ROOM) // (4 * count) - 3))
    near = [kernels.make(count, number) for number in range(resident)]
    far = []
    for number in range(resident, arguments.pieces):
        made = kernels.make(count, number)
        far.append(pinned_array(count))
        copy(far[-1], made, TO_HOST, cupy.cuda.get_current_stream())
        cupy.cuda.get_current_stream().synchronize()
        del made
    meter.describe(arguments.pattern, None, True, resident_pieces=resident)
    pipeline = Pipeline(kernels, far, count) if far else None

    def work(data):
        for _ in range(passes):
            kernels.change_piece(data)

    def step(index):
        for data in near:
            work(data)
        if pipeline:
            pipeline.step(work)
        return kernels.take_sum()

    return step


def random_step(arguments, kernels, meter):
    count = arguments.pieces * arguments.piece_mib * common.MIB // 4
    inside = count
    if arguments.offload == "zero_copy":
        inside = max(32, min(count, (arguments.memory_limit - ROOM - (1 << 28)) // 4 // 32 * 32))
    near, far = cupy.empty(inside, dtype=cupy.uint32), None
    kernels.fill((BLOCKS,), (THREADS,), (near, cupy.uint64(inside), cupy.uint32(1)))
    if inside < count:
        # The same values as if all were one array, made on the device by pieces.
        far = pinned_array(count - inside)
        piece = (64 << 20) // 4
        for at in range(inside, count, piece):
            size = min(piece, count - at)
            made = cupy.arange(at, at + size, dtype=cupy.uint32) * cupy.uint32(2654435761) + cupy.uint32(1)
            copy(far[at - inside:at - inside + size], made, TO_HOST, cupy.cuda.get_current_stream())
            cupy.cuda.get_current_stream().synchronize()
            del made
            cupy.get_default_memory_pool().free_all_blocks()
    meter.describe("random", 128 * arguments.visits, False, resident_share=inside / count)

    def step(index):
        kernels.visit((BLOCKS,), (THREADS,), (near, near if far is None else far, cupy.uint64(inside // 32), cupy.uint64(count // 32),
                                              cupy.uint64(arguments.visits), cupy.uint64((index + 1) << 40), kernels.sum))
        return kernels.take_sum()

    return step


def run(arguments):
    if arguments.memory_limit:
        cupy.get_default_memory_pool().set_limit(size=arguments.memory_limit)
    meter = common.Meter(arguments, cupy.cuda.Device().synchronize)
    kernels = Kernels()
    step = (random_step if arguments.pattern == "random" else pieces_step)(arguments, kernels, meter)  # holds the arrays
    meter.run(step)
    pool = cupy.get_default_memory_pool()
    meter.finish(pool.total_bytes(), pool.used_bytes(), cupy=cupy.__version__)


def main():
    parser = common.make_parser(__doc__, ("pipeline", "zero_copy"))
    parser.add_argument("--pattern", choices=("stream", "random", "block"), default="stream")
    parser.add_argument("--pieces", type=int, default=32)
    parser.add_argument("--piece-mib", type=int, default=256)
    parser.add_argument("--passes", type=int, default=8, help="of block, over each piece")
    parser.add_argument("--visits", type=int, default=1 << 22, help="of random, a step")
    return common.main(run, parser)


if __name__ == "__main__":
    sys.exit(main())
