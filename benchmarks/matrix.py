"""What is run: workloads, ways, shares of the bare peak, and how much of it fits into a call. Pure data and functions."""
import dataclasses
import re

GIB = 1 << 30
MODES = ("demand", "alloc_prefetch", "arrival", "adaptive")
SHARES = (1.0, 0.8, 0.65, 0.5, 0.35)
FITS = 1.5  # a budget with room for all, and for Spillway's own memory
PARTS = (1, 2, 3)


@dataclasses.dataclass(frozen=True)
class Pace:
    """Steps before the measured ones, measured ones, and seconds after which no more is begun."""
    warmup: int
    steps: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    script: str
    flags: tuple
    explicit: tuple  # values of its --offload
    part: int
    shares: tuple  # of the default subset
    what: str  # for the report
    skip: tuple = ()  # ways that the default subset leaves out
    skip_later: tuple = ("arrival", "adaptive_plan")  # and those that it leaves out at all shares but the first
    bare: Pace = Pace(3, 12, 15)
    learned: Pace = Pace(30, 10, 32)  # adaptive
    static: Pace = Pace(2, 5, 20)  # arrival
    slow: Pace = Pace(1, 2, 25)  # page faults
    by_hand: Pace = Pace(3, 6, 20)  # explicit
    tolerance: float = 1e-5  # of results under Spillway
    explicit_tolerance: float = 1e-5  # of explicit code, which may compute elsewhere
    start_seconds: float = 12  # until the first step: imports, weights
    planned_bytes: int = 24 * GIB  # managed memory at most


DECODE = dict(bare=Pace(8, 40, 10), learned=Pace(60, 40, 20), static=Pace(2, 10, 15), by_hand=Pace(4, 20, 12))
ARRAYS = dict(start_seconds=5, bare=Pace(3, 12, 8), learned=Pace(24, 10, 16), static=Pace(2, 6, 12), slow=Pace(1, 2, 15),
              by_hand=Pace(2, 8, 8), skip=("arrival", "record"))

WORKLOADS = (
    Workload("train_states", "training.py", ("--layers", 36, "--width", 1280, "--batch", 2, "--sequence", 512), ("zero_offload",),
             1, (0.65, 0.5), "GPT-2-like, 774 M parameters, AdamW, fp32 states, 2 x 512 tokens: mostly optimizer states", explicit_tolerance=1e-3),
    Workload("train_compute", "training.py", ("--layers", 12, "--width", 1024, "--batch", 8, "--sequence", 1024),
             ("save_on_cpu", "zero_offload", "both"), 1, (0.65,),
             "GPT-2-like, 203 M parameters, AdamW, fp32 states, 8 x 1024 tokens: mostly activations", explicit_tolerance=1e-3),
    Workload("kv_transformers", "transformers_cache.py", ("--batch", 4, "--context", 16384), ("offloaded_cache",), 2, (0.5,),
             "transformers' Llama, 16 layers, 4 rows of 16,384 tokens of context in a DynamicCache", skip=("arrival",), **DECODE),
    Workload("decode_1", "decode.py", ("--layers", 16, "--batch", 1, "--prompt", 128), ("pipeline", "device_map", "cpu_offload"), 2, (0.5,),
             "Llama-like, 3.7 G parameters in bf16, one row", skip=("arrival",), **DECODE),
    Workload("kv_long", "decode.py", ("--layers", 16, "--width", 2048, "--kv-heads", 32, "--inner", 5632, "--batch", 4, "--context", 16384),
             ("kv_pipeline",), 2, (0.5,), "Llama-like, 16 layers, 4 rows of 16,384 tokens of context in a cache made once",
             skip=("arrival", "alloc_prefetch", "record"), **DECODE),
    Workload("experts", "experts.py", (), ("expert_cache",), 2, (0.5,),
             "mixture of 16 experts, 8 layers, random routing to two, 4 rows", skip=("arrival", "alloc_prefetch", "record"), **DECODE),
    Workload("decode_16", "decode.py", ("--layers", 16, "--batch", 16, "--prompt", 128), ("pipeline", "device_map"), 2, (0.65,),
             "Llama-like, 3.7 G parameters in bf16, 16 rows", skip=("arrival", "alloc_prefetch", "record", "adaptive_plan", "device_map"), **DECODE),
    # What it costs where all fits: bare and adaptive in turn.
    Workload("fits_train", "training.py", ("--layers", 12, "--width", 1024, "--batch", 8, "--sequence", 1024), (), 3, (FITS,),
             "train_compute with room for all of it", bare=Pace(5, 40, 15), learned=Pace(5, 40, 15)),
    Workload("fits_decode", "decode.py", ("--layers", 16, "--batch", 16, "--prompt", 128), (), 3, (FITS,), "decode_16 with room for all of it",
             bare=Pace(20, 200, 10), learned=Pace(20, 200, 15)),
    Workload("stream", "access.py", ("--pattern", "stream"), ("pipeline",), 3, (0.5,),
             "every one of 32 pieces of 256 MiB read and written once a step", **ARRAYS),
    Workload("random", "access.py", ("--pattern", "random"), ("zero_copy",), 3, (0.5,),
             "4 M lines of 128 bytes at random in 8 GiB, read", **ARRAYS),
    Workload("block", "access.py", ("--pattern", "block"), ("pipeline",), 3, (0.5,),
             "32 pieces of 256 MiB, each read and written eight times before the next", **ARRAYS),
    Workload("out_of_core", "out_of_core.py", (), ("pipeline",), 3, (0.5,), "CuPy: Gram matrix of 32 blocks of 256 MiB", **ARRAYS),
    Workload("embedding", "embedding.py", (), ("host_tables",), 3, (0.5,),
             "4 tables of 2 M rows of 128, Adagrad, sparse gradients of 65,536 rows", explicit_tolerance=1e-3, bare=Pace(5, 20, 10),
             learned=Pace(40, 20, 25), by_hand=Pace(3, 8, 15), skip=("arrival", "record")),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}


