"""Which attention kernels can verify, and how is each one called?

A table of forms. Every form turns operands into a call without arguments; layouts are changed
before the clock runs, as an engine that keeps its cache in the kernel's own layout would. Leaves
out whether a form is right here (`attention.checked_forms` finds out) and how long it takes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from real_runs.kernels import split_attention as split
from real_runs.kernels.operands import (
    PAGE_TOKENS,
    AttentionOperands,
    AttentionShape,
    Layout,
    additive_mask,
)
from real_runs.kernels.timing import Call


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedCall:
    """A call that a form made of operands.

    Attributes:
        call: computes the attention once.
        answer: what the call returns as [b, n, heads, d].
        splits: parts that we split the cache into; 0: the kernel decides.
    """

    call: Call
    answer: Callable[[Any], torch.Tensor]
    splits: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """One way to compute attention.

    Attributes:
        prepare: operands to a call.
        devices: device types that it can run on.
        layout: layout of keys and values that it reads.
        packed: the query heads of a group share rows against one key/value head.
        trees: takes any mask among the new tokens, not only the causal one.
        scores: bytes per score that it keeps in memory; 0: none.
        cached: "any" number of cached tokens, or only with "some", or only with "none".
        module: importable module that it needs; "" for torch alone.
    """

    prepare: Callable[[AttentionOperands], PreparedCall]
    devices: tuple[str, ...] = ("cuda",)
    layout: Layout = "tokens"
    packed: bool = False
    trees: bool = False
    scores: int = 0
    cached: Literal["any", "some", "none"] = "any"
    module: str = ""

    def scratch_bytes(self, shape: AttentionShape) -> int:
        """Bytes for scores or for a mask over all keys; 0: it keeps none."""
        if not self.scores:
            return 0
        return self.scores * shape.requests * shape.heads * shape.query_tokens * shape.keys

    def refusal(self, shape: AttentionShape, device: str) -> str:
        """Why it cannot run this shape on a kind of device ("cuda", "cpu"); "" where it can."""
        if device not in self.devices:
            return f"does not run on {device}"
        if self.module and not _installed(self.module):
            return f"{self.module} is not installed"
        if shape.mask == "tree" and not self.trees:
            return "takes no tree mask"
        if self.cached == "none" and shape.context:
            return "takes no cached tokens"
        return "needs cached tokens" if self.cached == "some" and not shape.context else ""


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a package that it would lie in
        return False


def _flash(operands: AttentionOperands) -> PreparedCall:
    """Dense FlashAttention-2 of torch, causal against the end of the keys."""
    key, value = (tensor.transpose(1, 2) for tensor in operands.by_token())
    query = operands.query.transpose(1, 2)
    call = partial(torch.ops.aten._scaled_dot_product_flash_attention, query, key, value, 0.0, True)
    return PreparedCall(call=call, answer=lambda output: output[0].transpose(1, 2))


def _flash_varlen(operands: AttentionOperands) -> PreparedCall:
    """FlashAttention-2 of torch over ragged requests, the form that serving engines call and that
    does not split.
    """
    s = operands.shape
    key, value = (tensor.reshape(-1, s.kv_heads, s.head_dim) for tensor in operands.by_token())
    query = operands.query.reshape(-1, s.heads, s.head_dim)
    count = torch.arange(s.requests + 1, dtype=torch.int32, device=query.device)
    call = partial(
        torch.ops.aten._flash_attention_forward,
        query,
        key,
        value,
        count * s.query_tokens,
        count * s.keys,
        s.query_tokens,
        s.keys,
        0.0,
        True,
        False,
    )
    return PreparedCall(call=call, answer=lambda output: output[0].view(operands.query.shape))


def _sdpa(backend: SDPBackend, packed: bool, operands: AttentionOperands) -> PreparedCall:
    """`scaled_dot_product_attention` with an additive mask over all keys."""
    s = operands.shape
    key, value = (tensor.transpose(1, 2) for tensor in operands.by_token())
    query = operands.packed_query if packed else operands.query.transpose(1, 2)
    mask = additive_mask(operands, rows=s.packed_rows if packed else s.query_tokens)

    def call() -> torch.Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, enable_gqa=not packed
            )

    return PreparedCall(
        call=call, answer=operands.unpacked if packed else lambda output: output.transpose(1, 2)
    )


def _sdpa_square(backend: SDPBackend, operands: AttentionOperands) -> PreparedCall:
    """`scaled_dot_product_attention` with its own causal flag, which is aligned to the first key:
    no prefix.
    """
    key, value = (tensor.transpose(1, 2) for tensor in operands.by_token())
    query = operands.query.transpose(1, 2)

    def call() -> torch.Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=True
            )

    return PreparedCall(call=call, answer=lambda output: output.transpose(1, 2))


def _split(part: split.Partial, parts: int | None, operands: AttentionOperands) -> PreparedCall:
    """Our split of the cache around a kernel without a mask; None: parts that fill the device."""
    count = parts or split.parts_to_fill(operands.shape, processors(operands.query.device.type))
    count = split.equal_parts(operands.shape.context, count)
    return PreparedCall(
        call=split.split_call(operands, part, count), answer=operands.unpacked, splits=count
    )


def _flex(operands: AttentionOperands) -> PreparedCall:
    """Compiled FlexAttention with the mask as a score modification."""
    s = operands.shape
    key, value = (states.transpose(1, 2) for states in operands.by_token())
    query, visible = operands.query.transpose(1, 2), operands.visible
    cached = torch.tensor(s.context, device=query.device)

    def score(
        value: torch.Tensor, _b: Any, _h: Any, row: torch.Tensor, column: torch.Tensor
    ) -> torch.Tensor:
        new = column - cached
        return torch.where((new < 0) | visible[row, new.clamp(min=0)], value, -float("inf"))

    call = partial(_compiled_flex(), query, key, value, score_mod=score, enable_gqa=True)
    return PreparedCall(call=call, answer=lambda output: output.transpose(1, 2))


@cache
def _compiled_flex() -> Callable[..., torch.Tensor]:
    # loads torch's compiler, which no other form needs
    from torch.nn.attention.flex_attention import flex_attention

    torch._dynamo.config.cache_size_limit = 256
    compiled: Callable[..., torch.Tensor] = torch.compile(flex_attention, dynamic=False)
    return compiled


def _flash_attn(module: str, operands: AttentionOperands) -> PreparedCall:
    """The flash-attn package over a cache, splits by its own heuristic."""
    s = operands.shape
    library = importlib.import_module(module)
    key, value = operands.by_token()
    lengths = torch.full((s.requests,), s.keys, dtype=torch.int32, device=key.device)
    call = partial(
        library.flash_attn_with_kvcache,
        operands.query,
        key,
        value,
        cache_seqlens=lengths,
        causal=True,
    )
    return PreparedCall(
        call=call, answer=lambda output: output[0] if isinstance(output, tuple) else output
    )


def _vllm_flash_attn(operands: AttentionOperands) -> PreparedCall:
    """FlashAttention 3 as vLLM builds and calls it: ragged queries, a paged cache, planned before
    the clock runs.
    """
    s = operands.shape
    library = importlib.import_module("vllm.vllm_flash_attn")
    device = operands.query.device
    starts = torch.arange(s.requests + 1, dtype=torch.int32, device=device) * s.query_tokens
    lengths = torch.full((s.requests,), s.keys, dtype=torch.int32, device=device)
    pages = torch.arange(s.requests * s.pages, dtype=torch.int32, device=device).view(
        s.requests, s.pages
    )
    plan = library.get_scheduler_metadata(
        s.requests,
        s.query_tokens,
        s.keys,
        s.heads,
        s.kv_heads,
        s.head_dim,
        lengths,
        operands.query.dtype,
        cu_seqlens_q=starts,
        page_size=PAGE_TOKENS,
        causal=True,
    )
    call = partial(
        library.flash_attn_varlen_func,
        operands.query.view(-1, s.heads, s.head_dim),
        *operands.by_page(),
        s.query_tokens,
        starts,
        s.keys,
        seqused_k=lengths,
        block_table=pages,
        causal=True,
        scheduler_metadata=plan,
        fa_version=3,
    )
    return PreparedCall(call=call, answer=lambda output: output.view(operands.query.shape))


def _flashinfer(operands: AttentionOperands) -> PreparedCall:
    """FlashInfer's paged prefill wrapper, planned before the clock runs."""
    s = operands.shape
    library = importlib.import_module("flashinfer")
    device = operands.query.device
    workspace = torch.empty(256 << 20, dtype=torch.uint8, device=device)
    wrapper = library.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD")
    count = torch.arange(s.requests + 1, dtype=torch.int32, device=device)
    last = torch.full(
        (s.requests,), (s.keys - 1) % PAGE_TOKENS + 1, dtype=torch.int32, device=device
    )
    pages = torch.arange(s.requests * s.pages, dtype=torch.int32, device=device)
    wrapper.plan(
        count * s.query_tokens,
        count * s.pages,
        pages,
        last,
        s.heads,
        s.kv_heads,
        s.head_dim,
        PAGE_TOKENS,
        causal=True,
        q_data_type=operands.query.dtype,
        kv_data_type=operands.query.dtype,
    )
    query = operands.query.view(-1, s.heads, s.head_dim)
    call = partial(wrapper.run, query, operands.by_page())
    return PreparedCall(call=call, answer=lambda output: output.view(operands.query.shape))


