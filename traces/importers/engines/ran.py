"""What did an engine run, and how is that kept beside the acceptance that it counted?

A recording (level 0) says under a key of its own what its engine ran, so that one file of
rooftree's own stands for scrapes and logs that were read elsewhere. Leaves out how those are read
(`running`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.engines.metric_names import PREFIXES
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import MOST_DRAFT_LEVELS, Summary

RUNNING_KEY = "running"
"""Key of `Provenance.extra`: what the engine ran whose counts the recording holds."""
MOST = 1 << 40
_MOST_TEXT = 4000
_MOST_WORDS = 64
_CHECKED_OTHERWISE = ("trace", "engine", "files", "draft_tokens", "facts", "drafting", "reordered")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineFacts:
    """What an engine said when it started; None where it said nothing.

    Args:
        cache_tokens: tokens that its cache holds, all devices of a group together.
        cache_blocks: the same in blocks.
        block_tokens: tokens of a block.
        token_budget: most query tokens of an iteration.
        max_requests: most requests in flight.
        tensor_parallel: devices that share every layer.
        max_loras: slots of low-rank adapters.
        adapters: distinct adapters that requests ran with since it started; None also where no
            request did.
    """

    cache_tokens: int | None = None
    cache_blocks: int | None = None
    block_tokens: int | None = None
    token_budget: int | None = None
    max_requests: int | None = None
    tensor_parallel: int | None = None
    max_loras: int | None = None
    adapters: int | None = None

    def tokens(self, block_tokens: int) -> int | None:
        """Tokens of the cache; of blocks whose size was not said `block_tokens` each."""
        if self.cache_tokens is not None or self.cache_blocks is None:
            return self.cache_tokens
        return self.cache_blocks * (self.block_tokens or block_tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """What an engine ran between two scrapes.

    Attributes:
        engine: which.
        files: the scrapes, one or two, the earlier one first.
        trace: acceptance, level 0.
        draft_tokens: draft levels K in use, the longest where lengths were mixed; None where no
            counter tells.
        mean_draft_tokens: draft tokens of a step with a draft, on average; None where they are not
            counted.
        batch: requests of a step; None where no counter tells.
        batch_from: how that is known.
        proposal_ratio: share of the steps of requests that had a draft; None where no counter
            tells.
        prompt_tokens: mean of the requests that ended; None where no counter tells.
        output_tokens: mean length of their answers; None where no counter tells.
        tpot_s: mean seconds per output token, as the engine states it; None where it does not.
        facts: what the engine said of itself when it started.
        drafting: options that said what it drafts when it started, as words of a command line;
            empty where its log does not tell.
        reordered: whether the scrapes were named in the other order.
    """

    engine: str
    files: tuple[str, ...]
    trace: AcceptanceTrace
    draft_tokens: int | None
    mean_draft_tokens: float | None
    batch: float | None = None
    batch_from: str = ""
    proposal_ratio: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    tpot_s: float | None = None
    facts: EngineFacts = field(default_factory=EngineFacts)
    drafting: tuple[str, ...] = ()
    reordered: bool = False

    @property
    def reported_by(self) -> str:
        """What tells it: `counters`, `log` or `responses`."""
        last = self.trace.provenance.recorder_version.rpartition(" ")[2]
        return last if last in ("log", "responses") else "counters"

    @property
    def summary(self) -> Summary:
        """The counts."""
        assert self.trace.summary is not None
        return self.trace.summary

    @property
    def is_mixed(self) -> bool:
        """Whether drafts of several lengths were counted together."""
        mean, longest = self.mean_draft_tokens, self.draft_tokens
        return mean is not None and longest is not None and mean < longest - 1e-9


def with_running(trace: AcceptanceTrace, running: Running) -> AcceptanceTrace:
    """A recording that says what its engine ran.

    Args:
        trace: of the same counts, as an importer reads it.
        running: what the engine ran; of a log also the model and the method that it named.
    """
    about = running.trace.provenance
    kept = {part.name: getattr(running, part.name) for part in fields(Running)}
    kept |= {"facts": asdict(running.facts), "model": about.model, "method": about.method}
    del kept["trace"]
    return with_extra(trace, {RUNNING_KEY: kept})


def with_extra(trace: AcceptanceTrace, extra: Mapping[str, Any]) -> AcceptanceTrace:
    """A recording with further keys of `Provenance.extra`."""
    about = trace.provenance
    return replace(trace, provenance=replace(about, extra={**about.extra, **extra}))


def stored_running(path: str | Path) -> Running | None:
    """What an engine ran whose counts a recording of rooftree's own holds; None for any other file.

    Args:
        path: any file.

    Raises:
        InputError: a damaged recording, or one that says what cannot be.
    """
    if Path(path).suffix.lower() != ".parquet":
        return None
    # pyarrow is loaded for Parquet alone
    from traces.storage.acceptance_file import read_acceptance

    trace = read_acceptance(path)
    return running_of(trace, str(path))


def running_of(trace: AcceptanceTrace, file: str) -> Running | None:
    """What the engine ran whose counts a recording holds; None where it does not say so.

    Args:
        trace: from outside.
        file: name for messages.

    Raises:
        InputError: it says what cannot be.
    """
    kept = trace.provenance.extra.get(RUNNING_KEY)
    if kept is None or trace.summary is None:
        return None
    checked = _Checked(kept, file)
    if (engine := checked.text("engine")) not in PREFIXES:
        raise InputError("is no engine that is known", file=file, key=RUNNING_KEY, value=engine)
    about = replace(trace.provenance, model=checked.text("model"), method=checked.text("method"))
    facts = _Checked(checked.value("facts"), file)
    named = [part.name for part in fields(Running) if part.name not in _CHECKED_OTHERWISE]
    numbers = {name: checked.number(name) for name in named if name != "batch_from"}
    return Running(
        engine=engine,
        files=checked.words("files"),
        trace=replace(trace, provenance=about),
        draft_tokens=checked.whole("draft_tokens", MOST_DRAFT_LEVELS),
        batch_from=checked.text("batch_from"),
        facts=EngineFacts(**{part.name: facts.whole(part.name) for part in fields(EngineFacts)}),
        drafting=checked.words("drafting"),
        reordered=checked.value("reordered") is True,
        **numbers,
    )


class _Checked:
    """An object from outside, whose values are of the types that are asked for."""

    def __init__(self, values: Any, file: str) -> None:
        if not isinstance(values, dict):
            raise InputError("must be an object", file=file, key=RUNNING_KEY)
        self._values, self._file = values, file

    def value(self, name: str) -> Any:
        return self._values.get(name)

    def text(self, name: str) -> str:
        value = self._values.get(name, "")
        if not isinstance(value, str) or len(value) > _MOST_TEXT:
            raise self._refusal(name, f"must be a text of at most {_MOST_TEXT} characters")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        values = self._values.get(name, [])
        if not isinstance(values, list) or len(values) > _MOST_WORDS:
            raise self._refusal(name, f"must be a list of at most {_MOST_WORDS} texts")
        if not all(isinstance(value, str) and len(value) <= _MOST_TEXT for value in values):
            raise self._refusal(name, f"must hold texts of at most {_MOST_TEXT} characters")
        return tuple(values)

    def number(self, name: str) -> float | None:
        value = self._values.get(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= MOST:
            raise self._refusal(name, f"must be a number in 0..{MOST}, or null")
        return float(value)

    def whole(self, name: str, most: int = MOST) -> int | None:
        value = self._values.get(name)
        if value is not None and (type(value) is not int or not 1 <= value <= most):
            raise self._refusal(name, f"must be a whole number in 1..{most}, or null")
        return value

    def _refusal(self, name: str, rule: str) -> InputError:
        key = f"{RUNNING_KEY}.{name}"
        return InputError(rule, file=self._file, key=key, value=self._values.get(name))
