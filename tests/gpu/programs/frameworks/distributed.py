"""Two ranks, a GPU each, started by torchrun: DDP and FSDP training, and all-reduces with and without graphs. Rank 0 prints the rows.

    python3 -m torch.distributed.run --nproc-per-node 2 distributed.py ddp | fsdp | all_reduce
"""
import argparse
import os
import sys

os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")  # its watchdog must not ask about events while a graph is captured

from row_report import print_row, run_rows
import torch_parts
from torch_parts import BATCHES, Training, torch
import torch.distributed as dist

MIB = 1 << 20


def gathered(values):
    """The values of all ranks, one after the other."""
    mine = torch.tensor(values, dtype=torch.float64, device="cuda")
    all_of_them = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_of_them, mine)
    return [value for part in all_of_them for value in part.tolist()]


def result(values):
    peak = torch.tensor([torch.cuda.max_memory_reserved()], device="cuda")
    values = gathered(values)
    dist.all_reduce(peak, op=dist.ReduceOp.MAX)
    return {**torch_parts.result(values), "peak_bytes": int(peak.item()), "ranks": dist.get_world_size()}


def train(wrap):
    training = Training()
    training.data = (training.data + dist.get_rank()) % torch_parts.VOCABULARY  # each rank its own tokens
    training.model = wrap(training.model)
    training.optimizer = torch.optim.AdamW(training.model.parameters(), lr=3e-4, fused=True)
    losses = [training.step(training.data[step % BATCHES]) for step in range(arguments.steps)]
    return result([loss.item() for loss in losses])


def ddp():
    from torch.nn.parallel import DistributedDataParallel
    return train(lambda model: DistributedDataParallel(model, device_ids=[torch.cuda.current_device()]))


def fsdp():
    from torch.distributed.fsdp import fully_shard

    def shard(model):
        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)

    return train(shard)


def all_reduce():
    """Sums of whole numbers in buffers that together do not fit; then the same replayed from a graph."""
    rank = dist.get_rank()
    buffers = [torch.full((64 * MIB // 4,), float(number + 100 * rank), device="cuda") for number in range(24)]
    sums = []
    for buffer in buffers:
        dist.all_reduce(buffer)
    sums += [buffer.sum(dtype=torch.float64).item() for buffer in buffers]
    some = buffers[-6:]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for buffer in some:
            dist.all_reduce(buffer)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    sums += [buffer.sum(dtype=torch.float64).item() for buffer in some]
    expected = [(2 * number + 100) * (64 * MIB // 4) for number in range(24)]
    assert sums[:24] == expected, f"sums {sums[:3]}, {expected[:3]} expected"
    assert sums[24:] == [8.0 * value for value in expected[-6:]], f"sums of the graph {sums[24:26]}"
    return result(sums)


ROWS = {"ddp": ddp, "fsdp": fsdp, "all_reduce": all_reduce}


def main():
    global arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    rank, here = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if torch.cuda.device_count() <= here:
        if rank == 0:
            print_row(arguments.row, {"not_installed": f"{torch.cuda.device_count()} GPUs, and each rank needs one"})
        return 0
    torch.cuda.set_device(here)
    dist.init_process_group("nccl", device_id=torch.device("cuda", here))
    if rank == 0:
        code = run_rows([(arguments.row, ROWS[arguments.row])])
    else:
        ROWS[arguments.row]()
        code = 0
    dist.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
