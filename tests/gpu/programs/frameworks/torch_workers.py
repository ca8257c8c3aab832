"""Processes around a PyTorch program: DataLoader workers, forked and spawned, and CUDA tensors that another process gets.

    torch_workers.py fork | spawn | share
"""
import argparse
import sys

from row_report import run_rows
import torch_parts
from torch_parts import Training, VOCABULARY, torch

MIB = 1 << 20


class Tokens(torch.utils.data.Dataset):
    """Sequences made by the workers, each from its own seed."""

    def __init__(self, count, sequence):
        self.count, self.sequence = count, sequence

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.randint(VOCABULARY, (self.sequence + 1,), generator=torch.Generator().manual_seed(index))


def loader(method):
    training = Training()  # CUDA is up before the workers start
    data = torch.utils.data.DataLoader(Tokens(8 * training.batch, training.sequence), batch_size=training.batch, num_workers=2,
                                       pin_memory=True, multiprocessing_context=method)
    losses = [training.step(tokens.to("cuda", non_blocking=True)) for tokens in data]
    return torch_parts.result([loss.item() for loss in losses])


def consume(tensors, answers):
    """In the other process: reads what it got, and changes it."""
    for _ in range(4):
        tensor = tensors.get()
        answers.put(tensor.sum(dtype=torch.float64).item())
        tensor.mul_(2)
        torch.cuda.synchronize()
        answers.put("changed")
        del tensor


def share():
    context = torch.multiprocessing.get_context("spawn")
    tensors, answers = context.Queue(), context.Queue()
    child = context.Process(target=consume, args=(tensors, answers))
    child.start()
    values = []
    for number in range(4):
        tensor = torch.full((128 * MIB // 4,), 1.0 + number, device="cuda")
        tensors.put(tensor)
        values.append(answers.get(timeout=40))
        answers.get(timeout=20)
        values.append(tensor.sum(dtype=torch.float64).item())
    child.join(20)
    values.append(child.exitcode)
    return torch_parts.result(values)


ROWS = {"fork": lambda: loader("fork"), "spawn": lambda: loader("spawn"), "share": share}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=list(ROWS))
    arguments = parser.parse_args()
    return run_rows([(arguments.row, ROWS[arguments.row])])


if __name__ == "__main__":
    sys.exit(main())
