"""Which traffic is simulated where nobody states any?

A closed loop of users with requests of one size, told in words. What is stated stays. Leaves out
reading and drawing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

USERS = 32
COUNT = 320
PROMPT_TOKENS = 1024
OUTPUT_TOKENS = 256
_SIZES = {"count": COUNT, "prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS}
_WORDS = {
    "users": "users",
    "count": "requests",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
}
_ARRIVING = ("users", "rate_per_s", "arrivals")


def with_usual_requests(sections: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Sections of a scenario with traffic, and what was assumed of it in words.

    Args:
        sections: by name, as written; requests of a file are left as they are.

    Returns:
        The sections, and an empty text where nothing was missing.

    Example:
        >>> sections, assumed = with_usual_requests({"requests": {"rate_per_s": 4.0, "count": 100}})
        >>> sections["requests"]
        {'prompt_tokens': 1024, 'output_tokens': 256, 'rate_per_s': 4.0, 'count': 100}
        >>> assumed
        'assumed: 1024 prompt tokens, 256 output tokens'
    """
    requests = sections.get("requests") or {}
    if not isinstance(requests, Mapping) or requests.get("file") is not None:
        return dict(sections), ""
    stated = {key: value for key, value in requests.items() if value is not None}
    usual = dict(_SIZES)
    if not any(key in stated for key in _ARRIVING):
        usual = {"users": USERS, **usual}
    missing = {key: value for key, value in usual.items() if key not in stated}
    words = ", ".join(f"{value} {_WORDS[key]}" for key, value in missing.items())
    return {**sections, "requests": {**missing, **stated}}, f"assumed: {words}" if words else ""
