"""Timers and random scenarios shared by the simulator's tests."""

from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from costmodel.method import Batch, Refine, Shape, Stop
from costmodel.method_library import load_method
from simulator.loop.block_options import BlockOptions, RecordedBlocks
from simulator.loop.options import Scenario, SchedulerOptions, SpeculationOptions
from simulator.loop.request import Workload
from simulator.loop.tables import Tables, iteration_s
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.kinds.tree import Tree
from traces.replay.confidence.block_passes import BlockPasses


def _timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    """A plain law: a launch, rows, cache read by decodes and by prompts."""
    rows = decode_requests * query_tokens + sum(new for new, _ in prefill)
    read = decode_context_tokens + sum(new * (cached + new / 2) for new, cached in prefill) / 64
    return 5e-3 + 1e-5 * rows + 1e-7 * read


def _draft_timer(decode_requests, draft_tokens, decode_context_tokens, prefill_tokens):
    return (
        4e-4 * draft_tokens + 1e-6 * prefill_tokens + 1e-8 * decode_context_tokens
        if draft_tokens
        else 0.0
    )


class Tabled:
    """A timer with tables: rows, and a cache read whose time bends with context."""

    def __init__(self):
        axis, context = np.array([1.0, 2.0, 100.0]), np.arange(40.0)
        grid = (
            1e-5
            * axis[None, :, None]
            * np.sqrt(1.0 + context)[None, None, :]
            * np.array([1.0, 1.5])[:, None, None]
        )
        below = np.clip(np.searchsorted(axis, np.arange(101), side="right") - 1, 0, 1).astype(
            np.int32
        )
        self.made = Tables(
            row_s=4e-3 + 1e-5 * np.arange(3.0),
            head_s=1e-6 * np.arange(3.0),
            attention_s=grid,
            together_s=np.zeros((2, 3)),
            query_axis=np.array([1.0, 6.0]),
            query_below=np.zeros(7, np.int32),
            request_axis=axis,
            request_below=below,
            context_step=16.0,
            prompt_s=1e-5 * np.arange(3.0) ** 2,
            reread_s=1e-7 * np.arange(3.0),
            repeated_s=1e-8 * np.arange(3.0),
            prompt_step=64.0,
            prompt_launch_s=1e-5,
            step_s=1e-4,
            request_s=1e-7,
            speculative_step_s=1e-4,
            speculative_request_s=0.0,
            accepted_s=0.0,
            verify_ratio=0.01,
            draft_s=grid / 3,
            draft_row_s=np.zeros(2),
            graph_rows=12,
            eager_s=6e-3,
            launched_s=0.0,
            waiting_s=np.zeros(2),
            prompt_host_s=1e-4,
            overlapped=0,
            idle_s=0.0,
            idle_request_s=0.0,
            ranks=1,
            rank_row_s=np.zeros(2),
            encoder_s=np.zeros(0),
            last_row_s=5e-6 * np.arange(3.0),
        )

    def tables(self, size, *, drafts):
        return self.made

    def __call__(
        self,
        decode_requests,
        query_tokens,
        decode_context_tokens,
        prefill,
        longest_context=0.0,
        speculates=None,
    ):
        if speculates is None:
            speculates = query_tokens > 1.0
        held = decode_requests, query_tokens, decode_context_tokens, prefill
        return iteration_s(self.made, *held, speculates=speculates)


@pytest.fixture
def as_python(monkeypatch):
    """Run a function with the loop as the Python that its machine code is made from."""
    modules = [import_module(f"simulator.cluster.{name}") for name in ("stage", "asked", "ranks")]

    def run(function, *arguments):
        # machine code says nothing of infinity times zero
        with monkeypatch.context() as patched, np.errstate(all="ignore"):
            for module in modules:
                for name, value in vars(module).copy().items():
                    if hasattr(value, "py_func"):
                        patched.setattr(module, name, value.py_func)
            return function(*arguments)

    return run


@pytest.fixture(scope="session")
def tabled_timer():
    return Tabled()


@pytest.fixture(scope="session")
def plain_timer():
    return _timer


def _trace(rng):
    """A recording of level 2 whose lengths and drafts vary."""
    texts = int(rng.integers(1, 6))
    lengths = rng.integers(2, 60, texts)
    n = int(lengths.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rank = np.where(rng.random(n) < rng.uniform(0.2, 0.95), 0, rng.integers(-1, 3, n)).astype(
        np.int8
    )
    emitted = np.ones(n, dtype=np.int16)
    for first, end in pairwise(offsets.tolist()):
        for i in range(first, end):
            while i + emitted[i] < end and rank[i + emitted[i] - 1] == 0:
                emitted[i] += 1
    sure = np.random.default_rng(n).dirichlet(np.ones(4), n)
    return AcceptanceTrace(
        offsets=offsets,
        emitted=emitted,
        rank=rank,
        rank_width=3,
        depth_invariant=True,
        draft_ids=np.tile(np.arange(3), (n, 1)),
        draft_probs=-np.sort(-sure[:, :3]),
        target_probs=sure[:, :3],
        emitted_target_prob=sure[:, 0],
        residual_mass=sure[:, 3],
        first_step_position=int(rng.integers(0, 2)),
        match_rate=float(rng.choice([1.0, 0.7])),
    )


_TREE = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])


