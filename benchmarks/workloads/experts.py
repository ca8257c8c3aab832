#!/usr/bin/env python3
"""Decodes with a mixture of experts and random routing: each token goes to two experts of each layer.

Routing is by random scores, drawn on the device and read by the host as a real router's are. `expert_cache` keeps all experts in pinned
memory and as many as fit in device memory, the ones used last; what is missing is fetched by a stream of its own while others compute.
"""
import sys

import common
import torch
import torch_common
import torch.nn.functional as F

ROOM = 512 * common.MIB


def expert_shapes(arguments):
    return [(arguments.inner, arguments.width), (arguments.inner, arguments.width), (arguments.width, arguments.inner)]


def make_expert(arguments, number, device):
    """The three matrices of an expert in one flat tensor."""
    flat = torch.empty(3 * arguments.inner * arguments.width, dtype=torch.bfloat16, device=device)
    torch_common.fill(flat.view(3 * arguments.inner, arguments.width), torch_common.seed_of(arguments, number), device)
    return flat


class Resident:
    """All experts in device memory."""

    def __init__(self, arguments, device):
        self.experts = [[make_expert(arguments, layer * arguments.experts + number, device) for number in range(arguments.experts)]
                        for layer in range(arguments.layers)]

    def fetch(self, layer, numbers):
        return [self.experts[layer][number] for number in numbers]

    def wait(self, layer, number):
        pass

    def used(self, layer, numbers):
        pass


class Cached:
    """All experts in pinned memory, those used last in device memory."""

    def __init__(self, arguments, device):
        self.host = []
        for layer in range(arguments.layers):
            for number in range(arguments.experts):
                made = make_expert(arguments, layer * arguments.experts + number, device)
                self.host.append(torch.empty(made.shape, dtype=made.dtype, pin_memory=True))
                self.host[-1].copy_(made)
        self.experts = arguments.experts
        size = made.numel() * made.element_size()
        del made
        torch.cuda.empty_cache()
        count = max(2 * arguments.batch, (arguments.memory_limit - ROOM) // size) if arguments.memory_limit else len(self.host)
        self.slots = [torch.empty_like(self.host[0], device=device) for _ in range(min(count, len(self.host)))]
        self.copies = torch.cuda.Stream()
        self.slot_of = {}  # least recently used first
        self.unused = list(range(len(self.slots)))
        self.arrived = [torch.cuda.Event() for _ in self.slots]
        self.free = [torch.cuda.Event() for _ in self.slots]

    def fetch(self, layer, numbers):
        keys = [layer * self.experts + number for number in numbers]
        for key in keys:
            if key in self.slot_of:
                self.slot_of[key] = self.slot_of.pop(key)
        for key in keys:
            if key in self.slot_of:
                continue
            if self.unused:
                slot = self.unused.pop()
            else:
                oldest = next(each for each in self.slot_of if each not in keys)
                slot = self.slot_of.pop(oldest)
                self.copies.wait_event(self.free[slot])
            with torch.cuda.stream(self.copies):
                self.slots[slot].copy_(self.host[key], non_blocking=True)
                self.arrived[slot].record(self.copies)
            self.slot_of[key] = slot
        return [self.slots[self.slot_of[key]] for key in keys]

    def wait(self, layer, number):
        torch.cuda.current_stream().wait_event(self.arrived[self.slot_of[layer * self.experts + number]])

    def used(self, layer, numbers):
        for number in numbers:
            self.free[self.slot_of[layer * self.experts + number]].record(torch.cuda.current_stream())


@torch.no_grad()
def run(arguments):
    device = torch_common.start(arguments)
    meter = torch_common.meter_for(arguments)
    experts = (Cached if arguments.offload == "expert_cache" else Resident)(arguments, device)
    mixers = []
    for layer in range(arguments.layers):
        mixers.append(torch.empty((arguments.width, arguments.width), dtype=torch.bfloat16, device=device))
        torch_common.fill(mixers[-1], torch_common.seed_of(arguments, 100_000 + layer), device)
    each = 6 * arguments.inner * arguments.width
    # Of E experts, a batch of B tokens with two experts each meets so many on average.
    met = arguments.experts * (1 - (1 - 2 / arguments.experts) ** arguments.batch)
    meter.describe("experts", int(arguments.layers * met * each), False, expert_bytes=each,
                   slots=len(experts.slots) if arguments.offload == "expert_cache" else None)
    generator = torch.Generator(device=device).manual_seed(arguments.seed + 1)
    first = torch.empty((arguments.batch, arguments.width), dtype=torch.bfloat16, device=device).normal_(generator=generator)
    rows_of = expert_shapes(arguments)

    def matrices(flat):
        at = 0
        for shape in rows_of:
            yield flat[at:at + shape[0] * shape[1]].view(shape)
            at += shape[0] * shape[1]

    def step(index):
        x = first
        for layer in range(arguments.layers):
            h = F.rms_norm(x + F.linear(x, mixers[layer]), (arguments.width,))
            scores = torch.rand((arguments.batch, arguments.experts), device=device, generator=generator)
            routes = scores.topk(2).indices.tolist()
            numbers = sorted({number for route in routes for number in route})
            weights = experts.fetch(layer, numbers)
            y = torch.zeros_like(h)
            for number, flat in zip(numbers, weights):
                rows = torch.tensor([row for row, route in enumerate(routes) if number in route], device=device)
                experts.wait(layer, number)
                gate, up, down = matrices(flat)
                part = h[rows]
                y[rows] += F.linear(F.silu(F.linear(part, gate)) * F.linear(part, up), down)
            experts.used(layer, numbers)
            x = h + 0.5 * y
        return x.float().abs().mean()

    meter.run(step)
    torch_common.finish(meter, rows=arguments.batch)


def main():
    parser = common.make_parser(__doc__, ("expert_cache",))
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--inner", type=int, default=5632)
    return common.main(run, parser)


if __name__ == "__main__":
    sys.exit(main())
