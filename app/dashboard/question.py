"""Which configuration and which drafters does the question bar ask about?

The same on every page, and in the words of the command line: `drafter_options` are what `--drafter`
and `--trace` would say. Leaves out the widgets (`controls`) and what is answered (`answers`).
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from app.dashboard.asking import Value
from app.dashboard.device_numbers import DEVICE_NUMBERS
from app.dashboard.held import device_place, model_place, recording_place
from app.dashboard.state import State, milliseconds, overrides, rate_of, rivals_of, with_values
from app.questions.values import Bytes
from costmodel.answers.workload import Limits
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import Acceptance, accepted_by, geometric, law_for
from costmodel.laws.claims import rate_claim
from costmodel.laws.own_draft import own_draft
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.competing import competing
from costmodel.optimizers.drafters.default_drafters import default_drafters
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.drafters.sources import Source, trace_source
from hardware_profiles.errors import InputError
from traces.library import recordings, shipped_traces, trace_file, trace_name
from traces.replay.bootstrap import RequestDraws, request_draws

PLAIN = "plain-decoding"
UNNAMED = "speculative-decoding"  # of a recording that names no method
WHERE = (
    "model",
    "device",
    *DEVICE_NUMBERS,
    "engine",
    "dtype",
    "kv_dtype",
    "draft_dtype",
    "tp",
    "draft",
    "batch",
    "context",
    "seed",
)
"""Fields that say which model runs, where, and how full: what no page leaves out that prices a step."""
DRAFTER_CARD = ("draft_name", "draft_passes", "draft_bytes")
DRAFTED = (
    "method",
    "known_by",
    "acceptance",
    "trace",
    "upload",
    "draft",
    *DRAFTER_CARD,
    "rivals",
)


def limits_of(state: State) -> Limits:
    """The latency limits of a state."""
    return Limits(ttft_s=milliseconds(state.slo_ttft), tpot_s=milliseconds(state.slo_tpot))


def where_asked(state: State) -> dict[str, Value]:
    """What every verb that costs anything is asked of a state, by field: the model and what it runs
    on, changes of the device among them.
    """
    where = deployment(state)
    return {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "dtype": where.dtype,
        "kv_dtype": where.kv_dtype,
        "draft_dtype": where.draft_dtype,
        "tp": where.tensor_parallel if where.tensor_parallel > 1 else None,
        "overrides": where.overrides,
    }


def drafters_asked(state: State) -> dict[str, Value]:
    """What `optimize` is asked of the drafters that compete, by field."""
    needed = not state.method or load_method(state.method).needs_draft_model
    return {
        "draft": state.draft if needed else None,
        **own_drafter_asked(state),
        **drafter_options(state),
    }


def drafter_asked(state: State) -> dict[str, Value]:
    """What verbs that take one drafter are asked of the first, by field."""
    draft = state.draft and scenario(state).draft_model  # refused where no draft model is used
    return {"draft": draft, **own_drafter_asked(state), **drafter_options(state, alone=True)}


def own_drafter_asked(state: State) -> dict[str, Value]:
    """What verbs are asked of a drafter that the state describes by its passes, by field; nothing
    where it describes none.
    """
    return {name: getattr(state, name) for name in DRAFTER_CARD} if state.draft_bytes else {}


def own_drafter_fields(state: State) -> dict[str, Any]:
    """The same as fields of a configuration."""
    if not state.draft_bytes:
        return {}
    return {
        "draft_name": state.draft_name or None,
        "draft_passes": state.draft_passes,
        "draft_bytes": Bytes().read(state.draft_bytes),
    }


def draft_asked(state: State) -> dict[str, Value]:
    """What verbs are asked of the draft of the first drafter: K of its chain, or the one draft that
    was recorded of it.
    """
    if state.draft_tokens and drafters(state)[0].own_draft is not None:
        return {"shape": "own"}
    return {"draft_tokens": str(state.draft_tokens)}


def deployment(state: State) -> DeploymentNames:
    """Where the model runs, with the numbers of the device that the state changes."""
    return DeploymentNames(
        model=model_place(state.model),
        device=device_place(state.device),
        engine=state.engine,
        dtype=state.dtype or None,
        kv_dtype=state.kv_dtype or None,
        draft_dtype=state.draft_dtype or None,
        tensor_parallel=state.tp,
        overrides=overrides(state),
    )


def drafters(state: State) -> tuple[Source, ...]:
    """The drafters that compete, the reader's own first.

    Raises:
        InputError: a drafter that cannot be, or a recording of a session that is not there.
    """
    drafted = with_values(State(), {name: getattr(state, name) for name in ("model", *DRAFTED)})
    sources = _compared(drafted) if drafted.upload else _cached(drafted)
    return tuple(source.asked_on(model_place(state.model)) for source in sources)


def _compared(state: State) -> tuple[Source, ...]:
    sources = _named(state)
    if not state.draft_bytes:
        return sources
    described = DecodingConfiguration(
        deployment=DeploymentNames(model=model_place(state.model)), **own_drafter_fields(state)
    )
    return tuple(competing(described, sources))


def _named(state: State) -> tuple[Source, ...]:
    model = model_place(state.model)
    rivals = [drafter_source(rival, model=model) for rival in rivals_of(state.rivals)]
    if (path := own_recording(state)) is not None:
        own = trace_source(path, state.method, otherwise=UNNAMED, override=bool(state.method))
        return (own, *rivals)
    if text := own_drafter(state):
        return (drafter_source(text, model=model), *rivals)
    plain = DecodingConfiguration(
        method=PLAIN, deployment=DeploymentNames(model=model), **own_drafter_fields(state)
    )
    return (*default_drafters(plain)[1], *rivals)


_cached = lru_cache(maxsize=256)(_compared)


def is_masked(state: State) -> bool:
    """Whether the model decodes masked blocks, for which nothing is drafted.

    Raises:
        InputError: a model's file that this server does not have.
    """
    return load_model(model_place(state.model)).decodes_blocks


def has_recordings(state: State) -> bool:
    """Whether a drafter that competes is known by positions, so that trees can be compared."""
    return any(source.positions is not None for source in drafters(state))


def own_drafter(state: State) -> str:
    """The reader's drafter as `--drafter` takes it; empty where none is named."""
    if not state.method:
        return f"{UNNAMED}:{stated}" if (stated := _stated_rates(state)) else ""
    if (path := own_recording(state)) is not None:
        return f"{state.method}:{trace_name(path)}"
    source = {
        "rate": f":{rate_of(state):g}",
        "rates": f":{state.acceptance}" if state.acceptance else "",
    }
    return state.method + source.get(state.known_by, "")


