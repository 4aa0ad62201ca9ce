"""How long does one whole pass of a model take over new tokens behind a cache?

Random weights in a published shape, a cache that is full up to the context, and the pass that a
verify step makes: logits after every new token, of a chain or of a tree. Leaves out drafting and
what an engine does between passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import load_model
from costmodel.passes import ops
from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.errors import InputError
from real_runs.decoding.tree import tree_mask, tree_positions
from real_runs.kernels.machine import DTYPES, Machine
from real_runs.kernels.sweep import Case, Variant, coarse_first
from real_runs.kernels.timing import COLD_CACHES
from real_runs.models.cache import KVCache
from real_runs.models.graphs import StaticPass
from real_runs.models.llama import Llama
from real_runs.models.loading.weights_like import config_like, weights_like

_FEW_SETS = 4  # for models so small that their weights stay in the cache anyway
_ALIGNED_SLOTS = 8  # the kernel that takes masks on CUDA wants rows that begin at such multiples
_SEED = 0


def step_cases(
    model: str,
    machine: Machine,
    dtype: str,
    *,
    requests: Sequence[int],
    query_tokens: Sequence[int],
    context: Sequence[int],
    masks: Sequence[str] = ("causal",),
    layers: int | None = None,
    graph: bool = True,
) -> list[Case]:
    """Passes of every size, coarse first; the model is built when the first of them is timed.

    Args:
        model: shipped name.
        machine: where.
        dtype: number format of weights, activations and cache.
        requests: batch.
        query_tokens: new tokens per request.
        context: cached tokens per request.
        masks: "causal" and "tree"; a tree of one token is a chain and is left out.
        layers: layers to build; None: all.
        graph: time a captured graph on CUDA; false times what a host that launches kernel by kernel
            takes.

    Raises:
        UnknownNameError: no such model.
        InputError: layers that cannot be run here, or more of them than the model has.
    """
    architecture = load_model(model)
    if layers is not None:
        if layers > architecture.layers:
            raise InputError(f"must be at most {architecture.layers}", key="layers", value=layers)
        architecture = architecture.with_layers(layers)
    config_like(architecture)
    built = cache(partial(_model, architecture, machine.device, DTYPES[dtype]))
    return [
        _case(architecture, machine, dtype, masks[m], b, n, c, built, graph)
        for m, c, n, b in coarse_first([range(len(masks)), context, query_tokens, requests])
        if n > 1 or masks[m] == "causal"
    ]


def step_work(
    architecture: Architecture, requests: int, query_tokens: int, context: int, width: float
) -> ops.Work:
    """FLOPs of a pass, and the bytes that it must move: weights once, the cache once per request.

    Args:
        architecture: with the layers that run.
        requests: batch b.
        query_tokens: new tokens per request n.
        context: cached tokens per request.
        width: bytes of a value.
    """
    tokens = requests * query_tokens
    idle = architecture.parameters - architecture.active_parameters
    flops = 2.0 * tokens * (architecture.weight_values - idle)
    moved = width * architecture.weight_values
    for block, count in architecture.blocks:
        layer, feed_forward = block.attention, block.feed_forward
        if feed_forward.is_moe:
            visited = ops.distinct_experts(
                tokens,
                feed_forward.experts,
                feed_forward.experts_per_token,
                skew=0.0,  # routers have random weights
            )
            unread = (feed_forward.experts - visited) * feed_forward.expert_parameters(
                architecture.hidden
            )
            moved -= width * count * float(unread)
        shape: dict[str, Any] = {"heads": layer.heads, "kv_bytes": width, "activation_bytes": 0.0}
        if layer.is_mla:
            shape |= {"latent": layer.kv_lora_rank, "rope": layer.rope_dim}
            work = ops.latent_attention(requests, query_tokens, context, **shape)
        else:
            shape |= {
                "kv_heads": layer.kv_heads,
                "head_dim": layer.head_dim,
                "window": layer.window,
            }
            work = ops.attention(requests, query_tokens, context, **shape)
        flops, moved = flops + count * float(work.flops), moved + count * float(work.bytes)
    return ops.Work(np.asarray(flops), np.asarray(moved))


def _case(
    architecture: Architecture,
    machine: Machine,
    dtype: str,
    mask: str,
    b: int,
    n: int,
    c: int,
    model: Callable[[], Llama],
    graph: bool,
) -> Case:
    width = BYTES_PER_VALUE[dtype]
    work = step_work(architecture, b, n, c, width)
    weights_bytes = width * architecture.weight_values
    layer = max(architecture.blocks, key=lambda pair: pair[1])[0].attention
    cold = weights_bytes >= COLD_CACHES * machine.cache_bytes
    return Case(
        shape={
            "operation": "step",
            "dtype": dtype,
            "mask": mask,
            "model": architecture.name,
            "layers": architecture.layers,
            "requests": b,
            "query_tokens": n,
            "context": c,
            "heads": layer.heads,
            "kv_heads": layer.kv_heads,
            "head_dim": layer.head_dim,
            "rows": b * n,
            "outputs": architecture.vocab,
            "inputs": architecture.hidden,
        },
        flops=float(work.flops),
        bytes=float(work.bytes),
        set_bytes=float(weights_bytes + width * b * (c + n) * architecture.kv_values_per_token),
        build=partial(
            _builders, model, mask, b, n, c, graph and machine.device.type == "cuda", cold
        ),
        # logits in float32, and the widest activations of a layer
        scratch=dict.fromkeys(("eager", "graph"), 8.0 * b * n * architecture.vocab),
        most_sets=1 if cold else _FEW_SETS,
    )


def _builders(
    model: Callable[[], Llama],
    mask: str,
    b: int,
    n: int,
    c: int,
    graph: bool,
    cold: bool,
    sets: int,
) -> Mapping[str, Callable[[], Variant]]:
    target = model()
    capacity = -(-(c + n) // _ALIGNED_SLOTS) * _ALIGNED_SLOTS
    caches = [_filled(target, capacity, b) for _ in range(sets)]
    drawn = torch.Generator(device=target.device).manual_seed(_SEED)
    tokens = torch.randint(target.config.vocabulary, (b, n), device=target.device, generator=drawn)
    layout: dict[str, Any] = {}
    if mask == "tree":
        parents = [-1, *((node - 1) // 2 for node in range(1, n))]
        layout = {
            "positions": tree_positions(parents, c),
            "mask": tree_mask(parents, c).to(target.device),
        }

    def eager() -> Variant:
        calls = [
            partial(target.forward, tokens, cache, start=c, logits="all", **layout)
            for cache in caches
        ]
        return Variant(calls=calls, fields={"cold": cold})

    def captured() -> Variant:
        among = {"positions": layout["positions"], "among": layout["mask"][:, c:]} if layout else {}
        passes = [
            StaticPass(target, static_pass, tokens=n, slots=c + n, settled=c > 0, chain=not layout)
            for static_pass in caches
        ]
        for static_pass in passes:
            static_pass.load(tokens, starts=[c] * b, **among)
        return Variant(
            calls=[static_pass.replay for static_pass in passes],
            fields={"cold": cold, "graph": target.device.type == "cuda"},
        )

    return {"graph": captured} if graph else {"eager": eager}


def _filled(model: Llama, capacity: int, batch: int) -> KVCache:
    """A cache of random numbers, one layer's in all: zeros can be faster than what a model leaves
    there.
    """
    cache = model.new_cache(capacity, batch=batch)
    drawn = torch.Generator(device=model.device).manual_seed(_SEED)
    for tensor in (cache.keys, cache.values):
        tensor.copy_(torch.empty_like(tensor[:1]).normal_(generator=drawn).expand_as(tensor))
    return cache


def _model(architecture: Architecture, device: torch.device, dtype: torch.dtype) -> Llama:
    """A model of that shape with random weights."""
    return Llama(
        weights_like(architecture, seed=_SEED, device=device, dtype=dtype),
        device=device,
        dtype=dtype,
    )
