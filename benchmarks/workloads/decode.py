#!/usr/bin/env python3
"""Decodes with a Llama-like model, one step a token for every row: an ordinary PyTorch script, and ways to offload.

The key-value cache is filled with random values up to --context, so that a long context costs no prefill; with --prompt that many
tokens are read first, as a step of its own. `cpu_offload` and `device_map` are accelerate's (the second keeps in device memory what fits);
`pipeline` streams the layers' weights from pinned memory through two buffers with streams and events; `kv_pipeline` does the same with
the layers' keys and values. Both keep in device memory what fits into --memory-limit.
"""
import sys

import common
import torch
import torch_common
import torch.nn as nn
from generate_llama import Layer, Llama

ROOM = 768 * common.MIB  # for activations, workspaces and what the caching allocator rounds up


def build(arguments, place, device):
    """The model with its weights on `place`."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):
        model = Llama(arguments.vocabulary, arguments.layers, arguments.width, arguments.width // 64, arguments.kv_heads, arguments.inner)
    model = model.to_empty(device=place).eval()
    for number, parameter in enumerate(model.parameters()):
        torch_common.fill(parameter, torch_common.seed_of(arguments, number), device)
        parameter.requires_grad_(False)
    model.frequencies = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float32, device=device) / 64)
    return model


def empty_layer(arguments):
    with torch.device("meta"):
        return Layer(arguments.width, arguments.width // 64, arguments.kv_heads, arguments.inner)


class Slots:
    """Two buffers on the device, filled in turn by a stream for copies while the layers compute on the other."""

    def __init__(self, sources, device):
        self.sources = sources  # pinned tensors of one size, used round and round
        self.copies = torch.cuda.Stream()
        self.buffers = [torch.empty_like(sources[0], device=device) for _ in range(2)]
        self.arrived = [torch.cuda.Event() for _ in range(2)]
        self.free = [torch.cuda.Event() for _ in range(2)]
        self.used = 0
        self.fetched = 0
        self.copies.wait_stream(torch.cuda.current_stream())
        self.fetch()
        self.fetch()

    def fetch(self):
        slot = self.fetched % 2
        with torch.cuda.stream(self.copies):
            if self.fetched >= 2:
                self.copies.wait_event(self.free[slot])
            self.buffers[slot].copy_(self.sources[self.fetched % len(self.sources)], non_blocking=True)
            self.arrived[slot].record(self.copies)
        self.fetched += 1

    def take(self):
        """The slot with what is next in turn; the current stream waits for it."""
        slot = self.used % 2
        torch.cuda.current_stream().wait_event(self.arrived[slot])
        return slot

    def give_back(self):
        self.free[self.used % 2].record(torch.cuda.current_stream())
        self.used += 1
        self.fetch()


class StreamedWeights(nn.Module):
    """Stands for a layer whose weights are in pinned memory."""

    def __init__(self, slots, layers):
        super().__init__()
        self.slots = [slots]  # in lists: neither is this module's own
        self.layers = [layers]

    def forward(self, *arguments):
        slots = self.slots[0]
        result = self.layers[0][slots.take()](*arguments)
        slots.give_back()
        return result


class StreamedCache(nn.Module):
    """A layer whose keys and values are in pinned memory; those of new tokens stay in device memory."""

    def __init__(self, slots, layer, shape, context, device):
        super().__init__()
        self.layer = layer
        self.slots = [slots]
        self.shape, self.context = shape, context
        batch, heads, length, size = shape
        self.tail = torch.zeros((2, batch, heads, length - context, size), dtype=torch.bfloat16, device=device)

    def forward(self, x, cache, position, angles):
        slots = self.slots[0]
        keys_and_values = slots.buffers[slots.take()].view(2, *self.shape)
        done = position - self.context
        keys_and_values[:, :, :, self.context:position].copy_(self.tail[:, :, :, :done])
        x = self.layer(x, keys_and_values, position, angles)
        self.tail[:, :, :, done:done + 1].copy_(keys_and_values[:, :, :, position:position + 1])
        slots.give_back()
        return x


def stream_weights(model, arguments, other_bytes, device):
    """Keeps the first layers in device memory, as many as fit, and streams the rest."""
    layer_bytes = 2 * sum(parameter.numel() for parameter in model.layers[0].parameters())
    room = arguments.memory_limit - other_bytes - 2 * layer_bytes - ROOM
    resident = max(0, min(len(model.layers), room // layer_bytes))
    outside = list(model.layers[resident:])
    if len(outside) < 3:  # the two buffers are the same size
        resident, outside = len(model.layers), []
    layers = [layer.to(device) for layer in model.layers[:resident]]
    if outside:
        pinned = [torch_common.flat_pinned(torch_common.parameters_in_order(layer)) for layer in outside]
        slots = Slots(pinned, device)
        shells = []
        for buffer in slots.buffers:
            shells.append(empty_layer(arguments).eval())
            torch_common.point_into(shells[-1], buffer)
        layers += [StreamedWeights(slots, shells) for _ in outside]
    model.layers = nn.ModuleList(layers)
    model.tokens.to(device), model.norm.to(device), model.head.to(device)
    return resident


def stream_cache(model, arguments, shape, weight_bytes, device):
    layer_bytes = 4 * shape[0] * shape[1] * shape[2] * shape[3]
    room = arguments.memory_limit - weight_bytes - 2 * layer_bytes - ROOM
    resident = max(0, min(arguments.layers, room // layer_bytes))
    if arguments.layers - resident < 3:
        resident = arguments.layers
    caches = [make_cache(arguments, number, shape, device) for number in range(resident)]
    pinned = []
    for number in range(resident, arguments.layers):
        made = make_cache(arguments, number, shape, device)
        pinned.append(torch.empty(made.shape, dtype=made.dtype, pin_memory=True))
        pinned[-1].copy_(made)
        del made
    if pinned:
        slots = Slots([tensor.view(-1) for tensor in pinned], device)
        layers = list(model.layers[:resident])
        layers += [StreamedCache(slots, layer, shape, arguments.context, device) for layer in model.layers[resident:]]
        model.layers = nn.ModuleList(layers)
    return caches + [None] * len(pinned), resident


def make_cache(arguments, number, shape, device):
    """Keys and values [2][batch][heads][length][size], random up to the context."""
    cache = torch.zeros((2, *shape), dtype=torch.bfloat16, device=device)
    if arguments.context:
        generator = torch.Generator(device=device).manual_seed(torch_common.seed_of(arguments, 100_000 + number))
        for part in cache.view(2 * shape[0], *shape[1:]):  # by rows: what is made beside it is small, and does not depend on the length
            part[:, :arguments.context].copy_(torch.empty((shape[1], arguments.context, 64), dtype=cache.dtype, device=device)
                                              .normal_(generator=generator))
    return cache


@torch.no_grad()
def run(arguments):
    offload = arguments.offload
    if offload == "kv_pipeline" and arguments.prompt:
        raise SystemExit("--offload kv_pipeline takes its context from --context; leave --prompt out")
    device = torch_common.start(arguments)
    torch_common.steady_decoding()
    meter = torch_common.meter_for(arguments)
    model = build(arguments, "cpu" if offload in ("cpu_offload", "device_map", "pipeline") else device, device)
    weight_bytes = 2 * sum(parameter.numel() for parameter in model.parameters())
    position = arguments.context + arguments.prompt
    shape = (arguments.batch, arguments.kv_heads, position + arguments.warmup + arguments.steps + 1, 64)
    cache_bytes = 4 * arguments.layers * shape[0] * shape[1] * shape[2] * shape[3]
    more = {}
    if offload == "cpu_offload":
        import accelerate
        accelerate.cpu_offload(model, execution_device=device)
    elif offload == "device_map":
        import accelerate
        room = max(0, arguments.memory_limit - cache_bytes - ROOM)
        places = accelerate.infer_auto_device_map(model, max_memory={0: room, "cpu": 1 << 40}, no_split_module_classes=["Layer"],
                                                  dtype=torch.bfloat16)
        more["resident_modules"] = sum(place == 0 for place in places.values())
        accelerate.dispatch_model(model, device_map=places, main_device=0)
    elif offload == "pipeline":
        ends = 4 * arguments.vocabulary * arguments.width
        more["resident_layers"] = stream_weights(model, arguments, cache_bytes + ends, device)
    if offload == "kv_pipeline":
        caches, more["resident_layers"] = stream_cache(model, arguments, shape, weight_bytes, device)
    else:
        caches = [make_cache(arguments, number, shape, device) for number in range(arguments.layers)]
    meter.describe("decode", None, False, weight_bytes=weight_bytes, cache_bytes=cache_bytes, **more)
    # The prompt first, then a token a step.
    given = torch_common.given_tokens(arguments, device)

    length = max(1, arguments.prompt)

    def step(index):
        first, last = (0, length) if index == 0 else (length + index - 1, length + index)
        return torch_common.mean_sizes(model(given[first:last].T, caches, arguments.context + first))

    meter.run(step, lambda index: "prefill" if index == 0 and arguments.prompt else None)
    torch_common.finish(meter, rows=arguments.batch)


def main():
    parser = common.make_parser(__doc__, ("cpu_offload", "device_map", "pipeline", "kv_pipeline"))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=0, help="tokens of a prompt that are read first, in one step (default: none)")
    parser.add_argument("--context", type=int, default=0, help="tokens that are in the cache from the start")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=4096, help="a multiple of 64: heads have 64 elements")
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--inner", type=int, default=14336)
    parser.add_argument("--vocabulary", type=int, default=32000)
    return common.main(run, parser)


if __name__ == "__main__":
    sys.exit(main())
