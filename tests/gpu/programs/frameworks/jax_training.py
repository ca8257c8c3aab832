"""JAX: a multi-layer perceptron trained by Adam, every step one compiled function that takes over its inputs' memory."""
import argparse
import os
import sys
import time

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true"

from row_report import NotInstalled, median_ms, need, run_rows, version_of


def train():
    jax = need("jax")
    if jax.default_backend() != "gpu":
        raise NotInstalled(f"JAX for CUDA: its backend is {jax.default_backend()}")
    numpy = jax.numpy
    device = jax.local_devices()[0]
    keys = jax.random.split(jax.random.key(1), arguments.layers + 2)
    shape = (arguments.width, arguments.width)
    weights = [jax.random.normal(key, shape) / arguments.width ** 0.5 for key in keys[2:]]
    moments = [(numpy.zeros(shape), numpy.zeros(shape)) for _ in weights]
    x, y = (jax.random.normal(key, (arguments.batch, arguments.width)) for key in keys[:2])

    def loss_of(weights):
        hidden = x
        for weight in weights:
            hidden = jax.nn.gelu(hidden @ weight)
        return ((hidden - y) ** 2).mean()

    def step(weights, moments):
        loss, gradients = jax.value_and_grad(loss_of)(weights)
        moments = [(0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g) for (m, v), g in zip(moments, gradients)]
        weights = [w - 1e-4 * m / (numpy.sqrt(v) + 1e-8) for w, (m, v) in zip(weights, moments)]
        return loss, weights, moments

    compiled = jax.jit(step, donate_argnums=(0, 1))
    losses, times = [], []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        loss, weights, moments = compiled(weights, moments)
        loss.block_until_ready()
        jax.block_until_ready(weights)
        times.append(1e3 * (time.perf_counter() - start))
        losses.append(float(loss))
    stats = device.memory_stats() or {}
    preallocated = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true") != "false"
    peak = stats.get("peak_bytes_in_use", 0)
    return {"values": losses, "peak_bytes": peak, "path": "BFC, preallocated" if preallocated else "BFC, grows",
            "version": version_of("jax"), "bytes_limit": stats.get("bytes_limit"), "pool_bytes": stats.get("pool_bytes"),
            "step_ms": median_ms(times[len(times) // 2:])}


def main():
    global arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    return run_rows([("train", train)])


if __name__ == "__main__":
    sys.exit(main())
