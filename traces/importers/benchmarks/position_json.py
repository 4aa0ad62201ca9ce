"""How is a plain JSON list of emitted lengths read?

Format `position-json`. Yields level 1: `{"first_step_position": 0, "requests": [{"prompt_tokens":
103, "emitted": [1, 5, ...], "drafted": [0, 8, ...]}, ...]}`, with `id` and `kind` optional per
request. It cannot know ranks, so it answers chains and no trees; without `drafted` it cannot know
which steps had a proposal, and a match rate stands in.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.files import (
    expect_list,
    expect_name,
    expect_object,
    expect_whole,
    lengths_of,
    parse_json,
    read_text,
)
from traces.importers.recognition import Format, Sample
from traces.kinds.acceptance import AcceptanceTrace, Provenance

_TOP_KEYS = {"first_step_position", "requests"}
_REQUEST_KEYS = {"id", "kind", "prompt_tokens", "emitted", "drafted"}


def read(path: str | Path, *, match_rate: float | None = None) -> AcceptanceTrace:
    """Read a position-json file.

    Args:
        path: the file.
        match_rate: share of steps with a proposal, used where the file has no `drafted`; None:
            every step.

    Returns:
        A trace of level 1; keys without a meaning here are named in its notes.

    Raises:
        InputError: anything that is not as described, `drafted` for only some requests included.
    """
    file = str(path)
    document = expect_object(parse_json(read_text(path), file), file, "document")
    requests = expect_list(document.get("requests"), file, "requests")
    ignored = set(document) - _TOP_KEYS
    ids, kinds, prompts, emitted, drafted = [], [], [], [], []
    for index, entry in enumerate(requests):
        key = f"requests[{index}]"
        request = expect_object(entry, file, key)
        ignored |= set(request) - _REQUEST_KEYS
        ids.append(expect_name(request.get("id", index), file, f"{key}.id"))
        kinds.append(expect_name(request.get("kind", ""), file, f"{key}.kind"))
        prompts.append(expect_whole(request.get("prompt_tokens", 0), file, f"{key}.prompt_tokens"))
        emitted.append(lengths_of(request.get("emitted"), file, f"{key}.emitted", 1))
        if request.get("drafted") is not None:
            drafted.append(lengths_of(request["drafted"], file, f"{key}.drafted", 0))
            if drafted[-1].size != emitted[-1].size:
                rule = f"must be as long as emitted ({emitted[-1].size})"
                raise InputError(rule, file=file, key=f"{key}.drafted", value=drafted[-1].size)
    if len(drafted) not in (0, len(emitted)):
        raise InputError(
            "drafted must stand in every request or in none", file=file, key="requests"
        )
    if not emitted:
        raise InputError("must hold at least one request", file=file, key="requests")
    return AcceptanceTrace(
        provenance=Provenance(notes=_notes(bool(drafted), match_rate, ignored)),
        request_ids=tuple(ids),
        prompt_kinds=tuple(kinds),
        prompt_tokens=np.asarray(prompts, dtype=np.int32),
        offsets=np.cumsum([0, *(len(tokens) for tokens in emitted)], dtype=np.int64),
        first_step_position=expect_whole(
            document.get("first_step_position", 0), file, "first_step_position"
        ),
        emitted=np.concatenate(emitted),
        drafted=np.concatenate(drafted) if drafted else None,
        match_rate=None if drafted else match_rate,
        file=file,
    )


def _notes(has_drafted: bool, match_rate: float | None, ignored: set[str]) -> str:
    notes = ["Level 1 from position-json: lengths only, so chains but no trees."]
    if not has_drafted and match_rate is None:
        notes.append("Drafted lengths unknown: every step is taken to propose.")
    elif not has_drafted:
        notes.append(f"Drafted lengths unknown: a match rate of {match_rate} is assumed.")
    elif match_rate is not None:
        notes.append("The match rate given was not needed: drafted lengths are in the file.")
    if ignored:
        notes.append(f"Keys passed over: {', '.join(sorted(ignored))[:200]}.")
    return " ".join(notes)


def _claims(sample: Sample) -> bool:
    return "emitted" in sample.first_of("requests")


FORMATS = (Format(name="position-json", claims=_claims, read=read),)
