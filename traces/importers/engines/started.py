"""How large did a running engine say that its cache and its limits are?

Lines that vLLM, SGLang and TensorRT-LLM print when they start, or JSON in which their configuration
was kept. What an engine says of itself goes over what is derived for it. Leaves out what it says
while it serves (`sglang_log`, `decoding_log`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.engines.ran import MOST, EngineFacts, stored_running
from traces.importers.files import parse_json, read_text

_SAME = 0.05  # data-parallel ranks differ by a few blocks; several starts of an engine by more

# what engines print: vLLM since 0.8 (pull request 13596), before; SGLang 0.4 and later;
# TensorRT-LLM 1.x
_LINES = {
    "cache_tokens": (
        r"GPU KV cache size: ([\d,]+) tokens",
        r"max_total_num_tokens=(\d+)",
        r"KV Cache is allocated\. #tokens: (\d+)",
        r"max tokens in paged KV cache \((\d+)\)",
    ),
    "cache_blocks": (
        r"# GPU blocks: (\d+)",
        r"num_gpu_blocks_override=(\d+)",
        r"primary blocks=(\d+)",
    ),
    "block_tokens": (
        r"'block_size': (\d+)",
        r"--block-size[ =](\d+)",
        r"[Tt]okens per block[=:] ?(\d+)",
    ),
    "token_budget": (
        r"max_num_batched_tokens['\"]?[=:] ?(\d+)",
        r"--max-num-batched-tokens[ =](\d+)",
        r"chunked_prefill_size=(\d+)",
        r"max_num_tokens['\"]?[=:] ?(\d+)",
    ),
    "tensor_parallel": (
        r"tensor_parallel_size['\"]?[=:] ?(\d+)",
        r"--tensor-parallel-size[ =](\d+)",
        r"\btp_size=(\d+)",
        r"--tp(?:-size)?[ =](\d+)",
    ),
    "max_requests": (
        r"max_num_seqs['\"]?[=:] ?(\d+)",
        r"--max-num-seqs[ =](\d+)",
        r"max_running_requests=(\d+)",
        r"max_batch_size['\"]?[=:] ?(\d+)",
    ),
}
# keys of configurations that engines report: vLLM's CacheConfig and SchedulerConfig, SGLang's
# server information
_KEYS = {
    "cache_tokens": ("num_kv_tokens", "max_total_num_tokens"),
    "cache_blocks": ("num_gpu_blocks_override", "num_gpu_blocks"),
    "block_tokens": ("block_size",),
    "token_budget": ("max_num_batched_tokens", "chunked_prefill_size"),
    "tensor_parallel": ("tensor_parallel_size", "tp_size"),
    "max_requests": ("max_num_seqs", "max_running_requests"),
}


def read_engine_facts(path: str | Path) -> EngineFacts:
    """The cache and limits that a log or a kept configuration of an engine states.

    Args:
        path: text with the lines that vLLM, SGLang or TensorRT-LLM print when they start, or JSON
            that holds their configuration at any depth; or a recording that says what its engine ran.

    Raises:
        InputError: absent, none of those lines and keys, a number out of range, or several that
            contradict each other.
    """
    facts = stated_facts(path)
    if facts == EngineFacts():
        rule = (
            "holds no line of an engine's start that tells its cache or limits (GPU KV cache size:"
            " N tokens, .."
        )
        raise InputError(f"{rule} max_total_num_tokens=N, num_gpu_blocks)", file=str(path))
    return facts


def stated_facts(path: str | Path) -> EngineFacts:
    """As `read_engine_facts`, of a file that may hold none of those lines and keys.

    Args:
        path: as there.

    Raises:
        InputError: absent, a number out of range, or several that contradict each other.
    """
    if (kept := stored_running(path)) is not None:
        return kept.facts
    file = str(path)
    text = read_text(path)
    if text.lstrip()[:1] == "{":
        engine_facts = _in_json(parse_json(text, file))
    else:
        engine_facts = {name: _in_lines(text, patterns) for name, patterns in _LINES.items()}
    return EngineFacts(
        **{name: _agreed(numbers, file, name) for name, numbers in engine_facts.items()}
    )


def _in_lines(text: str, patterns: tuple[str, ...]) -> list[Any]:
    """Numbers of the first pattern that the text has."""
    for pattern in patterns:
        if numbers := re.findall(pattern, text):
            return [int(number.replace(",", "")[:15] or 0) for number in numbers]
    return []


def _in_json(document: Any) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for key, value in _pairs(document):
        values.setdefault(key, []).append(value)
    return {
        name: next((values[key] for key in keys if key in values), [])
        for name, keys in _KEYS.items()
    }


def _pairs(document: Any) -> Iterator[tuple[str, Any]]:
    """Keys with the values that are neither null nor objects, at any depth."""
    pending = [document]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, dict | list):
                    pending.append(value)
                elif value is not None and value != -1:  # SGLang's for no limit
                    yield str(key), value


def _agreed(numbers: list[Any], file: str, key: str) -> int | None:
    """The least of numbers that agree; None for none.

    Raises:
        InputError: one that is no whole number from 1 on, or two that differ by more than ranks of
            one engine do.
    """
    for number in numbers:
        if type(number) is not int or not 1 <= number <= MOST:
            raise InputError("must be a whole number from 1 on", file=file, key=key, value=number)
    if not numbers:
        return None
    least, most = min(numbers), max(numbers)
    if most > (1.0 + _SAME) * least:
        rule = "holds several sizes, from different starts or engines; keep the lines of one"
        raise InputError(rule, file=file, key=key, value=f"{least} and {most}")
    return int(least)
