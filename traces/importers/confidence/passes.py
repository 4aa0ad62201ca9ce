"""How are the passes of anybody's masked decoder read, as its loop prints them?

Format `masked-passes`: JSON lines. The first says whose passes they are, and a line of the same form
further down begins another policy over the same prompts:

    {"model": "llada-8b", "vocabulary": 126464, "mask_id": 126336, "canvas_tokens": 256,
     "policy": {"commit": "threshold", "at": {"confidence": 0.9}, "block_tokens": 32, "cache": "dual"}}

Every other line is one pass of one request, in the order of passes:

    {"request": "q1", "block": [0, 32], "positions": [0, 1, 2], "tokens": [791, 4320, 374],
     "confidence": [0.99, 0.4, 0.95], "committed": [0, 2]}

`positions` are the masked positions that the pass computed, counted from the end of the prompt: all
of the canvas, all from the block on, or those of the block. Optional in a pass: `entropy` (nats)
beside `confidence`, `wall_s`, `prompt_tokens`, `prompt_ids`, `kind` of the prompt; in the first
line: `end_id`, `device`. A policy is what `RefinePolicy` takes. Leaves out the replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.files import (
    expect_list,
    expect_name,
    expect_whole,
    json_lines,
    read_text,
)
from traces.importers.recognition import Format, Sample
from traces.kinds.confidence import FORWARDS, ConfidenceTrace, check_sizes
from traces.kinds.naming import naming
from traces.kinds.provenance import Provenance
from traces.kinds.refine_policy import CACHES, MOST_CANVAS_TOKENS, RefinePolicy, policy_of

_HEADER = ("model", "vocabulary", "mask_id", "end_id", "canvas_tokens", "device")
_PASS = ("request", "block", "positions", "tokens", "confidence", "committed")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pass:
    """One pass: what it computed, and what it committed.

    Attributes:
        forward: place in `FORWARDS`.
        block: first position of its block, and the one behind its last.
        positions, tokens, confidence: of its cells, by position.
        entropy: of its cells; None: not printed.
        committed: positions.
        wall_s: seconds; None: not printed.
    """

    forward: int
    block: tuple[int, int]
    positions: Sequence[int]
    tokens: Sequence[int]
    confidence: Sequence[float]
    entropy: Sequence[float] | None
    committed: Sequence[int]
    wall_s: float | None


@dataclass(kw_only=True, slots=True)
class _Run:
    """The passes of one request under one policy, while they are read.

    Attributes:
        request: its name.
        policy: place among the policies.
        kind: of the prompt.
        prompt_tokens: as printed; 0: not.
        prompt_ids: as printed.
        final_ids: of the canvas.
        committed_at: pass of every position; -1: still masked.
        passes: so far.
    """

    request: str
    policy: int
    kind: str
    prompt_tokens: int
    prompt_ids: Sequence[int]
    final_ids: list[int]
    committed_at: list[int]
    passes: list[_Pass] = field(default_factory=list)


def read(path: str | Path) -> ConfidenceTrace:
    """Read the passes of a masked decoder.

    Args:
        path: JSON lines.

    Returns:
        A run per request and policy. What a pass computed beside its block follows from the policy's
        cache and the prompt's length.

    Raises:
        InputError: a line that is not as described, positions that were committed before, tokens
            out of the vocabulary, or more than a trace holds.
    """
    file = str(path)
    head: Mapping[str, Any] | None = None
    policies: list[RefinePolicy] = []
    runs: dict[tuple[str, int], _Run] = {}
    place, cells, passes = 0, 0, 0
    for name, row in json_lines(read_text(path), file):
        if "policy" in row:
            head, place = _header(row, head, policies, file, name)
            continue
        if head is None:
            rule = "must come behind a line that names the model, its mask and the policy"
            raise InputError(rule, file=file, key=name)
        run = _run(row, head, place, runs, file, name)
        done = _pass(row, run, head, policies[place], file, name)
        run.passes.append(done)
        cells, passes = cells + len(done.positions), passes + 1
        with naming(file):
            check_sizes(
                runs=len(runs), passes=passes, cells=cells, canvas_tokens=head["canvas_tokens"]
            )
    if head is None or not runs:
        raise InputError("must list a pass", file=file, key="rows", value=0)
    return _trace(head, policies, list(runs.values()), file)


def _header(
    row: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    policies: list[RefinePolicy],
    file: str,
    name: str,
) -> tuple[Mapping[str, Any], int]:
    """What a line says of model and canvas, and the place of its policy, which is added."""
    with naming(file):
        policy = policy_of(row["policy"])
    head = {key: row.get(key) for key in _HEADER}
    for key in ("vocabulary", "mask_id"):
        expect_whole(head[key], file, f"{name}, {key}")
    canvas = expect_whole(head["canvas_tokens"], file, f"{name}, canvas_tokens")
    if not 1 <= canvas <= MOST_CANVAS_TOKENS:
        rule = f"must lie in 1..{MOST_CANVAS_TOKENS}"
        raise InputError(rule, file=file, key=f"{name}, canvas_tokens", value=canvas)
    for key in ("model", "device"):
        head[key] = "" if head[key] is None else expect_name(head[key], file, f"{name}, {key}")
    if head["end_id"] is not None:
        expect_whole(head["end_id"], file, f"{name}, end_id")
    if before is not None and (other := next((k for k in _HEADER if head[k] != before[k]), None)):
        rule = f"must be {before[other]} as in the first line: one trace is of one model and canvas"
        raise InputError(rule, file=file, key=f"{name}, {other}", value=head[other])
    if policy not in policies:
        policies.append(policy)
    return head, policies.index(policy)


def _run(
    row: Mapping[str, Any],
    head: Mapping[str, Any],
    place: int,
    runs: dict[tuple[str, int], _Run],
    file: str,
    name: str,
) -> _Run:
    """The run that a pass belongs to, begun by its first one."""
    missing = next((key for key in _PASS if key not in row), None)
    if missing is not None:
        raise InputError("must stand in every pass", file=file, key=f"{name}, {missing}")
    request = expect_name(row["request"], file, f"{name}, request")
    if (request, place) not in runs:
        prompt_ids = _wholes(row.get("prompt_ids", []), file, f"{name}, prompt_ids")
        length = row.get("prompt_tokens", len(prompt_ids))
        runs[request, place] = _Run(
            request=request,
            policy=place,
            kind=expect_name(row.get("kind", ""), file, f"{name}, kind"),
            prompt_tokens=expect_whole(length, file, f"{name}, prompt_tokens"),
            prompt_ids=prompt_ids,
            final_ids=[head["mask_id"]] * head["canvas_tokens"],
            committed_at=[-1] * head["canvas_tokens"],
        )
    return runs[request, place]


def _pass(
    row: Mapping[str, Any],
    run: _Run,
    head: Mapping[str, Any],
    policy: RefinePolicy,
    file: str,
    name: str,
) -> _Pass:
    """A pass whose commits have been noted in its run."""
    canvas = head["canvas_tokens"]
    block = _wholes(row["block"], file, f"{name}, block")
    if len(block) != 2 or not block[0] < block[1] <= canvas:
        rule = f"must be first and end position of a block of the canvas of {canvas}"
        raise InputError(rule, file=file, key=f"{name}, block", value=row["block"])
    start, end = block
    positions = _wholes(row["positions"], file, f"{name}, positions")
    order = sorted(range(len(positions)), key=positions.__getitem__)
    listed = [positions[at] for at in order]
    masked = [at for at, step in enumerate(run.committed_at) if step < 0]
    spans = {
        "full": masked,
        "suffix": [at for at in masked if at >= start],
        "block": [at for at in masked if start <= at < end],
    }
    own = FORWARDS[CACHES.index(policy.cache)]
    forward = next((kind for kind in (own, *FORWARDS) if spans[kind] == listed), None)
    if forward is None or not listed:
        rule = (
            "must be all masked positions of the canvas, all from the block on, or all of the block"
        )
        raise InputError(rule, file=file, key=f"{name}, positions", value=positions[:16])
    tokens = _cells(row, "tokens", order, file, name, highest=head["vocabulary"] - 1, whole=True)
    confidence = _cells(row, "confidence", order, file, name, highest=1.0)
    entropy = None
    if "entropy" in row:
        entropy = _cells(row, "entropy", order, file, name, highest=32.0)
    token_of = dict(zip(listed, tokens, strict=True))
    committed = _wholes(row["committed"], file, f"{name}, committed")
    for at in committed:
        if at not in token_of or run.committed_at[at] >= 0:
            rule = "must be masked positions of the pass, once"
            raise InputError(rule, file=file, key=f"{name}, committed", value=at)
        run.final_ids[at], run.committed_at[at] = int(token_of[at]), len(run.passes)
    wall_s = row.get("wall_s")
    if wall_s is not None:
        wall_s = _number(wall_s, file, f"{name}, wall_s", 1e9)
    return _Pass(
        forward=FORWARDS.index(forward),
        block=(start, end),
        positions=listed,
        tokens=[int(token) for token in tokens],
        confidence=confidence,
        entropy=entropy,
        committed=committed,
        wall_s=wall_s,
    )


def _trace(
    head: Mapping[str, Any], policies: Sequence[RefinePolicy], runs: Sequence[_Run], file: str
) -> ConfidenceTrace:
    passes = [one for run in runs for one in run.passes]
    canvas = head["canvas_tokens"]
    prompt = np.repeat([run.prompt_tokens for run in runs], [len(run.passes) for run in runs])
    start, end = np.array([one.block for one in passes]).T
    forward = np.array([one.forward for one in passes])
    # what a pass computes is the cache's doing, whichever of its positions were printed
    cache = np.repeat(
        [CACHES.index(policies[run.policy].cache) for run in runs],
        [len(run.passes) for run in runs],
    )
    computed = np.choose(np.maximum(cache, 0), [prompt + canvas, canvas - start, end - start])
    first = np.concatenate([[True], np.diff(start) != 0]) if len(start) else np.zeros(0, bool)
    begins = np.cumsum([0, *(len(run.passes) for run in runs)])[:-1]
    first[begins] = True
    computed = np.where(first, prompt + canvas, computed)
    entropies = [one.entropy for one in passes]
    walls = [one.wall_s for one in passes]
    notes = [
        "Passes as a loop printed them; what a pass computed is taken from the policy's cache."
    ]
    if not any(run.prompt_tokens for run in runs):
        notes.append("No prompt lengths were printed: passes count the canvas alone.")
    with naming(file):
        return ConfidenceTrace(
            provenance=Provenance(
                model=head["model"],
                device=head["device"],
                recorder_version="masked-passes",
                notes=" ".join(notes),
            ),
            vocabulary=head["vocabulary"],
            mask_id=head["mask_id"],
            end_id=head["end_id"],
            canvas_tokens=canvas,
            policies=tuple(policies),
            request_ids=tuple(run.request for run in runs),
            prompt_kinds=tuple(run.kind for run in runs),
            policy_of_run=np.array([run.policy for run in runs]),
            prompt_offsets=np.cumsum([0, *(len(run.prompt_ids) for run in runs)]),
            prompt_ids=np.array([i for run in runs for i in run.prompt_ids], dtype=np.int64),
            final_ids=np.array([run.final_ids for run in runs]),
            committed_at=np.array(
                [[len(run.passes) if at < 0 else at for at in run.committed_at] for run in runs]
            ),
            step_offsets=np.cumsum([0, *(len(run.passes) for run in runs)]),
            forward=forward,
            block_start=start,
            block_end=end,
            computed_tokens=computed,
            cached_tokens=prompt + canvas - computed,
            wall_s=None if None in walls else np.array(walls),
            top_ids=np.array([token for one in passes for token in one.tokens]),
            doubt=np.array(
                [1.0 - sure for one in passes for sure in one.confidence], dtype=np.float16
            ),
            entropy=None
            if any(values is None for values in entropies)
            else np.array([value for values in entropies for value in values or ()]),
            file=file,
        )


def _cells(
    row: Mapping[str, Any],
    key: str,
    order: Sequence[int],
    file: str,
    name: str,
    *,
    highest: float,
    whole: bool = False,
) -> list[float]:
    """A list beside `positions`, in the order of these."""
    values = expect_list(row[key], file, f"{name}, {key}")
    if len(values) != len(order):
        rule = f"must have one value per position ({len(order)})"
        raise InputError(rule, file=file, key=f"{name}, {key}", value=len(values))
    numbers = [_number(value, file, f"{name}, {key}", highest) for value in values]
    if whole and any(type(value) is not int for value in values):
        raise InputError("must be token ids", file=file, key=f"{name}, {key}")
    return [numbers[at] for at in order]


def _number(value: object, file: str, key: str, highest: float) -> float:
    if type(value) not in (int, float) or not 0 <= value <= highest:  # type: ignore[operator]
        raise InputError(f"must lie in [0, {highest:g}]", file=file, key=key, value=value)
    return float(value)  # type: ignore[arg-type]


def _wholes(value: object, file: str, key: str) -> list[int]:
    return [expect_whole(item, file, key) for item in expect_list(value, file, key)]


def _claims(sample: Sample) -> bool:
    return sample.holds("policy", "mask_id", "canvas_tokens")


FORMATS = (Format(name="masked-passes", kind="confidence", claims=_claims, read=read),)
