"""What does a file say about a method of the reader's own?

A file holds the fields of a `Method` under their names: `draft`, `target`, `reported` and `assumed`
are lists, `shape`, `stop`, `verify`, `refine`, `advance`, `batch` and `citation` tables. The same
form stands as JSON in the configurations that such a method is part of. Leaves out which names
there are (`costmodel.method_library`) and a file to begin with (`costmodel.method_template`).
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.citation import Citation, Reported
from costmodel.drafting_stage import Draft
from costmodel.method import Batch, Method, Shape, Stop, Verify
from costmodel.method_rules import contradictions
from costmodel.pace import Routing, Samples, Spans
from costmodel.transforms.declared import (
    CacheTransform,
    ContextTransform,
    EncoderSplit,
    FusedFeedForward,
    LayerSchedule,
    SparseAttention,
    SparseFeedForward,
    WeightTransform,
)
from costmodel.typed import Form, read_record, record_document
from hardware_profiles.errors import InputError, joined, separate
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.units import MIB

_TOKENS = (0, 4096)
_SOME_TOKENS = (1, 4096)
_MANY_TOKENS = (1, 1 << 30)
_SHARE = (0.0, 1.0)
_LAYERS = (0.0, 1000.0)
_SECONDS = (0.0, 3600.0)
FORM = Form(
    kinds={
        "weights": WeightTransform,
        "cache": CacheTransform,
        "attention": SparseAttention,
        "context": ContextTransform,
        "feed-forward": SparseFeedForward,
        "layers": LayerSchedule,
        "encoder": EncoderSplit,
        "fused": FusedFeedForward,
        "spans": Spans,
        "samples": Samples,
        "routing": Routing,
    },
    ranges={
        Method: {"host_s": _SECONDS},
        Citation: {"year": (1900, 2100)},
        Draft: {
            "layers": _LAYERS,
            "inputs": (1, 64),
            "features": (1, 64),
            "attention_inputs": (1, 64),
            "vocab": (1, 1 << 24),
            "heads": (0, 1024),
            "depths_per_pass": _TOKENS,
            "serial_depths": _TOKENS,
            "passes": _TOKENS,
            "context_tokens": _MANY_TOKENS,
            "context_ratio": (0.0, 100.0),
            "host_s": _SECONDS,
            "tokens": _TOKENS,
            "acceptance": _SHARE,
        },
        Shape: {
            "nodes": _TOKENS,
            "depth": _TOKENS,
            "width": _TOKENS,
            "beam": _TOKENS,
            "least_probability": _SHARE,
            "cost_ratio": _SHARE,
            "free_nodes": _TOKENS,
            "guesses": _SOME_TOKENS,
            "riding": _TOKENS,
        },
        Stop: {
            "at": (0.0, 4096.0),
            "least_tokens": _TOKENS,
            "most_tokens": _TOKENS,
            "unlikely_tokens": (0, 1),
        },
        Verify: {"pruned_after": _SHARE, "pruned_ratio": _SHARE},
        Batch: {
            "branches": (0, 1024),
            "branch_at": _SHARE,
            "fan_out": (0, 64),
            "parts": _SOME_TOKENS,
            "interference_ratio": _SHARE,
            "budget_per_request": (0.0, 4096.0),
        },
        Spans: {"tokens": _SOME_TOKENS, "layers": _LAYERS, "context_tokens": _MANY_TOKENS},
        Samples: {"rows": _SOME_TOKENS, "tokens": (0.01, 4096.0), "judged_tokens": (0, 1 << 20)},
        Routing: {"tokens": _SOME_TOKENS, "accepted_ratio": _SHARE},
        Reported: {
            "devices": (1, 1 << 20),
            "tokens_per_step": (1.0, 4097.0),
            "acceptance": _SHARE,
        },
    },
)
"""What the tables of a method are called, and which numbers they may hold."""


def read_method_file(path: Path) -> Method:
    """The method of a TOML file.

    Raises:
        InputError: no regular file, too large, no TOML, or no method; all that is wrong is named.
    """
    try:
        document = tomllib.loads(read_bounded(path, MIB).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not TOML: {error}", file=path) from None
    return method_from(document, file=str(path))


def method_from(document: object, *, file: str | None = None, under: str = "") -> Method:
    """The method that a document states.

    Args:
        document: a table as `method_document` returns it.
        file: name for messages.
        under: key of the table in the file.

    Raises:
        InputError: a key that is missing or unknown, a value of another type or out of range, or
            fields that contradict one another.
    """
    try:
        method: Method = read_record(Method, document, FORM, under=under)
        wrong = contradictions(method)
        if wrong:
            raise joined(wrong)
    except InputError as error:
        mistakes = separate(error)
        for mistake in mistakes:
            mistake.file = file
        raise joined(mistakes) from None
    return method


def method_document(method: Method) -> Mapping[str, Any]:
    """The fields of a method that are not at their defaults, as a file holds them."""
    return record_document(method, FORM)