def _decoder(rng):
    """Speculation or blocks, or neither."""
    kind = rng.choice(["plain", "chain", "tree", "overlap", "overlap", "ema", "schedule", "blocks"])
    if kind == "plain":
        return {}
    if kind == "blocks":
        size = int(rng.integers(1, 6))
        commits = np.array([rng.multinomial(size, np.full(4, 0.25)) for _ in range(5)])
        queries = rng.integers(1, 9, 4)
        return {
            "blocks": BlockOptions(
                block_tokens=size,
                commits=commits,
                query_tokens=queries,
                closing_passes=int(rng.integers(0, 2)),
            )
        }
    most = int(rng.integers(1, 6))
    ragged = str(rng.choice(["split", "split", "pad", "regroup"]))
    policy = Batch(parts=int(rng.integers(1, 4)), prunes=bool(rng.random() < 0.5))
    if rng.random() < 0.7:
        policy = Batch(
            drafts_during_verify=True,
            branches=int(rng.integers(0, 4)),
            interference_ratio=float(rng.choice([0.0, 0.3])),
            parts=int(rng.choice([1, 1, 3])),
        )
        if most % 2 and not policy.branches and policy.parts == 1:
            policy = replace(
                policy, fan_out=1 + (most > 1), on_miss="wait" if most > 2 else "plain"
            )
    options = {
        "topology": _TREE if kind == "tree" else most,
        "batch": policy if kind == "overlap" else Batch(),
        "stop": Stop(rule="ema" if kind == "ema" else "length"),
        "schedule": ((1, 2, most), (4, 6, 0)) if kind == "schedule" else (),
        "draft": _draft_timer if rng.random() < 0.7 else None,
    }
    options["batch"] = replace(
        options["batch"], ragged="split" if kind == "overlap" and policy.parts > 1 else ragged
    )
    if kind == "chain" and rng.random() < 0.7:
        slots = str(rng.choice(["likeliest", "by_request"]))
        options["batch"] = replace(
            options["batch"], slots=slots, budget_per_request=float(rng.uniform(0, most))
        )
    if options["batch"].ragged != "split" and rng.random() < 0.7:
        options["group_requests"] = int(rng.integers(1, 6))
    return {"speculation": SpeculationOptions(trace=_trace(rng), **options)}


def _scenario(seed, timer=_timer, **changes):
    """A random scenario in which everything happens now and then: tight caches, shared prefixes,
    limits."""
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, 40))
    block_tokens = changes.get("block_tokens", int(rng.choice([1, 4, 16])))
    prompts = rng.integers(1, 90, r)
    arrival = np.sort(rng.uniform(0, rng.choice([0.0, 0.2, 3.0]), r))
    if rng.random() < 0.3:
        arrival = np.round(arrival, 1)
    kv_blocks = max(2, int(rng.choice([60, 150, 600, 4000]) / block_tokens))
    shared = rng.random() < 0.6
    ids = tuple(
        tuple(int(i) for i in rng.integers(0, 2, rng.integers(0, 7)).cumsum()) for _ in range(r)
    )
    workload = Workload(
        arrival_s=arrival,
        prompt_tokens=prompts,
        output_tokens=rng.integers(1, 40, r),
        prefix_ids=ids if shared else None,
        prefix_block_tokens=block_tokens * int(rng.integers(1, 3)),
        priority=rng.integers(0, 3, r) if rng.random() < 0.4 else None,
        users=int(rng.integers(1, 8)) if rng.random() < 0.25 else None,
        think_s=float(rng.choice([0.0, 0.05])),
    )
    options = {
        "token_budget": int(rng.choice([1, 7, 40, 300])),
        "max_requests": int(rng.choice([1, 3, 8, 64])),
        "chunked_prefill": bool(rng.random() < 0.7),
        "prefill_first": bool(rng.random() < 0.35),
        "overlapped_scheduling": bool(rng.random() < 0.25),
        "wait_iterations": int(rng.choice([0, 0, 1, 5])),
        "wait_ratio": float(rng.uniform()),
        "receive_iterations": int(rng.choice([1, 1, 2, 7])),
        "block_tokens": block_tokens,
        "kv_blocks": kv_blocks,
        "watermark_ratio": float(rng.choice([0.0, 0.01, 0.3])),
        "preemption": str(rng.choice(["recompute", "swap"])),
        "swap_block_s": 1e-4,
        "prefix_cache": bool(rng.random() < 0.7),
        "priorities": bool(rng.random() < 0.5),
        "reserve_ratio": [None, None, None, 0.0, 0.1, 1.0][int(rng.integers(6))],
        "intake_s": float(rng.choice([0.0, 0.0, 0.004])),
        "intake_token_s": float(rng.choice([0.0, 1e-4])),
        "slo_ttft_s": 0.4 if rng.random() < 0.2 else None,
        "slo_tpot_s": 0.02 if rng.random() < 0.2 else None,
        "horizon_s": 0.5 if rng.random() < 0.1 else None,
        "pass_tokens": 0,
        "equal_passes": False,
    }
    decoder = _decoder(rng)
    batch = decoder["speculation"].batch if "speculation" in decoder else Batch()
    if (
        batch.parts == 1
        and batch.ragged == "split"
        and (slots := np.random.default_rng([seed, 1])).random() < 0.4
    ):
        options |= {
            "numbered_slots": True,
            "reserve_ratio": 1.0,
            "pass_tokens": int(slots.choice([0, 1, 5, 30])),
            "drafts_within_output": bool(slots.random() < 0.5),
        }
        options["equal_passes"] = bool(options["pass_tokens"] and slots.random() < 0.7)
    options |= {key: changes.pop(key) for key in list(changes) if key in options}
    return Scenario(
        workload=workload,
        scheduler=SchedulerOptions(**options),
        timer=timer,
        **({"seed": seed} | decoder | changes),
    )