def _stated_rates(state: State) -> str:
    """What is accepted of a drafter that is described by its passes and by no method; empty where
    no rates are stated of one.
    """
    if not state.draft_bytes or state.known_by not in ("rate", "rates"):
        return ""
    is_one = state.known_by == "rate" or not state.acceptance
    return f"{rate_of(state):g}" if is_one else state.acceptance


def own_recording(state: State) -> Path | None:
    """The recording that the reader's drafter is known by; None where it is known otherwise.

    Raises:
        InputError: one of a session that has ended.
    """
    if state.known_by == "upload":
        return recording_place(state.upload)
    if state.known_by != "recording":
        return None
    return trace_file(state.trace) if state.trace else shipped_traces()[0]


def drafter_options(state: State, *, alone: bool = False) -> dict[str, str | tuple[str, ...]]:
    """Fields that name the drafters; a recording of the session by where the server keeps it.

    Args:
        state: of any page.
        alone: of the first drafter, for verbs that take one, where what is compared by default is
            spelled out.
    """
    rivals = [] if alone else rivals_of(state.rivals)
    if not state.method and (stated := _stated_rates(state)):
        return {"acceptance": stated, "drafter": tuple(rivals)}
    text, known_by_file = own_drafter(state), state.known_by in ("recording", "upload")
    if known_by_file and not state.method:
        path = own_recording(state)
        assert path is not None
        return {"trace": trace_name(path), "drafter": tuple(rivals)}
    if not text and (alone or rivals):
        defaults = [_text_of(source) for source in drafters(with_values(state, {"rivals": ""}))]
        return {"drafter": (*(defaults[:1] if alone else defaults), *rivals)}
    return {"drafter": (*([text] if text else []), *rivals)}


