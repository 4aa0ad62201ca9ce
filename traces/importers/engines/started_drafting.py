"""With which options did an engine say that it drafts when it started?

vLLM prints the options that differ from its defaults, or its own record of them, SGLang all of its
arguments; a command line may stand in a log too. What comes back is words of a command line, in the
engine's own spelling. Leaves out caches and limits (`started`).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

_MOST = 2000  # characters of a statement
_VLLM_ARGUMENTS = re.compile(rf"'speculative_config': (\{{[^{{}}\n]{{1,{_MOST}}}\}})")
_VLLM_OPTION = re.compile(rf"--speculative[-_]config[ =]'(\{{[^'\n]{{1,{_MOST}}}\}})'")
_VLLM_RECORD = re.compile(
    r"SpeculativeConfig\(method='(?P<method>[\w.-]{1,60})'"
    r"(?:, model='(?P<model>[^'\n]{1,400})')?, num_spec_tokens=(?P<tokens>\d{1,5})\)"
)
_SGLANG_RECORD = re.compile(r"\bServerArgs\(([^\n]{1,20000})")
_SGLANG_FIELD = re.compile(
    r"\bspeculative_(algorithm|draft_model_path|num_steps|eagle_topk|num_draft_tokens)="
    r"(?:'([^'\n]{1,400})'|(\d{1,5}))"
)


def stated_drafting(text: str, engine: str) -> tuple[str, ...]:
    """Options that an engine stated of its drafts, as words of a command line.

    Example:
        >>> stated_drafting("config: SpeculativeConfig(method='ngram', num_spec_tokens=3)", "vllm")
        ('--speculative-config', '{"method": "ngram", "num_speculative_tokens": 3}')

    Args:
        text: of its log.
        engine: `vllm` or `sglang`.

    Returns:
        The options; empty where the log states none, or several that differ.
    """
    for read in _READERS.get(engine, ()):
        statements = set(read(text))
        if statements:
            return statements.pop() if len(statements) == 1 else ()
    return ()


def _vllm_arguments(text: str) -> Iterable[tuple[str, ...]]:
    """`non-default args: {.., 'speculative_config': {..}}`, which Python wrote."""
    for statement in _VLLM_ARGUMENTS.findall(text):
        try:
            yield from _vllm(ast.literal_eval(statement))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue


def _vllm_option(text: str) -> Iterable[tuple[str, ...]]:
    """A command line."""
    for statement in _VLLM_OPTION.findall(text):
        try:
            yield from _vllm(json.loads(statement))
        except (ValueError, RecursionError):
            continue


def _vllm_record(text: str) -> Iterable[tuple[str, ...]]:
    """`SpeculativeConfig(method=.., model=.., num_spec_tokens=..)`, which leaves out the rest."""
    for match in _VLLM_RECORD.finditer(text):
        config: dict[str, Any] = {"method": match["method"]}
        if match["model"]:
            config["model"] = match["model"]
        yield from _vllm(config | {"num_speculative_tokens": int(match["tokens"])})


def _vllm(config: Any) -> Iterable[tuple[str, ...]]:
    if isinstance(config, dict) and config:
        yield "--speculative-config", json.dumps(config)


def _sglang_record(text: str) -> Iterable[tuple[str, ...]]:
    """`ServerArgs(.., speculative_algorithm=.., ..)`, in the order in which it is printed."""
    for record in _SGLANG_RECORD.findall(text):
        words: list[str] = []
        for name, word, number in _SGLANG_FIELD.findall(record):
            words += [f"--speculative-{name.replace('_', '-')}", word or number]
        if words:
            yield tuple(words)


_READERS: dict[str, tuple[Callable[[str], Iterable[tuple[str, ...]]], ...]] = {
    "vllm": (_vllm_arguments, _vllm_option, _vllm_record),
    "sglang": (_sglang_record,),
}
