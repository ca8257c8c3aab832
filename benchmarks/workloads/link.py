#!/usr/bin/env python3
"""What the link and the card can do: pinned copies in, out and both at once, and a copy within device memory."""
import json
import statistics
import sys
import time

import torch


def measure(copy, synchronize, rounds=7):
    """Bytes per second of `copy`, which returns its bytes: the median of the rounds after one that does not count."""
    rates = []
    for number in range(rounds + 1):
        synchronize()
        start = time.perf_counter()
        moved = copy()
        synchronize()
        rates.append(moved / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def main():
    size = 1 << 30
    device = torch.device("cuda", 0)
    here = [torch.zeros(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]

    def inward():
        with torch.cuda.stream(streams[0]):
            there[0].copy_(here[0], non_blocking=True)
        return size

    def outward():
        with torch.cuda.stream(streams[1]):
            here[1].copy_(there[1], non_blocking=True)
        return size

    def both():
        return inward() + outward()

    def within():
        there[1].copy_(there[0])
        return 2 * size  # read and written

    figures = {"in": inward, "out": outward, "both": both, "device_memory": within}
    print(json.dumps({"link": {name: measure(copy, torch.cuda.synchronize) for name, copy in figures.items()}}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
