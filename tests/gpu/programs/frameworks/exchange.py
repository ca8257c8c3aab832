"""Tensors that change hands by DLPack, without a copy: PyTorch's memory seen by CuPy and by JAX, and CuPy's by PyTorch."""
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

from row_report import NotInstalled, need, run_rows, version_of

MIB = 1 << 20
BLOCKS, BLOCK = 16, 96 * MIB // 4


def blocks_of(torch):
    return [torch.full((BLOCK,), 1.0 + number, device="cuda") for number in range(BLOCKS)]


def with_cupy():
    torch, cupy = need("torch"), need("cupy")
    blocks = blocks_of(torch)
    views = [cupy.from_dlpack(block) for block in blocks]
    same = all(view.data.ptr == block.data_ptr() for view, block in zip(views, blocks))
    for view in views:
        view *= 2  # on CuPy's stream, which is the same legacy default stream
    cupy.cuda.runtime.deviceSynchronize()
    back = torch.from_dlpack(cupy.arange(BLOCK, dtype=cupy.float32))
    values = [block.sum(dtype=torch.float64).item() for block in blocks] + [back.sum(dtype=torch.float64).item(), int(same)]
    return {"values": values, "peak_bytes": torch.cuda.max_memory_reserved() + 2 * BLOCK * 4, "path": "DLPack, native",
            "version": version_of("torch", "cupy-cuda13x", "cupy-cuda12x")}


def with_jax():
    torch, jax = need("torch"), need("jax")
    need("jax.dlpack")
    if jax.default_backend() != "gpu":
        raise NotInstalled(f"JAX for CUDA: its backend is {jax.default_backend()}")
    jax.config.update("jax_enable_x64", True)
    blocks = blocks_of(torch)
    torch.cuda.synchronize()
    double_sum = jax.jit(lambda x: x.astype("float64").sum())
    values = [float(double_sum(jax.dlpack.from_dlpack(block))) for block in blocks]
    made = torch.from_dlpack(jax.numpy.arange(BLOCK, dtype="float32"))
    values.append(made.sum(dtype=torch.float64).item())
    return {"values": values, "peak_bytes": torch.cuda.max_memory_reserved() + 2 * BLOCK * 4, "path": "DLPack, native",
            "version": version_of("torch", "jax")}


if __name__ == "__main__":
    sys.exit(run_rows([("cupy", with_cupy), ("jax", with_jax)]))
