"""Which drafters do options name, and where is the acceptance of each one known from?

One meaning of --trace, --acceptance, --tokens-per-step, --drafter and --method for every verb.
Leaves out what a source emits at a draft length (`costmodel.optimizers.drafters.sources`,
`app.questions.resolve.configurations`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.questions.field import stated_words
from app.questions.groups import AcceptanceOptions
from app.questions.resolve.chosen_configuration import with_options
from costmodel.configuration import DecodingConfiguration
from costmodel.configuration.file import read_configuration
from costmodel.laws.acceptance import Acceptance
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.competing import carried, competing
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.drafters.sources import (
    Source,
    confidence_source,
    configured_source,
    entry_source,
    length_source,
    policy_source,
    rates_source,
    trace_source,
)
from hardware_profiles.errors import InputError
from traces.kinds.provenance import POLICY_KEY
from traces.kinds.refine_policy import RefinePolicy
from traces.library import is_confidence, trace_file

KNOWN_BY = ("trace", "acceptance", "tokens_per_step")
"""Keys of a scenario that say what is accepted, one at a time."""
OTHERWISE = "speculative-decoding"
"""The method of stated acceptance that names none: chains from a draft model."""


def named_sources(
    accepted: AcceptanceOptions,
    traces: Sequence[Path],
    *,
    method: str = "",
    otherwise: str = "",
    model: str = "",
    lengths: Sequence[int] = (),
    refine: RefinePolicy | None = None,
    canvas: int | None = None,
) -> list[Source]:
    """The sources that options name, in the order of traces, stated numbers and drafters; none
    where they name none.

    Args:
        accepted: the options.
        traces: of --trace.
        method: slug of --method; it must not contradict a trace, and belongs to stated
            numbers.
        otherwise: slug of a trace that names no method; empty: one must be named.
        model: target, for published figures.
        lengths: draft lengths asked about.
        refine: policy of a method that refines masked blocks; None: its own.
        canvas: tokens that it refines; None: as recorded, or the method's own.

    Raises:
        InputError: options that exclude each other, numbers out of range, a method that a trace
            contradicts.
    """
    share = accepted.match_rate
    ways = {
        "--trace": bool(traces),
        "--acceptance": accepted.acceptance is not None,
        "--tokens-per-step": accepted.tokens_per_step is not None,
    }
    stated = [option for option, stands in ways.items() if stands]
    if len(stated) > 1:
        rule = (
            "exclude each other; exactly one of them says what is accepted, and --drafter adds"
            " further drafters"
        )
        raise InputError(f"{' and '.join(stated)} {rule}")
    if accepted.drafter and method and not stated:
        raise InputError(
            "--drafter names its method itself; leave out --method", key="--method", value=method
        )
    sources = [
        (
            _masked_source(file, method, accepted, refine, canvas)
            if is_confidence(file)
            else trace_source(file, method, share, lengths=lengths, otherwise=otherwise)
        )
        for file in map(trace_file, traces)
    ]
    if refine is not None and not traces and not accepted.drafter:
        return [_policy_source(method, refine, accepted, canvas, model)]
    if accepted.acceptance is not None:
        sources = [rates_source(method or OTHERWISE, accepted.acceptance, match_rate=share)]
    if accepted.tokens_per_step is not None:
        sources = [
            length_source(method or OTHERWISE, accepted.tokens_per_step, lengths, match_rate=share)
        ]
    if method and not sources and not accepted.drafter:
        sources = own_paced(method, model)
    return sources + [
        drafter_source(text, model=model, lengths=lengths, match_rate=share)
        for text in accepted.drafter or ()
    ]


def _masked_source(
    file: Path,
    slug: str,
    accepted: AcceptanceOptions,
    refine: RefinePolicy | None,
    canvas: int | None,
) -> Source:
    """The replay of a confidence trace, which knows no proposals."""
    if accepted.match_rate is not None:
        rule = "belongs to drafters that may propose nothing; a confidence trace has no proposals"
        raise InputError(rule, key="--match-rate", value=accepted.match_rate)
    return confidence_source(file, slug, refine=refine, canvas_tokens=canvas)


def _policy_source(
    slug: str,
    refine: RefinePolicy,
    accepted: AcceptanceOptions,
    canvas: int | None,
    model: str,
) -> Source:
    """A stated policy, with the tokens per pass that are stated beside it."""
    if accepted.acceptance is not None:
        rule = (
            "belongs to drafts that are verified token by token; state --tokens-per-step, or give a"
            " --trace"
        )
        raise InputError(rule, key="--acceptance", value=",".join(map(str, accepted.acceptance)))
    return policy_source(slug, refine, accepted.tokens_per_step, canvas_tokens=canvas, model=model)


def own_paced(slug: str, model: str) -> list[Source]:
    """The source of a method whose entry itself says how many tokens a step brings; none for the
    others.
    """
    return [entry_source(slug, model)] if load_method(slug).has_own_pace else []


def one_source(
    accepted: AcceptanceOptions,
    trace: Path | None,
    *,
    method: str = "",
    model: str = "",
    lengths: Sequence[int] = (),
    refine: RefinePolicy | None = None,
    canvas: int | None = None,
) -> Source | None:
    """The one source that options name, for verbs that ask about one drafter; None where they name
    none.

    Args:
        accepted: the options.
        trace: of --trace.
        method: of --method.
        model: target, for published figures.
        lengths: draft lengths asked about.
        refine: as in `named_sources`.
        canvas: as in `named_sources`.

    Raises:
        InputError: several, or as `named_sources`.
    """
    traces = [trace] if trace is not None else []
    sources = named_sources(
        accepted,
        traces,
        method=method,
        otherwise=OTHERWISE,
        model=model,
        lengths=lengths,
        refine=refine,
        canvas=canvas,
    )
    if len(sources) > 1:
        rule = (
            "one drafter is taken here, by one of --trace, --acceptance, --tokens-per-step and"
            " --drafter; "
        )
        raise InputError(f"{rule}`rooftree optimize` compares several", value=len(sources))
    return sources[0].asked_on(model) if sources else None


def asked_source(
    chosen: DecodingConfiguration, accepted: AcceptanceOptions, options: Mapping[str, Any]
) -> tuple[DecodingConfiguration, Source | None]:
    """A configuration with the method of its drafter, and where the acceptance of that is known
    from.

    Args:
        chosen: of a file, with options over it.
        accepted: the options; they go over what the file says.
        options: options on the command line.

    Returns:
        The configuration, whose trace is None where numbers are asked about, and the source; None
        where nothing says what is accepted.

    Raises:
        InputError: as `one_source`.
    """
    file = options.get("config") is not None
    trace = options.get("trace")
    if trace is None and file and options.get("method") and _replays_masked(chosen, accepted):
        trace = Path(str(chosen.trace))
    stated = trace is not None or accepted.tokens_per_step is not None
    own = (
        file
        and (chosen.speculates or (chosen.refine is not None and stated))
        and not accepted.drafter
    )
    method = options.get("method") or (chosen.method if own else "")
    lengths = options.get("draft_tokens") if options.get("tree") is None else None
    if lengths is None and file and not options.get("tree"):
        lengths = [chosen.draft_tokens]
    source_options: dict[str, Any] = {
        "method": method,
        "model": chosen.deployment.model,
        "canvas": chosen.canvas_tokens,
        "refine": chosen.refine if stated or not file else None,
    }
    source = one_source(accepted, trace, lengths=lengths or (), **source_options)
    if source is None and file:
        if options.get("method") and chosen.trace is not None:
            return chosen, one_source(accepted, Path(chosen.trace), **source_options)
        return chosen, configured_source(chosen)
    if source is None:
        return chosen, None
    drafts = [name for name in ("draft_tokens", "shape") if options.get(name) is not None]
    if source.refine is not None and drafts:
        raise InputError(
            "masked blocks have no draft tokens; --block states their size",
            key=f"--{drafts[0].replace('_', '-')}",
            value=",".join(stated_words(options[drafts[0]])),
        )
    if file:  # another method drops what belonged to the drafter of the file
        named = {
            name: options[name]
            for name in ("draft", "exit_layer", "draft_name", "draft_passes", "draft_bytes")
            if name in options
        }
        chosen = with_options(chosen, {**named, "method": source.method})
    (source,) = competing(chosen, [source])
    carried_over = {
        **carried(source),
        "refine": source.refine,
        "canvas_tokens": source.canvas_tokens,
    }
    return replace(
        chosen, **carried_over | ({"trace": chosen.trace} if trace is not None else {})
    ), source


def _replays_masked(chosen: DecodingConfiguration, accepted: AcceptanceOptions) -> bool:
    """Whether a configuration names a confidence trace, and options state nothing in its place."""
    stated = (
        accepted.drafter or accepted.acceptance is not None or accepted.tokens_per_step is not None
    )
    return not stated and chosen.trace is not None and is_confidence(trace_file(chosen.trace))


def acceptance_values(
    accepted: AcceptanceOptions,
    trace: str | None,
    draft_tokens: int | None,
    model: str | None,
    config: Path | None,
    *,
    assigned: Sequence[str] = (),
) -> dict[str, Any]:
    """Keys of a scenario for what options say of acceptance; the file's stand where they say
    nothing.

    Args:
        accepted: the options.
        trace: of --trace.
        draft_tokens: of --draft-tokens.
        model: of --model, for published figures.
        config: a configuration, whose model it otherwise is.
        assigned: texts of `--set`; those that describe a drafter do not go with a published one.

    Raises:
        InputError: several drafters, or as `named_sources`.
    """
    if trace is not None:
        _check_masked(trace, {"--draft-tokens": draft_tokens, "--match-rate": accepted.match_rate})
    values: dict[str, Any] = {
        "speculation.trace": trace,
        "speculation.match_rate": accepted.match_rate,
    }
    values["speculation.tokens_per_step"] = accepted.tokens_per_step
    values["speculation.acceptance"] = (
        None if accepted.acceptance is None else list(accepted.acceptance)
    )
    stated = [key for key in KNOWN_BY if values[f"speculation.{key}"] is not None]
    several = len(stated) + len(accepted.drafter or ())
    if several > 1:
        options = "--trace, --acceptance, --tokens-per-step and --drafter"
        raise InputError(f"one drafter is taken here, by one of {options}", value=several)
    if not accepted.drafter:
        return values
    if model is None and config is not None:
        model = read_configuration(config).deployment.model
    source = one_source(
        accepted, None, model=model or "", lengths=[draft_tokens] if draft_tokens else ()
    )
    assert source is not None
    described = [
        text
        for text in assigned
        if text.startswith(("speculation.draft_bytes", "speculation.draft_passes"))
    ]
    if described and source.looked_up:
        rule = (
            f"describes a drafter of its own, and {source.called}'s acceptance was published of"
            " another one"
        )
        raise InputError(rule, key="--set", value=described[0])
    values |= {"speculation.method": source.method, "speculation.match_rate": source.match_rate}
    if source.draft_model is not None:
        values["speculation.draft"] = source.draft_model
    if source.path is not None:
        return values | {"speculation.trace": source.recorded_as}
    if source.rates is None:
        return values | {"speculation.tokens_per_step": source.own_tokens_per_step}
    if source.rates.tokens_per_step is not None and draft_tokens in (None, source.rates.measured):
        published = {
            "tokens_per_step": source.rates.tokens_per_step,
            "draft_tokens": source.rates.measured,
        }
        return values | {f"speculation.{key}": value for key, value in published.items()}
    known_to = {"speculation.known_tokens": source.known_tokens}
    return values | {"speculation.acceptance": list(source.rates.by_depth)} | known_to


def acceptance_missing(method: str, model: str) -> InputError:
    """The refusal of drafts of which nothing says what is accepted: what to write instead.

    Args:
        method: slug of --method; one that does not draft, or "", where none was named.
        model: target.
    """
    if not method or not load_method(method).drafts:
        return InputError(
            "exactly one of --trace, --acceptance, --tokens-per-step and --drafter is needed where"
            " anything is drafted: --drafter eagle-3 takes what was published of it, and"
            " --draft-tokens 0 decodes plainly"
        )
    stated = "state it by --acceptance, --tokens-per-step or --trace"
    try:
        known = drafter_source(method, model=model)
    except InputError:  # neither published nor recorded
        return InputError(f"nothing says what is accepted: {stated}", key="--method", value=method)
    rule = (
        f"nothing says what is accepted: write --drafter {method} in its place for what is known"
        f" of it ({known.label}), or {stated}"
    )
    return InputError(rule, key="--method", value=method)


def _check_masked(trace: str, drafts: Mapping[str, Any]) -> None:
    """Refuse what belongs to drafts beside a confidence trace."""
    stated = [(option, value) for option, value in drafts.items() if value is not None]
    if stated and is_confidence(trace_file(trace)):
        raise InputError(
            "is for drafts; masked blocks of a confidence trace have none",
            key=stated[0][0],
            value=stated[0][1],
        )


def lengths_for(
    source: Source | None, lengths: Sequence[int] | None, usual: Sequence[int]
) -> Sequence[int]:
    """Draft lengths to compare: those asked for; else the usual ones within what is known of the
    drafter.

    Args:
        source: of the acceptance; None: unknown.
        lengths: as asked; None: not.
        usual: where nothing was asked.

    Returns:
        Lengths, of a recording of one policy its own, or sizes of trees that carry prompt tokens;
        empty where tokens per step belong to a length or shape of their own.
    """
    if lengths is not None or source is None:
        return usual if lengths is None else lengths
    if source.own_draft is not None:
        return []
    if source.positions is not None:
        policy = source.positions.provenance.extra.get(POLICY_KEY)
        return _usual_for(source, usual) if policy is None else [0, policy]
    if source.rates is None or source.rates.tokens_per_step is not None:
        return []
    if (sizes := _usual_for(source, usual)) is not usual:
        return sizes
    longest = source.rates.measured
    within = [k for k in usual if longest is None or k <= longest]
    return within if any(within) else [*within, longest or 0]


def _usual_for(source: Source, usual: Sequence[int]) -> Sequence[int]:
    """The usual lengths, or the entry's own size where candidates carry prompt tokens and ranks are
    known.
    """
    shape, recorded = load_method(source.method).shape, source.positions
    sized = shape.kind == "state_trees" and (recorded is None or recorded.level >= 2)
    return [0, shape.nodes] if sized else usual


def numbers_words(source: Source | None, used: Iterable[Acceptance] = ()) -> list[str]:
    """What has to be said of acceptance that was not replayed, or that nobody named; else nothing.

    Args:
        source: where it is known from.
        used: configurations whose acceptance comes from it.
    """
    if source is None or (source.positions is not None and not source.looked_up):
        return []
    about = source.label if source.kind != "stated" else f"stated: {source.about}"
    if source.looked_up and source.recording_words:
        about = f"{about}: {source.recording_words}"
    covers = source.interval_covers(max((acceptance.levels for acceptance in used), default=0))
    return [f"acceptance {about}; intervals cover the {covers}"]
