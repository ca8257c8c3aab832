"""What is run: workloads, ways, shares of the bare peak, the default table's order, and what each row should take. Pure data and functions."""
import dataclasses
import re

GIB = 1 << 30
MODES = ("demand", "alloc_prefetch", "arrival", "adaptive")
FITS = 1.5  # a budget with room for all, and for Spillway's own memory
PART_SECONDS = 540  # one call


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
    shares: tuple  # where none are asked for
    what: str  # for the report
    costs: dict  # seconds of a whole row by its way, start included; see `Row.estimate`
    bare: Pace = Pace(3, 12, 15)
    learned: Pace = Pace(34, 10, 32)  # adaptive
    static: Pace = Pace(2, 5, 15)  # arrival
    slow: Pace = Pace(1, 2, 14)  # page faults
    by_hand: Pace = Pace(3, 6, 16)  # explicit
    tolerance: float = 1e-5  # of results under Spillway
    explicit_tolerance: float = 1e-5  # of explicit code, which may compute elsewhere
    planned_bytes: int = 24 * GIB  # managed memory at most, before the bare run has told


DECODE = dict(bare=Pace(8, 40, 10), learned=Pace(60, 40, 20), static=Pace(2, 10, 12), by_hand=Pace(4, 20, 12))
ARRAYS = dict(bare=Pace(3, 12, 8), learned=Pace(24, 10, 16), static=Pace(2, 6, 12), slow=Pace(1, 2, 10), by_hand=Pace(2, 8, 8))
# Kernels by CuPy start in 5 s, PyTorch in 9, transformers in 14 (measured on an H200's host); what steps take is measured for train_states
# at 65%, and a guess from the programs of docs/results elsewhere.
ARRAY_COSTS = dict(bare=6, adaptive=20, demand=22, alloc_prefetch=22, arrival=18, adaptive_plan=20, record=7, pipeline=10, zero_copy=10)

WORKLOADS = (
    Workload("train_states", "training.py", ("--layers", 36, "--width", 1280, "--batch", 2, "--sequence", 512), ("zero_offload",),
             1, (0.65, 0.5), "GPT-2-like, 774 M parameters, AdamW, fp32 states, 2 x 512 tokens: mostly optimizer states", explicit_tolerance=1e-3,
             costs=dict(bare=11, adaptive=25, zero_offload=18, demand=30, alloc_prefetch=30, arrival=20, adaptive_plan=25, record=12)),
    Workload("train_compute", "training.py", ("--layers", 12, "--width", 1024, "--batch", 8, "--sequence", 1024),
             ("save_on_cpu", "zero_offload", "both"), 1, (0.65, 0.5),
             "GPT-2-like, 203 M parameters, AdamW, fp32 states, 8 x 1024 tokens: mostly activations", explicit_tolerance=1e-3,
             costs=dict(bare=11, adaptive=28, save_on_cpu=28, zero_offload=14, both=30, demand=28, alloc_prefetch=28, arrival=20, adaptive_plan=28,
                        record=12)),
    Workload("kv_transformers", "transformers_cache.py", ("--batch", 2, "--context", 16400), ("offloaded_cache",), 2, (0.5,),
             "transformers' Llama, 16 layers, 2 rows of 16,400 tokens of context in a DynamicCache", **{**DECODE, "by_hand": Pace(1, 3, 20)},
             tolerance=1e-3, explicit_tolerance=1e-3,  # transformers chooses among kernels
             costs=dict(bare=17, adaptive=33, offloaded_cache=40, demand=28, alloc_prefetch=28, arrival=24, adaptive_plan=33, record=18)),
    Workload("decode_1", "decode.py", ("--layers", 16, "--batch", 1, "--prompt", 128), ("pipeline", "device_map", "cpu_offload"), 2, (0.5,),
             "Llama-like, 3.7 G parameters in bf16, one row", **DECODE,
             costs=dict(bare=11, adaptive=24, pipeline=24, device_map=28, cpu_offload=30, demand=24, alloc_prefetch=24, arrival=20, adaptive_plan=24,
                        record=12)),
    Workload("kv_long", "decode.py", ("--layers", 16, "--width", 2048, "--kv-heads", 32, "--inner", 5632, "--batch", 4, "--context", 16384),
             ("kv_pipeline",), 2, (0.5,), "Llama-like, 16 layers, 4 rows of 16,384 tokens of context in a cache made once", **DECODE,
             costs=dict(bare=11, adaptive=28, kv_pipeline=24, demand=24, alloc_prefetch=24, arrival=20, adaptive_plan=28, record=12)),
    Workload("experts", "experts.py", (), ("expert_cache",), 2, (0.5,),
             "mixture of 16 experts, 8 layers, random routing to two, 4 rows", **DECODE,
             costs=dict(bare=12, adaptive=30, expert_cache=22, demand=24, alloc_prefetch=24, arrival=20, adaptive_plan=30, record=14)),
    Workload("decode_16", "decode.py", ("--layers", 16, "--batch", 16, "--prompt", 128), ("pipeline", "device_map"), 2, (0.65,),
             "Llama-like, 3.7 G parameters in bf16, 16 rows", **DECODE,
             costs=dict(bare=11, adaptive=24, pipeline=24, device_map=28, demand=24, alloc_prefetch=24, arrival=20, adaptive_plan=24, record=12)),
    # What it costs where all fits, in turn: bare, as `spillway run` comes, and with a budget that has room for all.
    Workload("fits_train", "training.py", ("--layers", 12, "--width", 1024, "--batch", 8, "--sequence", 1024), (), 3, (FITS,),
             "train_compute with room for all of it", bare=Pace(5, 40, 15), learned=Pace(5, 40, 15),
             costs=dict(bare=13, no_budget=14, adaptive=14)),
    Workload("fits_decode", "decode.py", ("--layers", 16, "--batch", 16, "--prompt", 128), (), 3, (FITS,), "decode_16 with room for all of it",
             bare=Pace(20, 200, 10), learned=Pace(20, 200, 15), costs=dict(bare=12, no_budget=13, adaptive=13)),
    Workload("stream", "access.py", ("--pattern", "stream"), ("pipeline",), 3, (0.5,),
             "every one of 32 pieces of 256 MiB read and written once a step", costs=ARRAY_COSTS, **ARRAYS),
    Workload("random", "access.py", ("--pattern", "random"), ("zero_copy",), 3, (0.5,),
             "4 M lines of 128 bytes at random in 8 GiB, read", costs={**ARRAY_COSTS, "demand": 30, "alloc_prefetch": 30}, **ARRAYS),
    Workload("block", "access.py", ("--pattern", "block"), ("pipeline",), 3, (0.5,),
             "32 pieces of 256 MiB, each read and written eight times before the next", costs=ARRAY_COSTS, **ARRAYS),
    Workload("out_of_core", "out_of_core.py", (), ("pipeline",), 3, (0.5,), "CuPy: Gram matrix of 32 blocks of 256 MiB", costs=ARRAY_COSTS, **ARRAYS),
    Workload("embedding", "embedding.py", (), ("host_tables",), 3, (0.5,),
             "4 tables of 2 M rows of 128, Adagrad, sparse gradients of 65,536 rows", explicit_tolerance=1e-3, bare=Pace(5, 20, 10),
             learned=Pace(40, 20, 20), by_hand=Pace(3, 8, 12),
             costs=dict(bare=11, adaptive=26, host_tables=22, demand=26, alloc_prefetch=26, arrival=22, adaptive_plan=26, record=12)),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}

