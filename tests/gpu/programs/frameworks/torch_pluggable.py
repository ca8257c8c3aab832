"""PyTorch with an allocator of the user's own (CUDAPluggableAllocator): every tensor is a cudaMalloc of its own.

    torch_pluggable.py --library build/release/lib/libpluggable_allocator.so
"""
import argparse
import ctypes
import sys

from row_report import run_rows
import torch_parts
from torch_parts import torch

MIB = 1 << 20


def pluggable():
    allocator = torch.cuda.memory.CUDAPluggableAllocator(arguments.library, "spillway_test_allocate", "spillway_test_release")
    torch.cuda.memory.change_current_allocator(allocator)
    counters = ctypes.CDLL(arguments.library)
    counters.spillway_test_peak.restype = ctypes.c_ulonglong
    weights = [torch.full((4096, 4096), 1.0 / 4096, device="cuda") for _ in range(24)]  # 1.5 GiB
    x = torch.ones((256, 4096), device="cuda")
    sums = []
    for _ in range(4):
        for weight in weights:
            x = x @ weight
            weight.add_(1.0 / 65536)
        sums.append(x.sum(dtype=torch.float64).item())
        x = x / x.mean()
    torch.cuda.synchronize()
    return {"values": sums, "peak_bytes": counters.spillway_test_peak(), "path": "pluggable allocator (cudaMalloc)",
            "version": torch_parts.version()}


def main():
    global arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    return run_rows([("pluggable", pluggable)])


if __name__ == "__main__":
    sys.exit(main())
