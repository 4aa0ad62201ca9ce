"""How is acceptance read from the Prometheus counters of vLLM, LMDeploy and llama.cpp?

Formats `vllm-metrics`, `lmdeploy-metrics` and `llama-cpp-metrics`: all three count
`spec_decode_num_drafts`, `_draft_tokens`, `_accepted_tokens` and `_accepted_tokens_per_pos` under
their own prefix. Yields level 0: counts between two scrapes (or since the engine started) and the
unconditional probability that each draft position is accepted, summed over engines; of vLLM's V0
engine the mean, from what it emitted. It cannot know positions, batch sizes or single requests, nor
tell lengths apart where a dynamic schedule mixed them: the rates hold for the draft lengths in use
and no others.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from hardware_profiles.errors import InputError
from traces.importers.counted import MOST_POSITIONS, counted
from traces.importers.prometheus import Series, by_position, gained, models_of, scrape, summed
from traces.importers.recognition import Format
from traces.kinds.acceptance import AcceptanceTrace

_ENGINES = {  # by format: the prefix of the counters, and the engine's name
    "vllm-metrics": ("vllm", "vLLM"),
    "lmdeploy-metrics": ("lmdeploy", "LMDeploy"),
    "llama-cpp-metrics": ("llamacpp", "llama.cpp"),
}
_NAMES = dict(_ENGINES.values())
_POSITIONS = "num_accepted_tokens_per_pos"
_COUNTERS = (
    "num_drafts",
    "num_draft_tokens",
    "num_accepted_tokens",
    "num_emitted_tokens",
    _POSITIONS,
)
_EFFICIENCY = "efficiency"


def read(
    before: str | Path,
    after: str | Path | None = None,
    *,
    model: str | None = None,
    engine: str = "vllm",
) -> AcceptanceTrace:
    """Read the difference of two scrapes.

    Args:
        before: text of `/metrics` at the start; the only file where `after` is absent, counted from
            engine start.
        after: text of `/metrics` at the end.
        model: `model_name` to read where several models are served.
        engine: prefix of the counters: vllm, lmdeploy or llamacpp.

    Returns:
        A trace of level 0.

    Raises:
        InputError: no counters, several models and none chosen, a counter that fell (engine
            restarted), no draft.
    """
    prefix = f"{engine}:spec_decode_"
    start = {} if after is None else scrape(before, prefix, _COUNTERS, model)
    file = str(before if after is None else after)
    end = scrape(file, prefix, (*_COUNTERS, _EFFICIENCY), model)
    counters = {key: value for key, value in end.items() if key[0] != _EFFICIENCY}
    series = gained(counters, start, file, before)
    drafts, proposed, accepted, emitted = (summed(series, name, file) for name in _COUNTERS[:4])
    notes = (
        ["One scrape only: everything since the engine started, warm-up included."]
        if after is None
        else []
    )
    if emitted and not drafts:
        length = _length_of_v0(end, file)
        drafts = proposed // length
        accepted = max(0, emitted - drafts)  # its own count goes on behind a refused token
        notes.append(
            f"V0 engine: its efficiency tells a draft length of {length}, which tells the drafts."
        )
    positions = by_position(series, _POSITIONS, file)
    if not drafts and not (proposed and engine == "llamacpp"):
        raise InputError(
            "no draft was verified between the scrapes", file=file, key=f"{prefix}num_drafts"
        )
    if positions and sum(positions) != accepted:
        notes.append(
            "The counters per position do not add up to the accepted tokens: scraped under load."
        )
    if positions and proposed != drafts * len(positions):
        notes.append(
            "Draft lengths were mixed: deeper positions count steps that never drafted so deep as"
            " refused."
        )
    return counted(
        file,
        source=f"{_NAMES[engine]} Prometheus counters",
        drafts=drafts,
        draft_tokens=proposed,
        accepted_tokens=accepted,
        rates=[count / drafts for count in positions] if drafts else (),
        # counters are read one after the other: some steps may have ended between two of them
        slack=0.01 + 8 / max(drafts, 1),
        model=models_of(end),
        notes=notes,
        extra={"draft_tokens_per_draft": proposed / drafts} if drafts else {},
    )


def _length_of_v0(series: Series, file: str) -> int:
    """Draft length K of the V0 engine, which counts no drafts: its efficiency is emitted over
    drafts times K + 1.

    Raises:
        InputError: no efficiency, or one that no draft length has.
    """
    efficiency = max(
        (value for (name, _), value in series.items() if name == _EFFICIENCY), default=0.0
    )
    emitted, proposed = (
        summed(series, "num_emitted_tokens", file),
        summed(series, "num_draft_tokens", file),
    )
    longer = emitted / (efficiency * proposed) - 1.0 if efficiency and proposed else 0.0  # 1 / K
    length = round(1.0 / longer) if longer > 1.0 / MOST_POSITIONS else 0
    if not 1 <= length <= MOST_POSITIONS:
        rule = "must be emitted over the most tokens that the drafts could have emitted"
        raise InputError(rule, file=file, key=f"vllm:spec_decode_{_EFFICIENCY}", value=efficiency)
    return length


FORMATS = tuple(
    Format(
        name=name,
        claims=lambda sample, engine=engine: sample.says(f"^{engine}:spec_decode_num_"),  # type: ignore[misc]
        read=partial(read, engine=engine),
    )
    for name, (engine, _) in _ENGINES.items()
)
