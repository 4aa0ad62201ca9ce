"""Which forwards does a row of a masked model describe: those of which entry, with which canvas,
block and pace?

By what its system is called, and by what the row says of blocks and lengths. Leaves out what
forwards cost (`refined`).
"""

import re
from dataclasses import replace

from costmodel.method import Method, Shape
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.published_numbers.reading.amounts import number, token_count
from real_runs.published_numbers.reading.names import method_of_system
from real_runs.published_numbers.reading.table import PublishedRow

_TPF = re.compile(r"(?:TPF|tau|S=?)\s*=?\s*(\d+(?:\.\d+)?)")
_USUAL_CANVAS, _USUAL_BLOCK = 256, 32
_ONE_A_FORWARD = ("llada", "one token a pass")  # what entries call a static baseline
# what systems are called, in the order in which their names are read; other names are titles, or
# compute whole canvases
_ENTRIES = tuple(
    (re.compile(words, re.IGNORECASE), slug)
    for words, slug in (
        (r"no cache|FullAttn|^Fast-dLLM$", "llada"),
        (r"d3LLM", "d3llm"),
        (r"\bD2F\b", "d2f"),
        (r"\bAPD\b", "adaptive-parallel-decoding"),
        (r"dKV-Cache", "dkv-cache"),
        (r"dLLM-Cache", "dllm-cache"),
        (r"Sparse-dLLM", "sparse-dllm"),
        (r"dual ?cache", "fast-dllm"),
        (r"prefix ?cache", "fast-dllm-prefix"),
        (r"Fast-dLLM.v2", "fast-dllm-v2"),
        (r"SDAR|TraDo|TDAR|LLaDA-?2\.0|DMax|Hierarchical|dInfer", "sdar"),
        (r"\bLPD\b", "lpd"),
        (r"\bARPG\b", "arpg"),
    )
)


def tokens_per_forward(row: PublishedRow) -> float:
    """Tokens that a forward commits on average, passes that only store among the forwards.

    Raises:
        InputError: neither tokens per forward nor steps of a canvas of stated length.
    """
    stated = _TPF.search(row.acceptance)
    if stated:
        return float(stated[1])
    steps, canvas = number(row.acceptance), token_count(row.output)
    if steps and canvas:
        return canvas / steps
    per_step = re.search(r"(\d+) tok/step", row.system)
    if per_step:
        return float(per_step[1])
    raise InputError("states neither tokens per forward nor the number of forwards", key="steps")


def plain_tokens(row: PublishedRow) -> float | None:
    """Tokens per forward of a baseline that is the same model with a static schedule; None for
    another one.
    """
    if row.baseline_unit in _ONE_A_FORWARD:
        return 1.0
    steps, canvas = number(row.plain_steps), token_count(row.output)
    return canvas / steps if steps and canvas and row.baseline is not None else None


def method_of_row(row: PublishedRow, tokens: float) -> Method:
    """The entry that a row's forwards are priced as, with its canvas, block and tokens of a pass
    that commits.

    Args:
        row: of a masked model.
        tokens: that a forward commits on average.
    """
    own = _entry(row.system)
    refine = own.refine
    assert refine is not None
    canvas, block = token_count(row.output) or _USUAL_CANVAS, token_count(row.shape) or _USUAL_BLOCK
    if (
        refine.canvas_tokens == own.shape.nodes
    ):  # one block is the whole canvas, or its cache is exact
        canvas = block = block if refine.forward == "block" else canvas
    block = min(block, canvas)
    return replace(
        own,
        shape=Shape(kind="block", nodes=block),
        refine=replace(
            refine,
            canvas_tokens=canvas,
            tokens_per_pass=_committing(tokens, block, refine.closing_passes),
        ),
    )


def canvas_method(canvas: int, block: int, tokens: float) -> Method:
    """Every forward over prompt and canvas, with so many tokens committed on average, not in a
    whole number of passes.

    Args:
        canvas: tokens behind the prompt.
        block: tokens of a block.
        tokens: that a forward commits.
    """
    own = load_method("llada")
    assert own.refine is not None
    refine = replace(own.refine, commit="threshold", tokens_per_pass=tokens, canvas_tokens=canvas)
    return replace(own, shape=Shape(kind="block", nodes=block), refine=refine)


def _entry(system: str) -> Method:
    for words, slug in _ENTRIES:
        if words.search(system):
            own = load_method(slug)
            return canvas_method(_USUAL_CANVAS, _USUAL_BLOCK, 1.0) if slug == "llada" else own
    try:
        own, _ = method_of_system(system)
    except UnknownNameError:
        own = load_method("llada")
    if own.refine is None or own.refine.forward == "full":
        return canvas_method(_USUAL_CANVAS, _USUAL_BLOCK, 1.0)
    return own


def _committing(tokens: float, block: int, closing_passes: int) -> float:
    """Tokens of a pass that commits, where those that only store a block count as forwards too."""
    passes = max(block / tokens - closing_passes, 1.0)
    return min(block / passes, float(block))