# The default table. Each part is a call of PART_SECONDS; its rows stand in the order of their worth, so that a call that is short of time has
# run the ones that matter. A row must come after its workload's bare run, and a plan after the adaptive row that it is made from.
PARTS = {
    1: (("train_states", "bare 65%/adaptive 65%/zero_offload 65%/demand 65%/alloc_prefetch record 65%/adaptive_plan 65%/arrival"),
        ("train_states", "50%/adaptive 50%/zero_offload 50%/demand 50%/alloc_prefetch 50%/adaptive_plan 50%/arrival"),
        ("train_compute", "bare 65%/adaptive 65%/save_on_cpu 65%/zero_offload 65%/demand 65%/alloc_prefetch"),
        ("train_states", "bare/2"),
        ("train_compute", "50%/adaptive 50%/save_on_cpu 50%/demand 50%/alloc_prefetch record 65%/adaptive_plan 65%/both bare/2")),
    2: (("kv_transformers", "bare 50%/adaptive 50%/offloaded_cache 50%/demand"),
        ("decode_1", "bare 50%/adaptive 50%/pipeline 50%/cpu_offload record 50%/adaptive_plan 50%/demand"),
        ("kv_long", "bare 50%/adaptive 50%/kv_pipeline 50%/demand"),
        ("decode_16", "bare 65%/adaptive 65%/pipeline"),
        ("experts", "bare 50%/adaptive 50%/expert_cache"),
        ("kv_transformers", "record 50%/adaptive_plan"),
        ("decode_16", "65%/demand"),
        ("decode_1", "50%/device_map 50%/alloc_prefetch bare/2"),
        ("kv_transformers", "50%/alloc_prefetch bare/2"),
        ("kv_long", "record 50%/adaptive_plan"),
        ("experts", "50%/demand")),
    3: (("fits_train", "bare fits/no_budget fits/adaptive bare/2 fits/no_budget/2 fits/adaptive/2 bare/3 fits/no_budget/3 fits/adaptive/3"),
        ("fits_decode", "bare fits/no_budget fits/adaptive bare/2 fits/no_budget/2 fits/adaptive/2 bare/3 fits/no_budget/3 fits/adaptive/3"),
        ("stream", "bare 50%/adaptive 50%/pipeline 50%/demand"),
        ("out_of_core", "bare 50%/adaptive 50%/pipeline 50%/demand"),
        ("block", "bare 50%/adaptive 50%/pipeline"),
        ("random", "bare 50%/adaptive 50%/zero_copy"),
        ("embedding", "bare 50%/adaptive 50%/host_tables"),
        ("stream", "50%/alloc_prefetch 50%/adaptive_plan"),
        ("block", "50%/demand 50%/alloc_prefetch"),
        ("out_of_core", "50%/alloc_prefetch 50%/adaptive_plan"),
        ("embedding", "50%/demand"),
        ("random", "50%/demand")),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One run of one program."""
    workload: Workload
    share: float  # 0: bare, no budget
    way: str  # "bare", "record" (mode off with a trace), a mode, "no_budget", "adaptive_plan", or a value of --offload
    round: int = 1

    @property
    def kind(self):
        if self.way == "bare":
            return "bare"
        return "spillway" if self.way in MODES or self.way in ("adaptive_plan", "no_budget", "record") else "explicit"

    @property
    def pace(self):
        workload = self.workload
        if self.kind == "explicit":
            return workload.by_hand
        return {"bare": workload.bare, "record": workload.bare, "arrival": workload.static, "adaptive": workload.learned, "no_budget": workload.learned,
                "adaptive_plan": workload.learned}.get(self.way, workload.slow)

    @property
    def name(self):
        where = self.way if self.share == 0 else f"{share_text(self.share)}/{self.way}"
        return f"{self.workload.name}/{where}" + (f"/{self.round}" if self.round > 1 else "")

    @property
    def estimate(self):
        """Seconds it should take; it is not begun with less time left."""
        return self.workload.costs[self.way]

    @property
    def limit_seconds(self):
        """After this the process is ended, whatever it does: a page fault's step may take long, and cannot be cut."""
        return min(150, 2 * self.estimate + 20)


def share_text(share):
    return "fits" if share == FITS else f"{round(share * 100)}%"


def row_of(workload, text):
    """The row of that name, less the workload's: `bare`, `bare/2`, `65%/adaptive`, `fits/adaptive/2`."""
    words = text.split("/")
    share = 0
    if words[0] == "fits" or words[0].endswith("%"):
        first = words.pop(0)
        share = FITS if first == "fits" else int(first[:-1]) / 100
    return Row(workload, share, words[0], int(words[1]) if len(words) > 1 else 1)


def ways_of(workload, share):
    if share == FITS:
        return ["no_budget", "adaptive"]
    return ["adaptive", *workload.explicit, "demand", "alloc_prefetch", "adaptive_plan", "arrival"]


def expand(workload, shares, rounds):
    """All rows of a workload but bare ones, in order. What is recorded where all fits comes last: then it is known what Spillway takes itself."""
    rows = [Row(workload, share, way, turn) for share in shares for turn in range(1, rounds + 1) for way in ways_of(workload, share)]
    return rows if workload.shares == (FITS,) else [*rows, Row(workload, 0, "record")]


def part_rows(part):
    """The default table's rows of a part, in order."""
    return [row_of(BY_NAME[name], text) for name, texts in PARTS[part] for text in texts.split()]


def default_rows():
    return [row for part in PARTS for row in part_rows(part)]


def chosen_rows(part, only, shares, rounds):
    """With --only, --shares or --rounds: by workloads, bare first, then the ways in turn for each share, and bare once more, so that a drift of
    the card shows. What a row needs comes along."""
    rows = []
    for workload in WORKLOADS:
        if part is not None and workload.part != part:
            continue
        fits = workload.shares == (FITS,)
        every = expand(workload, workload.shares if fits or not shares else shares, max(3, rounds) if fits else rounds)
        wanted = [row for row in every if re.search(only, row.name)]
        # A plan is made from the trace of the adaptive row beside it.
        needed = {(row.share, row.round) for row in wanted if row.way == "adaptive_plan"}
        chosen = [row for row in every if row in wanted or (row.way == "adaptive" and (row.share, row.round) in needed)]
        if not chosen and not re.search(only, f"{workload.name}/bare"):
            continue
        if fits:  # in turn, so that a drift falls on all
            for turn in sorted({row.round for row in chosen}) or [1]:
                rows += [Row(workload, 0, "bare", turn), *(row for row in chosen if row.round == turn)]
            continue
        rows.append(Row(workload, 0, "bare"))
        rows += chosen
        if len(chosen) > 1:
            rows.append(Row(workload, 0, "bare", 2))
    return rows


def plan(part=None, only="", shares=None, rounds=1):
    """Rows in order. `part`: one of PARTS, or None for all. `only`: an expression that a row's name must match. `shares`: in place of the
    workloads' own."""
    if only or shares or rounds > 1:
        return chosen_rows(part, only, shares, rounds)
    return default_rows() if part is None else part_rows(part)
