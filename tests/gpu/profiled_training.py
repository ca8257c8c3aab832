#!/usr/bin/env python3
"""Trains a small GPT-2-like model and profiles some of its steps by torch.profiler, as any program may: two sessions, with
steps before, between and after them. Prints one JSON object: kernels that each session saw, and the losses."""
import argparse
import json
import os
import pathlib
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/pytorch"))

import torch
import torch.nn.functional as F
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from train_gpt2 import Gpt2, make_deterministic

VOCABULARY = 8192


def is_kernel(event):
    return event.device_type == DeviceType.CUDA and not event.name.startswith(("Memcpy", "Memset"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="before, between and after the sessions")
    parser.add_argument("--profiled", type=int, default=3, help="steps of a session")
    parser.add_argument("--json", metavar="FILE", required=True)
    arguments = parser.parse_args()
    make_deterministic(1)
    with torch.device("cuda"):
        model = Gpt2(VOCABULARY, 256, 6, 512, 8)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(VOCABULARY, (8, 257), device="cuda", generator=torch.Generator(device="cuda").manual_seed(2))
    losses = []

    def train(steps):
        for _ in range(steps):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(tokens[:, :-1]).view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
        torch.cuda.synchronize()

    train(arguments.steps)
    sessions = []
    for _ in range(2):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            train(arguments.profiled)
        kernels = [event for event in profiler.events() if is_kernel(event)]
        sessions.append({"kernels": len(kernels), "names": len({event.name for event in kernels}),
                         "without_time": sum(event.time_range.elapsed_us() <= 0 for event in kernels)})
        train(arguments.steps)
    with open(arguments.json, "w") as file:
        json.dump({"sessions": sessions, "losses": [loss.item() for loss in losses]}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
