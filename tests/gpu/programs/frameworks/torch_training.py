"""PyTorch training under whatever allocator the environment chooses, and the features of a training script, a row each.

    torch_training.py training
    torch_training.py autocast foreach checkpoint statistics empty_cache profiler
"""
import argparse
import sys

from row_report import run_rows
import torch_parts
from torch_parts import Training, torch

MIB = 1 << 20


def train(**settings):
    torch_parts.start_row()
    training = Training(layers=arguments.layers, batch=arguments.batch, sequence=arguments.sequence, **settings)
    losses = training.run(arguments.steps)
    return torch_parts.result(losses, step_ms=training.median_step_ms())


def statistics():
    """The counters agree with each other and with what the driver says, at every stage."""
    torch_parts.start_row()
    checks = []

    def check():
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        free, total = torch.cuda.mem_get_info()
        checks.append([0 <= allocated <= reserved, 0 <= free <= total, reserved <= torch.cuda.max_memory_reserved()])
        return allocated, reserved, free

    before = check()
    blocks = [torch.full((64 * MIB // 4,), float(number), device="cuda") for number in range(32)]
    filled = check()
    sums = [block.sum(dtype=torch.float64).item() for block in blocks[::8]]
    stats = torch.cuda.memory_stats()
    del blocks
    dropped = check()
    torch.cuda.empty_cache()
    after = check()
    values = [filled[0] - before[0], dropped[0] - before[0], after[1] - before[1], stats["num_ooms"], *sums]
    values += [int(all(line)) for line in checks] + [int(before[2] >= filled[2]), int(after[2] >= filled[2])]
    return torch_parts.result(values, free_taken_bytes=before[2] - filled[2], free_returned_bytes=after[2] - filled[2])


def empty_cache():
    """Sizes that do not fit into the blocks cached for other sizes, with and without giving the cache back in between."""
    torch_parts.start_row()
    values = []
    for round_number in range(3):
        for mebibytes in (96, 160, 224):
            blocks = [torch.full((mebibytes * MIB // 4,), 1.0 + round_number, device="cuda") for _ in range(1536 // mebibytes)]
            values.append(sum(block[::4096].sum().item() for block in blocks))
            del blocks
            torch.cuda.empty_cache()
            values.append(torch.cuda.memory_reserved() < 64 * MIB)
    return torch_parts.result([float(value) for value in values])


def profiler():
    """torch.profiler sees every kernel of the steps that it watches."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile
    torch_parts.start_row()
    training = Training()
    losses = training.run(3)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        losses += training.run(2)
    names = [event.name for event in profiled.events() if event.device_type == DeviceType.CUDA]
    kernels = [name for name in names if not name.startswith(("Memcpy", "Memset"))]
    losses += training.run(1)
    return torch_parts.result([*losses, len(kernels), len(set(kernels))], kernels=len(kernels))


ROWS = {
    "training": train,
    "autocast": lambda: train(dtype=torch.float16),
    "no_autocast": lambda: train(dtype=None),
    "fused": lambda: train(optimizer="fused"),
    "foreach": lambda: train(optimizer="foreach"),
    "checkpoint": lambda: train(checkpointed=True),
    "statistics": statistics,
    "empty_cache": empty_cache,
    "profiler": profiler,
}


def main():
    global arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", choices=list(ROWS))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=256)
    arguments = parser.parse_args()
    return run_rows([(row, ROWS[row]) for row in arguments.rows])


if __name__ == "__main__":
    sys.exit(main())
