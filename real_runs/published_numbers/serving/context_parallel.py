"""How long do prompts and tokens of Llama 3 405B take on nodes that share a context: rows of
Context Parallelism?

What the paper says of its machines is stated here: H100 of 96 GB at 2.4 TB/s and a peak of 800
TFLOP/s, 400 Gbit/s a device between nodes, FlashAttention 3 at 540 TFLOP/s, feed-forward layers in
fp8, collectives of PyTorch. Leaves out other papers' clusters.
"""

import re

import numpy as np

from costmodel.architectures.library import load_model
from costmodel.parallel.passes import plan_cost
from costmodel.parallel.plan import ParallelPlan
from costmodel.passes.forward import Deployment
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.reading.amounts import token_count
from real_runs.published_numbers.reading.table import PublishedRow

# arXiv:2411.01783, section 4.1 and appendix A
_MACHINES = (
    "device.bandwidth_bytes_per_s=2.4e12",
    "device.peak_flops_per_s.bf16=8e14",
    "device.peak_flops_per_s.fp8=1.6e15",
)
_FLASH_ATTENTION_3 = (
    f"device.constants.context.compute_efficiency={540 / 800}",
    "device.constants.context.tile_s=0",
    "device.constants.context.unit_s=0",
)
_QUANTISED = ("gate_up", "down")
_CACHED = re.compile(r"P=(\d+), new T=(\d+)")
_MISSED = re.compile(r"new T=(\d+(?:\.\d+)?)% miss")


def answers(row: PublishedRow) -> bool:
    """Whether a row asks for a prompt or a token under a shared context."""
    return row.facts.service == "context-parallel" and row.unit.startswith("ms TT")


def predict(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> Prediction:
    """Milliseconds of the prompt or the token that a row asks for.

    Args:
        row: for which `answers` holds.
        beside: rows of the same source.

    Raises:
        InputError: a length that the row does not state.

    Reference: Yang et al., "Context Parallelism for Scalable Million-Token Inference"
    (arXiv:2411.01783).
    """
    parts, tensor = row.own_facts.parallel
    plan = ParallelPlan(context=parts, tensor=tensor, backend="nccl")
    seconds = _token_s(row, plan) if row.unit.startswith("ms TTIT") else _prompt_s(row, plan)
    return Prediction(
        row=row,
        predicted=1e3 * seconds,
        remarks=("machines as the source's section 4.1 states them",),
    )


def _token_s(row: PublishedRow, plan: ParallelPlan) -> float:
    ends = [token_count(part) for part in row.prompt.split("-")]
    if None in ends:
        raise InputError("states no context", key="prompt_len", value=row.prompt)
    times = [
        _pass_s(plan, (), batch=1.0, query_tokens=1.0, context=float(end or 0), combination="ring")
        for end in ends
    ]
    return float(np.mean(times))


def _prompt_s(row: PublishedRow, plan: ParallelPlan) -> float:
    cached, missed = _CACHED.search(row.prompt), _MISSED.search(row.prompt)
    if cached:
        old, new = float(cached[1]), float(cached[2])
    elif missed:
        whole = float(token_count(row.data) or 0)
        new = whole * float(missed[1]) / 100.0
        old = whole - new
    else:
        old, new = 0.0, float(token_count(row.prompt) or 0)
    if new <= 0.0:
        raise InputError("states no length of the prompt", key="prompt_len", value=row.prompt)
    return _pass_s(
        plan,
        _FLASH_ATTENTION_3,
        batch=1.0,
        query_tokens=new,
        context=old,
        logits="last",
        prefill=True,
        ring=row.own_facts.ring,
    )


def _pass_s(plan: ParallelPlan, overrides: tuple[str, ...], **arguments: object) -> float:
    """Seconds of a pass with feed-forward layers in fp8 and all else in bf16.

    The narrowing of activations is that of a model in fp8 throughout: a little too much.
    """
    device, model = load_device("h100-sxm", [*_MACHINES, *overrides]), load_model("llama-3.1-405b")
    wide, narrow = (
        plan_cost(
            Deployment(architecture=model, device=device, precision=form),
            plan,
            **arguments,  # type: ignore[arg-type]
        ).operations
        for form in (Precision(), Precision(weights="fp8", activations="fp8", kv="bf16"))
    )
    chosen = [op for op in wide if op.role not in _QUANTISED]
    chosen += [op for op in narrow if op.role in _QUANTISED or op.name == "quantise"]
    return float(sum(float(op.calls) * float(op.timing.seconds) for op in chosen))