def _recorded_blocks(seed):
    """A method that refines blocks, and recorded blocks of it, as they could be."""
    rng = np.random.default_rng([seed, 7])
    size, blocks, prompts = (
        int(rng.integers(1, 7)),
        int(rng.integers(1, 4)),
        int(rng.integers(1, 5)),
    )
    ends = bool(rng.random() < 0.4)
    taken = rng.integers(1, blocks + 1, prompts) if ends else np.full(prompts, blocks)
    start = np.concatenate([np.arange(each) for each in taken]) * size
    tokens = np.full(start.size, size)
    if ends:
        tokens[np.cumsum(taken) - 1] = rng.integers(1, size + 1, prompts)
    commits = [
        rng.multinomial(size, np.full(int(rng.integers(1, 6)), 0.5) / 2.5)
        for _ in range(start.size)
    ]
    forward = str(rng.choice(["full", "suffix", "block"]))
    over_cache = {
        "full_passes": int(rng.integers(0, 3)),
        "full_every": int(rng.choice([0, 3])),
        "reuses": int(rng.integers(0, 2)),
        "closing_passes": int(rng.integers(0, 2)),
        "copies": int(rng.choice([1, 3])),
    }
    canvas = blocks * size * int(rng.integers(1, 3))
    entry = load_method("fast-dllm")
    method = replace(
        entry,
        shape=Shape(kind="block", nodes=size),
        batch=Batch(ragged=str(rng.choice(["split", "pad"]))),
        refine=Refine(
            forward=forward,
            commit="threshold",
            tokens_per_pass=1.0,
            canvas_tokens=canvas,
            **({} if forward == "full" else over_cache),
        ),
    )
    policy = RefinePolicy(
        commit="threshold", block_tokens=size, stop="end_token" if ends else "full"
    )
    walked = BlockPasses(
        replay=SimpleNamespace(policy=policy),
        prompt=np.repeat(np.arange(prompts), taken),
        start=start,
        end=start + size,
        tokens=tokens,
        pass_offsets=np.concatenate([[0], np.cumsum([each.size for each in commits])]),
        committed=np.concatenate(commits),
    )
    return RecordedBlocks(method=method, walked=walked)


def _blocks_scenario(seed, timer=_timer, **scheduler):
    """A random scenario of recorded blocks; with options of its scheduler in place of random
    ones."""
    blocks = _recorded_blocks(seed)
    scenario = _scenario(seed, timer, speculation=None, blocks=blocks)
    changed = {"numbered_slots": False, "pass_tokens": 0, "equal_passes": False} | scheduler
    if not blocks.reads_prompts:
        changed["prefix_cache"] = False
    return replace(scenario, scheduler=replace(scenario.scheduler, **changed))


@pytest.fixture(scope="session")
def recorded_blocks():
    return _recorded_blocks


@pytest.fixture(scope="session")
def blocks_scenario():
    return _blocks_scenario


@pytest.fixture(scope="session")
def random_scenario():
    return _scenario
