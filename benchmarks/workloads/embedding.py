#!/usr/bin/env python3
"""Trains large embedding tables by sparse gradients with Adagrad: an ordinary PyTorch script.

`host_tables` keeps tables and optimizer in host memory: rows are looked up and updated by the CPU, and only they cross.
"""
import sys

import common
import torch
import torch_common
import torch.nn as nn
import torch.nn.functional as F


def run(arguments):
    device = torch_common.start(arguments)
    meter = torch_common.meter_for(arguments)
    place = torch.device("cpu") if arguments.offload == "host_tables" else device
    tables = []
    for number in range(arguments.tables):
        weight = torch.empty((arguments.rows, arguments.width), device=place)
        for at in range(0, arguments.rows, 1 << 18):  # by pieces: what is made on the device is small
            torch_common.fill(weight[at:at + (1 << 18)], torch_common.seed_of(arguments, number * 100_000 + (at >> 18)), device)
        tables.append(nn.Embedding.from_pretrained(weight, freeze=False, sparse=True))
    sparse = torch.optim.Adagrad([table.weight for table in tables], lr=0.01, foreach=False)
    top = nn.Linear(arguments.tables * arguments.width, 1).to(device)
    for number, parameter in enumerate(top.parameters()):
        torch_common.fill(parameter.data, torch_common.seed_of(arguments, 900_000 + number), device)
    dense = torch.optim.SGD(top.parameters(), lr=0.01)
    row_bytes = 4 * arguments.width
    # A look-up reads a row; the update reads and writes it and its state. Rows of the same step seldom meet.
    meter.describe("embedding", 2 * arguments.tables * arguments.batch * row_bytes, True, table_bytes=arguments.tables * arguments.rows * row_bytes)
    generator = torch.Generator(device=device).manual_seed(arguments.seed + 1)

    def step(index):
        ids = torch.randint(arguments.rows, (arguments.tables, arguments.batch), device=device, generator=generator)
        target = torch.rand((arguments.batch, 1), device=device, generator=generator)
        at = ids.to(place)
        rows = torch.cat([table(at[number]).to(device) for number, table in enumerate(tables)], dim=1)
        loss = F.mse_loss(top(rows), target)
        loss.backward()
        sparse.step()
        dense.step()
        sparse.zero_grad(set_to_none=True)
        dense.zero_grad(set_to_none=True)
        return loss.detach()

    meter.run(step)
    torch_common.finish(meter)


def main():
    parser = common.make_parser(__doc__, ("host_tables",))
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=65536)
    return common.main(run, parser)


if __name__ == "__main__":
    sys.exit(main())