@cache
def processors(device: str) -> int:
    """Processors that work is spread over."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties(torch.device("cuda")).multi_processor_count)
    return torch.get_num_threads()


def _masked(backend: SDPBackend, *devices: str, scores: int) -> Form:
    return Form(
        prepare=partial(_sdpa, backend, True),
        devices=devices,
        packed=True,
        trees=True,
        scores=scores,
    )


def _ours(part: split.Partial, parts: int | None, *devices: str, scores: int = 0) -> Form:
    prepare = partial(_split, part, parts)
    return Form(
        prepare=prepare,
        devices=devices,
        layout="heads",
        packed=True,
        trees=True,
        scores=scores,
        cached="some",
    )


_FLASH, _EFFICIENT, _MATMUL = split.flash_partial, split.efficient_partial, split.matmul_partial
_SDPA_CPU = SDPBackend.FLASH_ATTENTION
FORMS: Mapping[str, Form] = {
    "flash": Form(prepare=_flash),
    "flash-varlen": Form(prepare=_flash_varlen),
    "split-flash": _ours(_FLASH, None, "cuda", "cpu"),
    "unsplit-flash": _ours(_FLASH, 1, "cuda", "cpu"),
    "split-efficient": _ours(_EFFICIENT, None, "cuda"),
    "split-matmul": _ours(_MATMUL, None, "cuda", "cpu", scores=14),
    "efficient-packed": _masked(SDPBackend.EFFICIENT_ATTENTION, "cuda", scores=2),
    "cudnn-packed": _masked(SDPBackend.CUDNN_ATTENTION, "cuda", scores=2),
    "math-packed": _masked(SDPBackend.MATH, "cuda", "cpu", "mps", scores=16),
    "sdpa-packed": _masked(_SDPA_CPU, "cpu", scores=4),
    "sdpa": Form(prepare=partial(_sdpa, _SDPA_CPU, False), devices=("cpu",), trees=True, scores=4),
    "flex": Form(prepare=_flex, trees=True),
    "cudnn-causal": Form(prepare=partial(_sdpa_square, SDPBackend.CUDNN_ATTENTION), cached="none"),
    "flash-attn-2": Form(prepare=partial(_flash_attn, "flash_attn"), module="flash_attn"),
    "flash-attn-3": Form(
        prepare=partial(_flash_attn, "flash_attn_interface"), module="flash_attn_interface"
    ),
    "vllm-flash-attn-3": Form(
        prepare=_vllm_flash_attn, layout="pages", module="vllm.vllm_flash_attn"
    ),
    "flashinfer": Form(prepare=_flashinfer, layout="pages", module="flashinfer"),
}
