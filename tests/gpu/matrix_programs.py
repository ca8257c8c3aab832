"""The rows of the compatibility matrix: which program each belongs to, how it is run, and what is expected of it."""
import dataclasses
import pathlib

from row_evaluation import EXPORTS, FITS, RETRIES, SEES_BUDGET, SPILLS, SPILLS_OR_REFUSES

HERE = pathlib.Path(__file__).resolve().parent / "programs/frameworks"


@dataclasses.dataclass(frozen=True)
class Program:
    """One process, with one or more rows. `rows`: what its RESULT lines are called -> (framework, what it does)."""
    name: str
    command: tuple
    rows: dict
    expectation: str = SPILLS
    environment: dict = dataclasses.field(default_factory=dict)
    bare_environment: dict = dataclasses.field(default_factory=dict)  # of the bare run alone
    needs: tuple = ()  # Python packages
    limit: float = 25  # seconds for each of its runs
    tolerance: float = 1e-5
    policy: str = ""
    demand: tuple = ()  # flags of another run, under `demand`, to compare step times with


@dataclasses.dataclass(frozen=True)
class Timing:
    """A program that fits, run with and without Spillway in turn."""
    name: str
    command: tuple
    needs: tuple
    environment: dict = dataclasses.field(default_factory=dict)
    limit: float = 40


def python(script, *flags):
    return ("python3", str(HERE / script), *(str(flag) for flag in flags))


def allocator(setting):
    return {"PYTORCH_ALLOC_CONF": setting, "PYTORCH_CUDA_ALLOC_CONF": setting}


def jax_grows():
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def programs(build):
    """In order of importance: what does not fit into the time limit comes last."""
    torch, matrix = ("torch",), build / "matrix"
    training = python("torch_training.py", "training")
    return [
        Program("torch.compiled", python("torch_graphs.py", "compiled"), needs=("torch", "triton"), limit=75,
                rows={"compiled": ("PyTorch", 'torch.compile(mode="reduce-overhead")')}),
        Program("torch.native", training, {"training": ("PyTorch", "training, native allocator, fused AdamW")}, needs=torch),
        Program("torch.expandable", training, {"training": ("PyTorch", "training, expandable_segments:True")}, SPILLS_OR_REFUSES,
                allocator("expandable_segments:True"), needs=torch),
        Program("torch.async", training, {"training": ("PyTorch", "training, backend:cudaMallocAsync")}, SPILLS_OR_REFUSES,
                allocator("backend:cudaMallocAsync"), needs=torch),
        Program("jax.grows", python("jax_training.py"), {"train": ("JAX", "training, preallocation off")}, environment=jax_grows(),
                needs=("jax",), limit=40),
        # Bare, it would take three quarters of the card; under Spillway the default share stays, of what Spillway shows.
        Program("jax.preallocated", python("jax_training.py"), {"train": ("JAX", "training, preallocation on")},
                bare_environment={"XLA_CLIENT_MEM_FRACTION": "0.06"}, needs=("jax",), limit=40),
        # What it takes is a share of the budget alone.
        Program("jax.real", python("jax_training.py"), {"train": ("JAX", 'training, preallocation on, memory.report = "real"')}, SEES_BUDGET,
                {"SPILLWAY_REPORT": "real"}, bare_environment={"XLA_CLIENT_MEM_FRACTION": "0.06"}, needs=("jax",), limit=40),
        Program("torch.callables", python("torch_graphs.py", "callables"), {"callables": ("PyTorch", "make_graphed_callables")},
                needs=torch),
        Program("torch.variants", python("torch_training.py", "autocast", "foreach", "checkpoint"), needs=torch, limit=40, rows={
            "autocast": ("PyTorch", "autocast to float16 with a gradient scaler"),
            "foreach": ("PyTorch", "foreach AdamW"),
            "checkpoint": ("PyTorch", "gradient checkpointing")}),
        Program("torch.manners", python("torch_training.py", "statistics", "empty_cache", "profiler"), needs=torch, limit=40, rows={
            "statistics": ("PyTorch", "torch.cuda.memory statistics agree with the driver's"),
            "empty_cache": ("PyTorch", "empty_cache"),
            "profiler": ("PyTorch", "torch.profiler sees every kernel")}),
        Program("torch.retry", python("torch_retry.py"), {"retry": ("PyTorch", "out-of-memory loop that halves its batch")}, RETRIES,
                needs=torch),
        Program("torch.fork", python("torch_workers.py", "fork"), {"fork": ("PyTorch", "DataLoader, forked workers")}, needs=torch,
                limit=40),
        Program("torch.spawn", python("torch_workers.py", "spawn"), {"spawn": ("PyTorch", "DataLoader, spawned workers")}, needs=torch,
                limit=60),
        Program("torch.share", python("torch_workers.py", "share"), {"share": ("PyTorch", "torch.multiprocessing shares CUDA tensors")},
                FITS, needs=torch, limit=60),
        Program("torch.pluggable", python("torch_pluggable.py", "--library", matrix / "libpluggable_allocator.so"),
                {"pluggable": ("PyTorch", "CUDAPluggableAllocator")}, needs=torch),
        Program("triton", python("triton_kernels.py"), needs=("torch", "triton"), limit=40, rows={
            "pointers": ("Triton", "kernel on pointers"), "descriptors": ("Triton", "kernel on tensor descriptors (TMA)")}),
        Program("cupy.default", python("cupy_loop.py"), {"gram": ("CuPy", "loop, default pool")}, needs=("cupy",)),
        Program("cupy.async", python("cupy_loop.py", "--pool", "async"), {"gram": ("CuPy", "loop, MemoryAsyncPool")}, SPILLS_OR_REFUSES,
                needs=("cupy",)),
        Program("exchange", python("exchange.py"), environment=jax_grows(), needs=("torch",), limit=45, rows={
            "cupy": ("PyTorch and CuPy", "DLPack, both ways"), "jax": ("PyTorch and JAX", "DLPack, both ways")}),
        Program("numba", python("numba_kernel.py"), {"kernel": ("Numba", "kernel on device arrays")}, needs=("numba",)),
        Program("onnxruntime", python("onnx_session.py"), {"session": ("ONNX Runtime", "CUDA provider")}, needs=("onnxruntime",)),
        Program("cuda.shared", (str(matrix / "plain_blocks"),), {"plain": ("CUDA", "cudaMalloc, shared runtime")}),
        Program("cuda.static", (str(matrix / "plain_blocks_static"),), {"plain": ("CUDA", "cudaMalloc, static runtime")}),
        Program("cuda.pool", (str(matrix / "stream_ordered"), "default"), {"pool": ("CUDA", "cudaMallocAsync, the device's pool")},
                SPILLS_OR_REFUSES),
        Program("cuda.own_pool", (str(matrix / "stream_ordered"), "explicit"), {"pool": ("CUDA", "cudaMallocFromPoolAsync, its own pool")},
                SPILLS_OR_REFUSES),
        Program("cuda.mapped", (str(matrix / "mapped_memory"),), {"mapped": ("CUDA", "cuMemCreate, cuMemMap, cuMemSetAccess")},
                SPILLS_OR_REFUSES),
        Program("cuda.ipc", (str(matrix / "ipc_export"),), {"ipc": ("CUDA", "IPC export")}, EXPORTS, limit=40),
        Program("cublas", (str(matrix / "cublas"),), {"cublas": ("cuBLAS", "chain of products")}),
        Program("cufft", (str(matrix / "cufft"),), {"cufft": ("cuFFT", "transforms and their work area")}),
        Program("thrust", (str(matrix / "thrust_sort"),), {"thrust": ("Thrust", "sort and reduce of device vectors")}),
    ]


