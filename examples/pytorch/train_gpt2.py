#!/usr/bin/env python3
"""Trains a GPT-2-like language model on one GPU: an ordinary PyTorch script.

Weights and tokens are random but seeded, nothing is downloaded, and the algorithms are deterministic, so that two runs
can be compared loss by loss. fp32 master weights, bf16 autocast, AdamW.

    train_gpt2.py --steps 12 --json losses.json                    # 203 M parameters
    train_gpt2.py --layers 36 --width 1280 --json losses.json      # 774 M parameters
"""
import argparse
import json
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, sequence, layers, width, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="measured steps (default %(default)s)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them; their losses count, their times do not")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024, help="a multiple of 64: heads have 64 elements")
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--optimizer", choices=("fused", "foreach"), default="fused")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write losses, times and peak memory here")
    arguments = parser.parse_args()
    for name in ("steps", "batch", "sequence", "layers", "width", "vocabulary"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} {getattr(arguments, name)} must be at least 1")
    if arguments.warmup < 0:
        parser.error(f"--warmup {arguments.warmup} must not be negative")
    if arguments.width % 64:
        parser.error(f"--width {arguments.width} is not a multiple of 64")
    return arguments


def make_deterministic(seed):
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)  # with warn_only, flash attention's backward stays non-deterministic
    torch.utils.deterministic.fill_uninitialized_memory = False  # a debugging aid that would add a kernel to every tensor
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # its backward pass adds up in any order


def main():
    arguments = parse_arguments()
    if not torch.cuda.is_available():
        print("train_gpt2.py: no CUDA device", file=sys.stderr)
        return 1
    make_deterministic(arguments.seed)
    device = torch.device("cuda")
    with device:
        model = Gpt2(arguments.vocabulary, arguments.sequence, arguments.layers, arguments.width, arguments.width // 64)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters / 1e6:.1f} M parameters", flush=True)
    kind = {"fused": True} if arguments.optimizer == "fused" else {"foreach": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, weight_decay=0.01, **kind)
    generator = torch.Generator(device=device).manual_seed(arguments.seed + 1)
    data = torch.randint(arguments.vocabulary, (4, arguments.batch, arguments.sequence + 1), device=device, generator=generator)

    losses, starts, ends = [], [], []
    for step in range(arguments.warmup + arguments.steps):
        starts.append(torch.cuda.Event(enable_timing=True))
        ends.append(torch.cuda.Event(enable_timing=True))
        starts[-1].record()
        tokens = data[step % len(data)]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.view(-1, arguments.vocabulary), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        ends[-1].record()
        losses.append(loss.detach())
    torch.cuda.synchronize()

    losses = [loss.item() for loss in losses]
    times = [start.elapsed_time(end) for start, end in zip(starts, ends)][arguments.warmup:]
    for step, loss in enumerate(losses):
        print(f"step {step + 1} loss {loss:.7f}")
    median = sorted(times)[len(times) // 2]
    peak_reserved = torch.cuda.max_memory_reserved()
    print(f"median step: {median:.2f} ms; peak reserved {peak_reserved / 2**30:.2f} GiB")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({
                "program": "train_gpt2", "settings": vars(arguments), "parameters": parameters, "losses": losses,
                "step_ms": times, "median_step_ms": median, "peak_reserved_bytes": peak_reserved,
                "peak_allocated_bytes": torch.cuda.max_memory_allocated(), "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
            }, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
