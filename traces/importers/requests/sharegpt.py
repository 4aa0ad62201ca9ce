"""How are ShareGPT conversations read as requests?

Format `sharegpt`: a JSON list of `conversations` with turns `from` and `value`, as serving
benchmarks take it. Yields one request per conversation: its first turn as prompt and its second as
output. Text has no token counts: they are taken as characters over 4, the usual ratio for English,
which is ASSUMED and stands in the notes. Arrivals are to be drawn.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from traces.importers.files import expect_list, parse_json, read_text
from traces.importers.recognition import Format, Sample
from traces.importers.request_tables import request_trace
from traces.kinds.acceptance import RequestTrace

_CHARACTERS_PER_TOKEN = 4.0
_TURNS = ("conversations", "conversation", "messages")
_MOST_TOKENS = (1 << 31) - 1


def read(path: str | Path) -> RequestTrace:
    """Read conversations.

    Args:
        path: JSON.

    Returns:
        Requests in the order of the file, all at 0.

    Raises:
        InputError: no list, or no conversation of two turns.
    """
    file = str(path)
    lengths = [
        _tokens(conversation)
        for conversation in expect_list(parse_json(read_text(path), file), file, "document")
        if isinstance(conversation, dict)
    ]
    counts = np.minimum(np.asarray(lengths, dtype=np.int64).reshape(-1, 2), _MOST_TOKENS)
    return request_trace(
        file,
        arrival_s=None,
        prompt_tokens=counts[:, 0],
        output_tokens=counts[:, 1],
        source=(
            "ShareGPT conversations, their tokens taken as characters over"
            f" {_CHARACTERS_PER_TOKEN:g}"
        ),
    )


def _tokens(conversation: dict[str, Any]) -> tuple[int, int]:
    """Tokens of the first two turns; 0 where there are none."""
    turns: list[Any] = next(
        (conversation[key] for key in _TURNS if isinstance(conversation.get(key), list)), []
    )
    texts = [turn.get("value", turn.get("content")) for turn in turns[:2] if isinstance(turn, dict)]
    lengths = [
        math.ceil(len(text) / _CHARACTERS_PER_TOKEN) for text in texts if isinstance(text, str)
    ]
    return (lengths[0], lengths[1]) if len(lengths) == 2 else (0, 0)


def _claims(sample: Sample) -> bool:
    turns: list[Any] = next(
        (sample.first[key] for key in _TURNS if isinstance(sample.first.get(key), list)), []
    )
    has_speakers = (
        bool(turns) and isinstance(turns[0], dict) and ("from" in turns[0] or "role" in turns[0])
    )
    return isinstance(sample.document, list) and has_speakers


FORMATS = (Format(name="sharegpt", kind="requests", claims=_claims, read=read),)