def graph_programs():
    """Run alone, one after the other: their step times are compared. The decoder has some 5 GiB of weights and cache, so that Spillway's own
    context is a small part of the budget."""
    return [
        Program("graphs.step", python("torch_graphs.py", "step", "--steps", 24), {"step": ("PyTorch", "training step in torch.cuda.graph")},
                needs=("torch",), limit=45, demand=("--steps", "6")),
        Program("graphs.decode", python("torch_graphs.py", "decode", "--steps", 120, "--layers", 12, "--width", 4096),
                {"decode": ("PyTorch", "graphed decode loop")}, needs=("torch",), limit=45, demand=("--steps", "10")),
    ]


def timings():
    """Large enough that the GPU is the limit: smaller steps measure the CPU's launch rate, which varies by a third."""
    return [
        Timing("fits.pytorch", python("torch_training.py", "training", "--layers", 12, "--batch", 16, "--sequence", 1024, "--steps", 25),
               ("torch",)),
        Timing("fits.jax", python("jax_training.py", "--batch", 4096, "--steps", 40), ("jax",), jax_grows()),
        Timing("fits.cupy", python("cupy_loop.py", "--rows", 65536, "--passes", 24), ("cupy",)),
        Timing("fits.decode", python("torch_graphs.py", "decode", "--steps", 240), ("torch",)),
    ]


def two_gpu_programs():
    def ranks(row, port):
        return ("python3", "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2", "--master-addr", "127.0.0.1",
                "--master-port", str(port), str(HERE / "distributed.py"), row)

    settings = {"environment": {"NCCL_SOCKET_IFNAME": "lo"}, "needs": ("torch",), "limit": 60, "policy": str(HERE / "nccl.toml")}
    return [
        Program("two.ddp", ranks("ddp", 29571), {"ddp": ("PyTorch", "DDP over two GPUs by torchrun")}, **settings),
        Program("two.fsdp", ranks("fsdp", 29572), {"fsdp": ("PyTorch", "FSDP over two GPUs by torchrun")}, **settings),
        Program("two.all_reduce", ranks("all_reduce", 29573), {"all_reduce": ("NCCL", "all-reduce, with graphs and without")}, tolerance=0.0,
                **settings),
    ]
