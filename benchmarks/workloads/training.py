#!/usr/bin/env python3
"""Trains a GPT-2-like model with AdamW: an ordinary PyTorch script, and the ways to offload that PyTorch's users know.

`save_on_cpu` sends what autograd keeps for the backward pass to pinned memory (torch.autograd.graph). `zero_offload` keeps the
optimizer's states and a master copy of the weights in pinned memory: gradients go out as they are made, AdamW runs on the CPU
(PyTorch's fused one, on all cores) block by block while the rest of the backward pass goes on, and new weights come in. `both` does both.
"""
import sys

import common
import torch
import torch_common
import torch.nn.functional as F
from train_gpt2 import Gpt2


class CpuAdamW:
    """A step in the manner of ZeRO-Offload: a bucket of parameters at a time, in the order in which their gradients come."""

    def __init__(self, model, learning_rate):
        self.copies_out = torch.cuda.Stream()
        self.copies_in = torch.cuda.Stream()
        self.buckets = []
        self.bucket_of = {}
        groups = [[model.norm]] + [[block] for block in reversed(model.blocks)] + [[model.positions, model.tokens]]
        seen = set()
        for modules in groups:
            parameters = []
            for module in modules:
                for parameter in module.parameters():
                    if id(parameter) not in seen:
                        seen.add(id(parameter))
                        parameters.append(parameter)
            self.add_bucket(parameters, learning_rate)
        left = [parameter for parameter in model.parameters() if id(parameter) not in seen]
        if left:
            self.add_bucket(left, learning_rate)

    def add_bucket(self, parameters, learning_rate):
        if not parameters:
            return
        masters = []
        for parameter in parameters:
            master = torch.empty(parameter.shape, dtype=torch.float32, pin_memory=True)
            master.copy_(parameter.detach())
            master.grad = torch.zeros(parameter.shape, dtype=torch.float32, pin_memory=True)
            masters.append(master)
        bucket = {"parameters": parameters, "masters": masters, "left": len(parameters), "event": torch.cuda.Event(),
                  "optimizer": torch.optim.AdamW(masters, lr=learning_rate, weight_decay=0.01, fused=True)}
        self.buckets.append(bucket)
        for parameter, master in zip(parameters, masters):
            parameter.register_post_accumulate_grad_hook(self.make_hook(bucket, master))

    def make_hook(self, bucket, master):
        def gradient_is_there(parameter):
            gradient = parameter.grad
            self.copies_out.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.copies_out):
                master.grad.copy_(gradient, non_blocking=True)
            gradient.record_stream(self.copies_out)
            parameter.grad = None
            bucket["left"] -= 1
            if bucket["left"] == 0:
                bucket["event"].record(self.copies_out)
        return gradient_is_there

    @torch.no_grad()
    def step(self):
        """The weights of a bucket must not change before the backward pass has used them: its gradients have come, so it has."""
        for bucket in self.buckets:
            bucket["event"].synchronize()
            bucket["optimizer"].step()
            with torch.cuda.stream(self.copies_in):
                for parameter, master in zip(bucket["parameters"], bucket["masters"]):
                    parameter.copy_(master, non_blocking=True)
            bucket["left"] = len(bucket["parameters"])
        torch.cuda.current_stream().wait_stream(self.copies_in)
        self.copies_in.synchronize()  # the masters must not change while they are read


def run(arguments):
    device = torch_common.start(arguments)
    torch_common.deterministic()
    meter = torch_common.meter_for(arguments)
    with device:
        model = Gpt2(arguments.vocabulary, arguments.sequence, arguments.layers, arguments.width, arguments.width // 64)
        if arguments.dtype == "bf16":
            model = model.to(torch.bfloat16)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if arguments.offload in ("zero_offload", "both"):
        optimizer = CpuAdamW(model, arguments.learning_rate)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, weight_decay=0.01, fused=True)
    generator = torch.Generator(device=device).manual_seed(arguments.seed + 1)
    data = torch.randint(arguments.vocabulary, (4, arguments.batch, arguments.sequence + 1), device=device, generator=generator)
    meter.describe("training", None, True, parameters=parameters)

    def forward(tokens):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=arguments.dtype == "fp32"):
            logits = model(tokens[:, :-1])
            return F.cross_entropy(logits.view(-1, arguments.vocabulary), tokens[:, 1:].reshape(-1))

    def step(index):
        tokens = data[index % len(data)]
        if arguments.offload in ("save_on_cpu", "both"):
            with torch.autograd.graph.save_on_cpu(pin_memory=True):
                loss = forward(tokens)
        else:
            loss = forward(tokens)
        loss.backward()
        optimizer.step()
        if not isinstance(optimizer, CpuAdamW):
            optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    meter.run(step)
    torch_common.finish(meter)


def main():
    parser = common.make_parser(__doc__, ("save_on_cpu", "zero_offload", "both"))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024, help="a multiple of 64")
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32", help="of weights and states; fp32 computes under autocast")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    return common.main(run, parser)


if __name__ == "__main__":
    sys.exit(main())
