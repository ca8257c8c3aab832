#!/usr/bin/env python3
"""Generates tokens with a Llama-like decoder on one GPU: an ordinary PyTorch script.

Weights (bf16) and prompts are random but seeded, nothing is downloaded. Greedy decoding with a key-value cache, so that
two runs can be compared token by token.

    generate_llama.py --tokens 48 --json tokens.json               # 1.1 G parameters
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace

import torch
import torch.nn as nn
import torch.nn.functional as F


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
        return (x.float() * scale).to(x.dtype) * self.weight


def rotate(x, angles):
    """Rotary position embedding of x [batch, heads, length, size] by angles [length, size / 2]."""
    first, second = x.float().chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, width, heads, kv_heads, inner):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norm1 = RmsNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.size, bias=False)
        self.value = nn.Linear(width, kv_heads * self.size, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.norm2 = RmsNorm(width)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def for_all_heads(self, x):
        """Each key or value head serves several query heads."""
        batch, heads, length, size = x.shape
        groups = self.heads // self.kv_heads
        return x[:, :, None].expand(batch, heads, groups, length, size).reshape(batch, self.heads, length, size)

    def forward(self, x, cache, position, angles):
        batch, length, width = x.shape
        h = self.norm1(x)
        q = rotate(self.query(h).view(batch, length, self.heads, self.size).transpose(1, 2), angles)
        cache[0][:, :, position:position + length] = rotate(
            self.key(h).view(batch, length, self.kv_heads, self.size).transpose(1, 2), angles)
        cache[1][:, :, position:position + length] = self.value(h).view(
            batch, length, self.kv_heads, self.size).transpose(1, 2)
        k = self.for_all_heads(cache[0][:, :, :position + length])
        v = self.for_all_heads(cache[1][:, :, :position + length])
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)  # the prompt comes whole, at position 0
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, vocabulary, layers, width, heads, kv_heads, inner):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads, kv_heads, inner) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        frequencies = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
        self.register_buffer("frequencies", frequencies, persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, caches, position):
        """Logits of the last token of each row; `position` tokens are in the caches already."""
        places = torch.arange(position, position + tokens.shape[1], device=tokens.device, dtype=torch.float32)
        angles = torch.outer(places, self.frequencies.float())
        x = self.tokens(tokens)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, position, angles)
        return self.head(self.norm(x[:, -1]))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=48, help="tokens to generate per row (default %(default)s)")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=128, help="tokens of every prompt")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048, help="a multiple of 64: heads have 64 elements")
    parser.add_argument("--kv-heads", type=int, default=8, help="must divide width / 64")
    parser.add_argument("--inner", type=int, default=8192, help="width of the feed-forward part")
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write tokens, speed and peak memory here")
    arguments = parser.parse_args()
    for name in ("tokens", "batch", "prompt", "layers", "width", "kv_heads", "inner", "vocabulary"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} {getattr(arguments, name)} must be at least 1")
    if arguments.width % 64:
        parser.error(f"--width {arguments.width} is not a multiple of 64")
    if (arguments.width // 64) % arguments.kv_heads:
        parser.error(f"--kv-heads {arguments.kv_heads} does not divide the {arguments.width // 64} heads")
    return arguments


@torch.inference_mode()
def generate(model, arguments, device):
    """Greedy tokens [batch][tokens] and the seconds that all but the first took."""
    generator = torch.Generator(device=device).manual_seed(arguments.seed + 1)
    prompt = torch.randint(arguments.vocabulary, (arguments.batch, arguments.prompt), device=device, generator=generator)
    shape = (arguments.batch, arguments.kv_heads, arguments.prompt + arguments.tokens, 64)
    caches = [(torch.zeros(shape, dtype=torch.bfloat16, device=device), torch.zeros(shape, dtype=torch.bfloat16, device=device))
              for _ in range(arguments.layers)]
    token = model(prompt, caches, 0).argmax(-1)
    generated = [token]
    torch.cuda.synchronize()
    start = time.perf_counter()
    for step in range(1, arguments.tokens):
        token = model(token[:, None], caches, arguments.prompt + step - 1).argmax(-1)
        generated.append(token)
    torch.cuda.synchronize()
    return torch.stack(generated, dim=1).tolist(), time.perf_counter() - start


def main():
    arguments = parse_arguments()
    if not torch.cuda.is_available():
        print("generate_llama.py: no CUDA device", file=sys.stderr)
        return 1
    torch.manual_seed(arguments.seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    device = torch.device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    with device:
        model = Llama(arguments.vocabulary, arguments.layers, arguments.width, arguments.width // 64, arguments.kv_heads,
                      arguments.inner).eval()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters / 1e6:.1f} M parameters", flush=True)
    tokens, seconds = generate(model, arguments, device)
    speed = arguments.batch * (arguments.tokens - 1) / seconds
    peak_reserved = torch.cuda.max_memory_reserved()
    print("first row: " + " ".join(str(token) for token in tokens[0][:16]))
    print(f"{speed:.1f} tokens/s; peak reserved {peak_reserved / 2**30:.2f} GiB")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({
                "program": "generate_llama", "settings": vars(arguments), "parameters": parameters, "tokens": tokens,
                "tokens_per_second": speed, "peak_reserved_bytes": peak_reserved,
                "peak_allocated_bytes": torch.cuda.max_memory_allocated(), "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
            }, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
