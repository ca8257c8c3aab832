"""Triton kernels: through plain pointers, and through tensor descriptors (TMA), which want memory of the device."""
import sys

from row_report import need, run_rows
import torch_parts
from torch_parts import torch

need("triton")
import triton
import triton.language as tl

COUNT, ROWS, COLUMNS = 24, 4096, 4096  # 64 MiB each


@triton.jit
def scale_and_add(x, y, size, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < size
    tl.store(y + places, tl.load(x + places, mask=inside) * 2 + tl.load(y + places, mask=inside), mask=inside)


@triton.jit
def double_by_descriptor(source, target, ROW_BLOCK: tl.constexpr, COLUMN_BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * ROW_BLOCK, tl.program_id(1) * COLUMN_BLOCK
    target.store([row, column], source.load([row, column]) * 2)


def matrices():
    return [torch.full((ROWS, COLUMNS), 1.0 + number, device="cuda") for number in range(COUNT)]


def sums(blocks):
    return [block.sum(dtype=torch.float64).item() for block in blocks]


def pointers():
    torch_parts.start_row()
    blocks = matrices()
    size = ROWS * COLUMNS
    for _ in range(3):
        for source, target in zip(blocks, blocks[1:] + blocks[:1]):
            scale_and_add[(triton.cdiv(size, 4096),)](source, target, size, BLOCK=4096)
    return torch_parts.result(sums(blocks))


def descriptors():
    torch_parts.start_row()
    from triton.tools.tensor_descriptor import TensorDescriptor
    blocks = matrices()
    shape = [64, 64]
    for _ in range(3):
        for source, target in zip(blocks, blocks[1:] + blocks[:1]):
            double_by_descriptor[(ROWS // 64, COLUMNS // 64)](TensorDescriptor.from_tensor(source, shape),
                                                              TensorDescriptor.from_tensor(target, shape), 64, 64)
    return torch_parts.result(sums(blocks))


if __name__ == "__main__":
    sys.exit(run_rows([("pointers", pointers), ("descriptors", descriptors)]))
