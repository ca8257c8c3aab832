"""A small GPT-2-like training that the PyTorch rows share: the example's model, deterministic, with random but seeded data."""
import os
import pathlib
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with a fixed workspace
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "examples/pytorch"))

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from row_report import NotInstalled, median_ms, version_of
from train_gpt2 import Gpt2, make_deterministic

VOCABULARY = 8192
BATCHES = 4


class Checkpointed(torch.nn.Module):
    """A block whose activations are computed again in the backward pass."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


class Training:
    def __init__(self, layers=6, width=1024, batch=8, sequence=256, optimizer="fused", capturable=False, dtype=torch.bfloat16,
                 checkpointed=False, seed=1):
        if not torch.cuda.is_available():
            raise NotInstalled("PyTorch sees no CUDA device")
        make_deterministic(seed)
        self.dtype, self.batch, self.sequence = dtype, batch, sequence
        with torch.device("cuda"):
            self.model = Gpt2(VOCABULARY, sequence, layers, width, width // 64)
        if checkpointed:
            self.model.blocks = torch.nn.ModuleList(Checkpointed(block) for block in self.model.blocks)
        kind = {"fused": {"fused": True}, "foreach": {"foreach": True}, "single": {"foreach": False}}[optimizer]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, capturable=capturable, **kind)
        self.scaler = torch.amp.GradScaler("cuda") if dtype == torch.float16 else None
        generator = torch.Generator(device="cuda").manual_seed(seed + 1)
        self.data = torch.randint(VOCABULARY, (BATCHES, batch, sequence + 1), device="cuda", generator=generator)
        self.events = []

    def loss(self, tokens):
        with torch.autocast("cuda", dtype=self.dtype or torch.bfloat16, enabled=self.dtype is not None, cache_enabled=False):
            logits = self.model(tokens[:, :-1])
            return F.cross_entropy(logits.view(-1, VOCABULARY), tokens[:, 1:].reshape(-1))

    def step(self, tokens):
        loss = self.loss(tokens)
        if self.scaler:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def timed(self, function, *arguments):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        result = function(*arguments)
        events[1].record()
        self.events.append(events)
        return result

    def run(self, steps):
        """Losses of so many steps."""
        losses = [self.timed(self.step, self.data[step % BATCHES]) for step in range(steps)]
        torch.cuda.synchronize()
        return [loss.item() for loss in losses]

    def median_step_ms(self):
        """Of the later half of the steps: by then the first ones' allocations are over."""
        torch.cuda.synchronize()
        times = [start.elapsed_time(end) for start, end in self.events]
        return median_ms(times[len(times) // 2:])


def version():
    return version_of("torch")


def path():
    """How PyTorch's allocator asks the driver for memory."""
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        return f"backend:{backend}"
    expandable = any(segment.get("is_expandable") for segment in torch.cuda.memory_snapshot())
    return "native, expandable segments" if expandable else "native"


def start_row():
    """Gives back what the row before left, so that each row's peak is its own."""
    import gc
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def result(values, **figures):
    return {"values": values, "peak_bytes": torch.cuda.max_memory_reserved(), "path": path(), "version": version(), **figures}