@dataclasses.dataclass(frozen=True)
class Row:
    """One run of one program."""
    workload: Workload
    share: float  # 0: bare, no budget
    way: str  # "bare", "record" (mode off with a trace), a mode, "adaptive_plan", or a value of --offload
    round: int = 1

    @property
    def kind(self):
        if self.way == "bare":
            return "bare"
        return "spillway" if self.way in MODES or self.way in ("adaptive_plan", "record") else "explicit"

    @property
    def pace(self):
        workload = self.workload
        if self.kind == "explicit":
            return workload.by_hand
        return {"bare": workload.bare, "record": workload.bare, "arrival": workload.static, "adaptive": workload.learned,
                "adaptive_plan": workload.learned}.get(self.way, workload.slow)

    @property
    def mode(self):
        return {"adaptive_plan": "adaptive", "record": "off"}.get(self.way, self.way)

    @property
    def name(self):
        where = self.way if self.share == 0 else f"{share_text(self.share)}/{self.way}"
        return f"{self.workload.name}/{where}" + (f"/{self.round}" if self.round > 1 else "")

    @property
    def least_seconds(self):
        """Not worth to begin with less time left."""
        return self.workload.start_seconds + 0.5 * self.pace.seconds

    @property
    def limit_seconds(self):
        """After this the process is ended, whatever it does: a page fault's step may take long, and cannot be cut."""
        return 3 * self.workload.start_seconds + 2 * self.pace.seconds + 15


def share_text(share):
    return "fits" if share == FITS else f"{round(share * 100)}%"


def ways_of(workload, share):
    """In the order of worth: a call that ends early has run the first."""
    if share == FITS:
        return ["adaptive"]
    return ["adaptive", *workload.explicit, "demand", "alloc_prefetch", "adaptive_plan", "arrival"]


def expand(workload, shares, rounds):
    """All rows of a workload but bare ones, in order. What is recorded where all fits comes after the first share."""
    rows = []
    for share in shares:
        for turn in range(1, rounds + 1):
            for way in ways_of(workload, share):
                rows.append(Row(workload, share, way, turn))
                if way == "adaptive_plan" and share == shares[0] and turn == 1:
                    rows.append(Row(workload, 0, "record"))
    return rows


def left_out(row, first_share):
    """Whether the default subset leaves it out."""
    return row.way in row.workload.skip or (row.share not in (0, first_share) and row.way in row.workload.skip_later)


def plan(part=None, only="", shares=None, rounds=1):
    """Rows in order: for each workload bare first, then the ways in turn for each share, and bare once more at the end, so that a
    drift of the card shows. `only`: an expression that a row's name must match; what it needs comes along. `part`: one of PARTS, or None
    for all. `shares`: in place of the workloads' own. With `only` or `shares` nothing is left out of what they choose."""
    rows = []
    for workload in WORKLOADS:
        if part is not None and workload.part != part:
            continue
        fits = workload.shares == (FITS,)
        every = expand(workload, workload.shares if fits or not shares else shares, max(3, rounds) if fits else rounds)
        wanted = [row for row in every if (re.search(only, row.name) if only else shares or not left_out(row, workload.shares[0]))]
        # A plan is made from the trace of the adaptive row beside it.
        needed = {(row.share, row.round) for row in wanted if row.way == "adaptive_plan"}
        chosen = [row for row in every if row in wanted or (row.way == "adaptive" and (row.share, row.round) in needed)]
        if not chosen and not re.search(only, f"{workload.name}/bare"):
            continue
        if fits:  # in turn, so that a drift falls on both
            for row in chosen:
                rows += [Row(workload, 0, "bare", row.round), row]
            continue
        rows.append(Row(workload, 0, "bare"))
        rows += chosen
        if len(chosen) > 1:
            rows.append(Row(workload, 0, "bare", 2))
    return rows
