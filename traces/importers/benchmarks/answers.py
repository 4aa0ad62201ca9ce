"""How are the answer files of research code read: Spec-Bench, Medusa, EAGLE, Hydra, REST?

Format `answers`: JSON lines of questions whose `choices` list, per turn, `new_tokens`, `wall_time`
and either `idxs` (the last index of the decoding loop, so steps are that plus one) or
`decoding_steps`. Yields level 1 where tokens per step are listed over all turns (`accept_lengths`;
REST spells the key with a colon at its end), else level 0: the mean, and what every turn counted. It
cannot know how many tokens were drafted, nor in what shape: trees and chains write the same file.
EAGLE's `alpha` and `alpha_num` yield conditional acceptance by position.

REST counts lengths from one token behind the prompt, so that the first one of a turn lacks a token:
where the lengths of a turn are one short of its `new_tokens`, that token is put back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.counted import counted
from traces.importers.files import (
    expect_list,
    expect_name,
    expect_object,
    expect_whole,
    json_lines,
    read_text,
)
from traces.importers.recognition import Format, Sample
from traces.importers.steps import Steps, stepped
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.step_counts import NEW_TOKENS, STEPS, WALL_S

_LENGTHS = ("accept_lengths", "accept_lengths:")
_STEPS = ("decoding_steps", "idxs")
_MOST_SECONDS = 1e9
_METHODS = {
    "eagle2": "eagle-2",
    "eagle3": "eagle-3",
    "hydra": "hydra",
    "lookahead": "lookahead",
    "medusa": "medusa",
    "pld": "n-gram",
    "samd": "sam-decoding",
    "sps": "speculative-decoding",
}
"""Methods by the word that evaluation scripts put into a model's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Choice:
    """One answer over all of its turns: `lengths` is empty where tokens per step are not listed,
    `wall_s` where no seconds are.
    """

    name: str
    kind: str
    steps: Sequence[int]
    tokens: Sequence[int]
    wall_s: Sequence[float]
    lengths: Sequence[int]
    alpha: tuple[Sequence[Any], Sequence[Any]] | None


def read(path: str | Path) -> AcceptanceTrace:
    """Read answers.

    Args:
        path: JSON lines.

    Raises:
        InputError: anything that is not as described, or lengths listed for only some answers.
    """
    file = str(path)
    choices, models = [], set()
    for name, row in json_lines(read_text(path), file):
        models.add(expect_name(row.get("model_id", ""), file, f"{name}.model_id"))
        choices += list(_choices(row, file, name))
    steps, tokens = (
        sum(sum(choice.steps) for choice in choices),
        sum(sum(choice.tokens) for choice in choices),
    )
    if not steps:
        raise InputError("must hold an answer with a decoding step", file=file, key="choices")
    model = ", ".join(sorted(models - {""}))[:300]
    method = _method(models)
    counts = (
        f"{tokens} new tokens in {steps} steps over {len(choices)} answers ({tokens / steps:.4f}"
        " per step)."
    )
    listed = [bool(choice.lengths) for choice in choices]
    if all(listed):
        note = f"{counts} The shape of the drafts, a chain or a tree, is not in the file."
        turns = list(itertools.chain.from_iterable(_turns(choice) for choice in choices))
        extra = {"steps": steps, "new_tokens": tokens}
        about = Provenance(
            model=model, method=method, recorder_version="answer file", notes=note, extra=extra
        )
        trace = stepped([turn for turn, _ in turns], file, about)
        return replace(trace, extra_columns=_seconds([wall_s for _, wall_s in turns]))
    if any(listed):
        raise InputError(
            "must list accept_lengths in every answer or in none", file=file, key="accept_lengths"
        )
    if tokens < steps:
        raise InputError(
            f"must not be fewer than the {steps} steps", file=file, key="new_tokens", value=tokens
        )
    alphas = [choice.alpha for choice in choices if choice.alpha is not None]
    trace = counted(
        file,
        source="answer file",
        drafts=steps,
        accepted_tokens=tokens - steps,
        rates=_alpha_rates(alphas, file) if alphas else (),
        slack=0.0,
        model=model,
        method=method,
        notes=[counts, "The shape of the drafts, a chain or a tree, is not in the file."],
        extra={"steps": steps, "new_tokens": tokens},
    )
    return _with_turns(trace, choices)


def _with_turns(trace: AcceptanceTrace, choices: Sequence[_Choice]) -> AcceptanceTrace:
    """A trace of level 0 with what every turn counted."""
    turns = [(choice, turn) for choice in choices for turn in range(len(choice.steps))]
    seconds = [choice.wall_s[turn] if choice.wall_s else None for choice, turn in turns]
    return replace(
        trace,
        request_ids=tuple(f"{choice.name}/{turn}" for choice, turn in turns),
        prompt_kinds=tuple(choice.kind for choice, _ in turns),
        offsets=np.zeros(len(turns) + 1, dtype=np.int64),
        extra_columns={
            STEPS: [choice.steps[turn] for choice, turn in turns],
            NEW_TOKENS: [choice.tokens[turn] for choice, turn in turns],
            **_seconds(seconds),
        },
    )