def _text_of(source: Source) -> str:
    """A drafter that is compared by default, as `--drafter` takes it."""
    return (
        f"{source.method}:{trace_name(source.path)}" if source.path is not None else source.method
    )


def scenario(state: State, *, method: str | None = None) -> DecodingConfiguration:
    """The cost model's question of a state: one drafter, the first, where it runs.

    Args:
        state: the page's question.
        method: another method, whose draft model the state names.
    """
    where, own = deployment(state), own_drafter_fields(state)
    if method is not None:
        needs = load_method(method).needs_draft_model
        return DecodingConfiguration(
            method=method,
            draft_model=(state.draft or None) if needs else None,
            deployment=where,
            **own,
        )
    plain = DecodingConfiguration(
        method=PLAIN, draft_model=state.draft or None, deployment=where, **own
    )
    first = competing(plain, drafters(state))[0]
    return DecodingConfiguration(
        method=first.method, draft_model=first.draft_model, deployment=where, **own
    )


def chain(source: Source, draft_tokens: int, *, most: int = 0, seed: int = 0) -> Acceptance:
    """What a drafter's chain of K draft tokens emits; the one draft that was recorded, where no
    chain was.

    Args:
        source: of its acceptance.
        draft_tokens: K >= 0.
        most: the longest chain that it is compared with.
        seed: of the bootstrap over recorded requests.

    Raises:
        InputError: a drafter without acceptance by token.
    """
    if (recorded := source.own_draft) is not None:
        draws = _draws(tuple(recorded.prompt_kinds), seed) if recorded.requests else None
        return own_draft(source.entry, recorded, draws) if draft_tokens else geometric(0.0, 0)
    if source.positions is None:
        if source.rates is None:
            raise InputError("has no acceptance by token", key="method", value=source.method)
        return rate_claim(source.entry, source.rates, draft_tokens)
    if source.path is None or source.path not in recordings().values():
        return _replayed(source, draft_tokens, max(most, draft_tokens), seed)
    return _shipped_chain(source.path, source.method, draft_tokens, max(most, draft_tokens), seed)


def acceptance_words(source: Source, draft_tokens: int = 0) -> str:
    """Where a drafter's acceptance is known from, and what that leaves open, in sentences.

    Args:
        source: the drafter.
        draft_tokens: most draft tokens of an answer that rests on it.
    """
    remark = source.remark_at(draft_tokens)
    return " ".join(
        filter(None, (_source_words(source), remark and f"{remark[:1].upper()}{remark[1:]}."))
    )


def _source_words(source: Source) -> str:
    if source.kind in ("recorded", "counted"):
        which = f" ({source.recorded_as})" if source.looked_up else ""
        if not source.borrowed:
            return f"Acceptance was recorded on this model{which}."
        recorded_on = source.model or "an unnamed model"
        return (
            f"Acceptance was recorded on {recorded_on}{which} and is borrowed: your model's own may"
            " differ."
        )
    if source.kind == "published":
        label = f"{source.about[:1].upper()}{source.about[1:]}"
        return (
            f"Acceptance of {source.called}:"
            f" {label}.{' Your own may differ.' if source.borrowed else ''}"
        )
    return (
        f"Acceptance of {source.called} is stated ({source.about}), not measured: a recording is"
        " better."
    )


@lru_cache(maxsize=256)
def _shipped_chain(path: Path, method: str, draft_tokens: int, most: int, seed: int) -> Acceptance:
    return _replayed(trace_source(path, method, override=True), draft_tokens, most, seed)


def _replayed(source: Source, draft_tokens: int, most: int, seed: int) -> Acceptance:
    """By the law that holds for chains of up to `most` draft tokens."""
    trace = source.positions
    assert trace is not None
    verify = load_method(source.method).verify
    law = law_for(trace, verify.rule, (most,), at=verify.at)
    return accepted_by(trace, law, draft_tokens, _draws(tuple(trace.prompt_kinds), seed))


@lru_cache(maxsize=8)
def _draws(kinds: tuple[str, ...], seed: int) -> RequestDraws:
    return request_draws(kinds, generator=np.random.default_rng(seed))
