"""Numba: a kernel over arrays that together take 1.5 GiB, round and round."""
import sys

from row_report import NotInstalled, need, run_rows, version_of

COUNT, SIZE = 24, 16 * (1 << 20)  # of 64 MiB


def numba_kernel():
    numba, numpy = need("numba"), need("numpy")
    cuda = need("numba.cuda")
    if not cuda.is_available():
        raise NotInstalled("Numba sees no CUDA device")

    @cuda.jit
    def scale_and_add(x, y):
        index = cuda.grid(1)
        if index < y.size:
            y[index] = (y[index] + 2 * x[index]) % 65521

    arrays = []
    for number in range(COUNT):
        array = cuda.device_array(SIZE, dtype=numpy.uint32)
        array.copy_to_device(numpy.arange(number, number + SIZE, dtype=numpy.uint32) % numpy.uint32(1000))
        arrays.append(array)
    for _ in range(4):
        for source, target in zip(arrays, arrays[1:] + arrays[:1]):
            scale_and_add[(SIZE + 255) // 256, 256](source, target)
    cuda.synchronize()
    values = [int(array.copy_to_host().sum(dtype=numpy.uint64)) for array in arrays[::4]]
    return {"values": values, "peak_bytes": COUNT * SIZE * 4, "path": "cuMemAlloc, an array each",
            "version": version_of("numba", "numba-cuda")}


if __name__ == "__main__":
    sys.exit(run_rows([("kernel", numba_kernel)]))