def _seconds(values: Sequence[float | None]) -> dict[str, list[float]]:
    """The column of seconds; none where the file does not tell those of every turn."""
    known = [value for value in values if value is not None]
    return {WALL_S: known} if len(known) == len(values) else {}


def _method(models: Iterable[str]) -> str:
    """The slug of the one method that the models' names contain; empty where they contain none, or
    several.
    """
    words = {word for model in models for word in re.split(r"[^a-z0-9]+", model.casefold())}
    methods = {_METHODS[word] for word in words & _METHODS.keys()}
    return methods.pop() if len(methods) == 1 else ""


def _choices(row: Mapping[str, Any], file: str, name: str) -> Iterator[_Choice]:
    question = expect_name(row.get("question_id", name), file, f"{name}.question_id")
    kind = expect_name(row.get("category", ""), file, f"{name}.category")
    for index, entry in enumerate(expect_list(row.get("choices"), file, f"{name}.choices")):
        key = f"{name}.choices[{index}]"
        choice = expect_object(entry, file, key)
        counted_by = next((k for k in _STEPS if k in choice), "decoding_steps")
        last = [
            expect_whole(n, file, f"{key}.{counted_by}")
            for n in expect_list(choice.get(counted_by), file, f"{key}.{counted_by}")
        ]
        tokens = [
            expect_whole(n, file, f"{key}.new_tokens")
            for n in expect_list(choice.get("new_tokens"), file, f"{key}.new_tokens")
        ]
        if len(last) != len(tokens):
            raise InputError(
                "must have one entry per turn",
                file=file,
                key=f"{key}.new_tokens",
                value=len(tokens),
            )
        lengths_key = next((k for k in _LENGTHS if k in choice), None)
        alpha = (choice.get("alpha"), choice.get("alpha_num"))
        yield _Choice(
            name=question if index == 0 else f"{question}.{index}",
            kind=kind,
            steps=[n + 1 for n in last] if counted_by == "idxs" else last,
            tokens=tokens,
            wall_s=_wall_s(choice.get("wall_time"), len(tokens)),
            lengths=[]
            if lengths_key is None
            else expect_list(choice[lengths_key], file, f"{key}.{lengths_key}"),
            alpha=(
                (alpha[0], alpha[1])
                if isinstance(alpha[0], list) and isinstance(alpha[1], list)
                else None
            ),
        )


def _wall_s(stated: object, turns: int) -> list[float]:
    """Seconds of every turn; empty where the file tells none, or not one for each."""
    values = stated if isinstance(stated, list) else []
    is_told = [type(value) in (int, float) and 0 <= value < _MOST_SECONDS for value in values]
    return [float(value) for value in values] if len(values) == turns and all(is_told) else []


def _turns(choice: _Choice) -> Iterator[tuple[Steps, float | None]]:
    """One request per turn with its seconds, where the steps of the turns add up to the lengths;
    else one per answer.
    """
    # the lengths of all turns stand in one list, in order
    bounds = [0, *itertools.accumulate(choice.steps)]
    by_turn = bounds[-1] == len(choice.lengths)
    if not by_turn:
        bounds = [0, len(choice.lengths)]
    for turn, (first, last) in enumerate(itertools.pairwise(bounds)):
        emitted = list(choice.lengths[first:last])
        if by_turn and emitted and all(type(n) is int for n in emitted):
            # REST starts to count one token behind the prompt
            emitted[0] += sum(emitted) == choice.tokens[turn] - 1
        if any(type(n) is int and n > 0 for n in emitted):
            wall_s = choice.wall_s[turn : turn + 1] if by_turn else choice.wall_s
            yield (
                Steps(request=f"{choice.name}/{turn}", kind=choice.kind, emitted=emitted),
                sum(wall_s) if wall_s else None,
            )


def _alpha_rates(alphas: Sequence[tuple[Sequence[Any], Sequence[Any]]], file: str) -> list[float]:
    """Probability that the first d tokens are all accepted, from accepted and tried drafts by
    position.
    """
    depth = max(len(kept) for kept, _ in alphas)
    if depth > 64 or any(len(kept) != len(tried) for kept, tried in alphas):
        raise InputError(
            "must be as long as alpha_num, and at most 64", file=file, key="alpha", value=depth
        )
    rates, reached = [], 1.0
    for at in range(depth):
        kept, tried = (
            sum(expect_whole(pair[side][at], file, "alpha") for pair in alphas if at < len(pair[0]))
            for side in (0, 1)
        )
        if kept > tried:
            raise InputError("must not exceed alpha_num", file=file, key=f"alpha[{at}]", value=kept)
        # alpha is conditional on the positions before; the product is not
        reached *= kept / tried if tried else 0.0
        rates.append(reached)
    return rates


def _claims(sample: Sample) -> bool:
    return "new_tokens" in sample.first_of("choices")


FORMATS = (Format(name="answers", claims=_claims, read=read),)
