"""Which passes does a configuration make on recorded texts, step by step?

Walks the traces of requests that run together as the loop would: every step drafts for each of
them, one pass verifies all drafts padded to the longest, and a request that ends leaves. Leaves out
what passes cost (`predict`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.validation.configurations import Configuration
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import step_starts

Counts = NDArray[np.int64]
Path = tuple[Counts, Counts, Counts, Counts]
"""Of one request, by step: output position, draft tokens, tokens emitted, cached tokens."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Walk:
    """Steps of a group of requests; one entry per step.

    Attributes:
        requests: in the step.
        query_tokens: of the verify pass per request, padded: the longest draft and the root.
        context: cached tokens of the longest request before the step.
        drafted: draft tokens of all requests.
        drafting: requests that proposed anything.
        unread: tokens that a drafter with a cache of its own has not read, at most over requests.
        tokens: emitted in all steps together.
    """

    requests: Counts
    query_tokens: Counts
    context: Counts
    drafted: Counts
    drafting: Counts
    unread: Counts
    tokens: int

    @property
    def steps(self) -> int:
        """Passes of the target."""
        return len(self.requests)

    @property
    def request_steps(self) -> int:
        """Steps of all requests together."""
        return int(self.requests.sum())

    @property
    def tokens_per_step(self) -> float:
        """Emitted per request and step."""
        return self.tokens / max(self.request_steps, 1)


def walk(
    trace: AcceptanceTrace | None, configuration: Configuration, requests: Sequence[int]
) -> Walk:
    """The steps of some requests of a trace, run together.

    Args:
        trace: of the configuration's drafter, greedy; for plain decoding any.
        configuration: chain, tree or plain.
        requests: their places in the trace.

    Raises:
        InputError: no such drafter was recorded, or its recording does not replay at this shape.
    """
    if trace is None:
        raise InputError("no such drafter was recorded", key="drafter", value=configuration.drafter)
    return walk_of([request_path(trace, configuration, place) for place in requests])


def walk_of(paths: Sequence[Path], *, first: int = 0, last: int | None = None) -> Walk:
    """The steps of requests that run together from their first steps on.

    Args:
        paths: of every request.
        first: step to begin with.
        last: step before which to end; None: with the longest request.
    """
    most = max((len(starts) for starts, *_ in paths), default=0)
    columns: dict[str, list[int]] = {
        name: [] for name in ("b", "n", "context", "drafted", "drafting", "unread")
    }
    for step in range(first, most if last is None else min(most, last)):
        here = [path for path in paths if step < len(path[0])]
        drafts = [int(drafted[step]) for _, drafted, _, _ in here]
        columns["b"].append(len(here))
        columns["n"].append(1 + max(drafts))
        columns["context"].append(max(int(context[step]) for _, _, _, context in here))
        columns["drafted"].append(sum(drafts))
        columns["drafting"].append(sum(count > 0 for count in drafts))
        columns["unread"].append(
            max(int(emitted[step - 1]) if step else 1 for _, _, emitted, _ in here)
        )
    arrays = {name: np.array(values, dtype=np.int64) for name, values in columns.items()}
    return Walk(
        requests=arrays["b"],
        query_tokens=arrays["n"],
        context=arrays["context"],
        drafted=arrays["drafted"],
        drafting=arrays["drafting"],
        unread=arrays["unread"],
        tokens=sum(int(emitted[first:last].sum()) for _, _, emitted, _ in paths),
    )


def request_path(trace: AcceptanceTrace, configuration: Configuration, request: int) -> Path:
    """Of one request, by step: output position, draft tokens, tokens emitted, cached tokens.

    Args:
        trace: of the configuration's drafter, greedy.
        configuration: chain or tree.
        request: its place in the trace.
    """
    alone = trace.select(np.array([request]))
    length = int(alone.output_tokens[0])
    shape = (
        configuration.draft_tokens
        if configuration.tree is None or alone.rank is None
        else configuration.tree
    )
    starts = step_starts(alone, shape).astype(np.int64)
    emitted = np.diff(np.append(starts, length))
    draft_tokens = configuration.draft_tokens
    drafted = np.full(len(starts), draft_tokens, dtype=np.int64)
    if alone.drafted is not None and draft_tokens and configuration.tree is None:
        drafted = np.minimum(alone.drafted[starts].astype(np.int64), draft_tokens)
    prompt = int(alone.prompt_tokens[0])
    return starts, drafted, emitted, prompt + starts - 1
