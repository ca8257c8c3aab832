"""A loop that halves its batch on an out-of-memory error, as many inference scripts do: the result is independent of the batch."""
import argparse
import sys

from row_report import run_rows
import torch_parts
from torch_parts import torch

WIDTH = 4096


def retry():
    weights = torch.ones((WIDTH, WIDTH), device="cuda").tril()
    batch, retries, sums, row = arguments.batch, 0, [], 0
    while row < arguments.batch:
        try:
            x = (torch.arange(row, row + batch, device="cuda") % 7).float()[:, None].expand(batch, WIDTH).contiguous()
            hidden = [x @ weights for _ in range(2)]
            sums.append(sum(part.sum(dtype=torch.float64) for part in hidden).item())
            row += batch
        except torch.OutOfMemoryError:
            retries += 1
            batch //= 2
            if batch == 0:
                raise
        x = hidden = None
        if retries:
            torch.cuda.empty_cache()
    return torch_parts.result([sum(sums)], retries=retries, last_batch=batch, errors_counted=torch.cuda.memory_stats()["num_ooms"])


def main():
    global arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=65536, help="rows of 16 KiB, three times: 3 GiB")
    arguments = parser.parse_args()
    return run_rows([("retry", retry)])


if __name__ == "__main__":
    sys.exit(main())
