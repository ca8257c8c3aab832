"""CUDA graphs of PyTorch: a captured training step, graphed callables, a compiled model that replays graphs, a graphed decode loop.

    torch_graphs.py step | callables | compiled | decode [--steps N] [--layers N] [--width N]
"""
import argparse
import sys

from row_report import median_ms, run_rows
import torch_parts
from torch_parts import BATCHES, Training, make_deterministic, torch
import torch.nn.functional as F


def graphed_step():
    """Forward, backward and optimizer in one graph, as PyTorch's notes on graphs have it."""
    training = Training(capturable=True)
    tokens = training.data[0].clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        losses = [training.step(tokens) for _ in range(3)]
    torch.cuda.current_stream().wait_stream(side)
    training.optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = training.loss(tokens)
        loss.backward()
        training.optimizer.step()
    for step in range(STEPS):
        tokens.copy_(training.data[step % BATCHES])
        training.timed(graph.replay)
        losses.append(loss.detach().clone())
    return torch_parts.result([loss.item() for loss in losses], step_ms=training.median_step_ms())


def graphed_callables():
    training = Training(optimizer="foreach")
    shape = (training.batch, training.sequence, 1024)
    blocks = tuple(training.model.blocks)
    samples = tuple((torch.randn(shape, device="cuda", requires_grad=True),) for _ in blocks)
    with torch.autocast("cuda", dtype=training.dtype, cache_enabled=False):
        graphed = torch.cuda.make_graphed_callables(blocks, samples)
    training.model.blocks = torch.nn.ModuleList(graphed)
    losses = training.run(STEPS)
    return torch_parts.result(losses, step_ms=training.median_step_ms())


def compiled():
    torch.manual_seed(1)
    width, batch = 4096, 512
    with torch.device("cuda"):
        layers = [layer for _ in range(6) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
        model = torch.nn.Sequential(*layers)
        inputs = torch.randn(BATCHES, batch, width)
        targets = torch.randn(BATCHES, batch, width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    @torch.compile(mode="reduce-overhead")
    def loss_of(x, y):
        return F.mse_loss(model(x), y)

    losses = []
    for step in range(STEPS):
        torch.compiler.cudagraph_mark_step_begin()
        loss = loss_of(inputs[step % BATCHES], targets[step % BATCHES])
        loss.backward()
        losses.append(loss.detach().clone())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return torch_parts.result([loss.item() for loss in losses])


class Decoder:
    """One token of every row at a time over a key-value cache of fixed size, so that a graph can be replayed."""

    def __init__(self, layers=16, width=2048, batch=8, length=256, vocabulary=16384):
        make = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.02
        self.heads, self.batch = width // 64, batch
        self.embedding, self.head = make(vocabulary, width), make(width, vocabulary)
        self.layers = [(make(width, 3 * width), make(width, width), make(width, 4 * width), make(4 * width, width))
                       for _ in range(layers)]
        shape = (batch, self.heads, length, 64)
        self.caches = [(torch.zeros(shape, device="cuda", dtype=torch.bfloat16),
                        torch.zeros(shape, device="cuda", dtype=torch.bfloat16)) for _ in range(layers)]
        self.places = torch.arange(length, device="cuda")

    def step(self, token, position):
        """Updates token [batch] and position [1] in place."""
        x = self.embedding[token]
        mask = (self.places <= position)[None, None, None]
        for (qkv, out, up, down), (keys, values) in zip(self.layers, self.caches):
            q, k, v = (F.rms_norm(x, x.shape[-1:]) @ qkv).view(self.batch, 3, self.heads, 1, 64).unbind(1)
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            x = x + mixed.reshape(self.batch, -1) @ out
            x = x + F.gelu(F.rms_norm(x, x.shape[-1:]) @ up) @ down
        token.copy_((F.rms_norm(x, x.shape[-1:]) @ self.head).float().argmax(-1))
        position.add_(1)


@torch.inference_mode()
def decode():
    make_deterministic(1)
    decoder = Decoder(layers=LAYERS, width=WIDTH)
    token = torch.arange(decoder.batch, device="cuda")
    position = torch.zeros(1, dtype=torch.long, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            decoder.step(token, position)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decoder.step(token, position)
    tokens, events = [], []
    for _ in range(min(STEPS, 250)):
        events.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
        events[-1][0].record()
        graph.replay()
        events[-1][1].record()
        tokens.append(token.clone())
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for start, end in events]
    return torch_parts.result([value for row in tokens for value in row.tolist()], step_ms=median_ms(times[len(times) // 2:]))


ROWS = {"step": graphed_step, "callables": graphed_callables, "compiled": compiled, "decode": decode}


def main():
    global STEPS, LAYERS, WIDTH
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--layers", type=int, default=16, help="of decode (default %(default)s)")
    parser.add_argument("--width", type=int, default=2048, help="of decode, a multiple of 64 (default %(default)s)")
    arguments = parser.parse_args()
    STEPS, LAYERS, WIDTH = arguments.steps, arguments.layers, arguments.width
    return run_rows([(arguments.row, ROWS[arguments.row])])


if __name__ == "__main__":
    sys.exit(main())
