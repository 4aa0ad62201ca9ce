"""Which drafters do options name, and where is the acceptance of each one known from?

One meaning of --trace, --acceptance, --tokens-per-step, --drafter and --method for every verb.
Leaves out what a source emits at a draft length (`costmodel.optimizers.drafters.sources`,
`app.questions.resolve.configurations`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from app.questions.field import Question, refuse, stated_words
from app.questions.groups import AcceptanceOptions
from app.questions.resolve.chosen_configuration import with_options
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.draft_shape import read_shapes
from costmodel.laws.acceptance import Acceptance
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.competing import carried, competing
from costmodel.optimizers.drafters.default_drafters import decodes_blocks
from costmodel.optimizers.drafters.named_drafters import NO_DRAFTS, drafter_source, known_source
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
_OWN_DRAFTER = ("draft_name", "draft_passes", "draft_bytes")
_DRAFTED = ("method", "draft", "shape", "tree", "draft_tokens", *KNOWN_BY)
_Asked = TypeVar("_Asked", bound=Question)
OTHERWISE = "speculative-decoding"
"""The method of stated acceptance that names none: chains from a draft model."""


def undrafted(question: _Asked) -> _Asked:
    """The question of one drafter, with `--drafter off` said as no draft tokens.

    Args:
        question: of a verb with --drafter and --draft-tokens.

    Raises:
        InputError: something is drafted beside it.
    """
    named: list[str] = getattr(question, "drafter", None) or []
    if len(named) != 1 or named[0].strip().casefold() not in NO_DRAFTS:
        return question
    refuse(question, dict.fromkeys(_DRAFTED, f"--drafter {named[0]} drafts nothing; leave out one"))
    stated = question.stated - {"drafter"} | {"draft_tokens"}
    changed: Any = {"drafter": None, "draft_tokens": (0,), "stated": stated}
    return replace(question, **changed)


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
    drafts: bool = False,
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
        drafts: something is drafted, of which a method alone says as much as --drafter.

    Raises:
        InputError: several, as `named_sources`, or nothing is known of a method alone that drafts.
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
    if not sources and drafts and method and load_method(method).drafts:
        return known_of(method, model, match_rate=accepted.match_rate)
    return sources[0].asked_on(model) if sources else None


def known_of(method: str, model: str, *, match_rate: float | None = None) -> Source:
    """What is known of a method that drafts and of which nobody says more, as `optimize` takes it.

    Args:
        method: slug of --method.
        model: target.
        match_rate: share of steps with a proposal, where a figure counts only those.

    Raises:
        InputError: neither recorded nor published; what to write.
    """
    try:
        return known_source(method, model, match_rate=match_rate)
    except InputError:
        raise acceptance_missing(method) from None


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
    drafting = _asks_for_drafts(chosen if file else None, options)
    source = one_source(
        accepted, trace, lengths=lengths or (), drafts=drafting and not file, **source_options
    )
    if source is None and file:
        if options.get("method") and chosen.trace is not None:
            return chosen, one_source(accepted, Path(chosen.trace), **source_options)
        if (configured := configured_source(chosen)) is not None or not drafting:
            return chosen, configured
        source = one_source(
            accepted, None, drafts=True, **source_options | {"method": chosen.method}
        )
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


def _asks_for_drafts(chosen: DecodingConfiguration | None, options: Mapping[str, Any]) -> bool:
    """Whether anything is drafted by the configuration of a file or by options over it."""
    if options.get("shape") is not None:
        return any(shape.drafts for shape in read_shapes(options["shape"], key="--shape"))
    if options.get("tree") is not None:
        return True
    lengths = options.get("draft_tokens")
    if lengths is None:
        return chosen is None or chosen.speculates
    return any(lengths)


def _replays_masked(chosen: DecodingConfiguration, accepted: AcceptanceOptions) -> bool:
    """Whether a configuration names a confidence trace, and options state nothing in its place."""
    stated = (
        accepted.drafter or accepted.acceptance is not None or accepted.tokens_per_step is not None
    )
    return not stated and chosen.trace is not None and is_confidence(trace_file(chosen.trace))


def stated_acceptance(
    accepted: AcceptanceOptions, trace: str | None, draft_tokens: int | None
) -> dict[str, Any]:
    """Keys of a scenario for what options state of acceptance; None where one was not given.

    Args:
        accepted: the options.
        trace: of --trace.
        draft_tokens: of --draft-tokens.

    Raises:
        InputError: several drafters, or a trace that has no drafts.
    """
    if trace is not None:
        _check_masked(trace, {"--draft-tokens": draft_tokens, "--match-rate": accepted.match_rate})
    rates = None if accepted.acceptance is None else list(accepted.acceptance)
    known = {"trace": trace, "acceptance": rates, "tokens_per_step": accepted.tokens_per_step}
    several = sum(value is not None for value in known.values()) + len(accepted.drafter or ())
    if several > 1:
        options = "--trace, --acceptance, --tokens-per-step and --drafter"
        raise InputError(f"one drafter is taken here, by one of {options}", value=several)
    return {
        f"speculation.{key}": value
        for key, value in {**known, "match_rate": accepted.match_rate}.items()
    }


def drafter_values(
    accepted: AcceptanceOptions,
    method: str,
    drafted: Mapping[str, Any],
    stated: Mapping[str, Any],
    *,
    model: str,
) -> tuple[dict[str, Any], Source | None]:
    """Keys of a scenario's speculation for the drafter that options name, by --drafter or by a method
    alone, and where its acceptance is known from; none where nothing is drafted or all is stated.

    Args:
        accepted: the options; --drafter goes over what the scenario says.
        method: of --method; empty where it was not given.
        drafted: keys of the speculation.
        stated: those of them that options state.
        model: target, for published figures.

    Raises:
        InputError: as `one_source`, or a drafter that contradicts what is stated of it.
    """
    draft_tokens = drafted.get("draft_tokens")
    if accepted.drafter:
        source = one_source(
            accepted, None, model=model, lengths=[draft_tokens] if draft_tokens else ()
        )
        assert source is not None
    elif (
        draft_tokens == 0
        or any(drafted.get(key) is not None for key in KNOWN_BY)
        or not method
        or not load_method(method).drafts
    ):
        return {}, None
    else:
        source = known_of(method, model, match_rate=accepted.match_rate)
    own = {name: stated[name] for name in _OWN_DRAFTER if stated.get(name) is not None}
    (source,) = competing(
        DecodingConfiguration(
            deployment=DeploymentNames(model=model), draft_model=stated.get("draft"), **own
        ),
        [source],
    )
    values: dict[str, Any] = {
        **dict.fromkeys(KNOWN_BY),
        "method": source.method,
        "match_rate": source.match_rate,
    }
    if source.draft_model is not None:
        values["draft"] = source.draft_model
    if source.path is not None:
        return values | {"trace": source.recorded_as}, source
    if source.rates is None:
        return values | {"tokens_per_step": source.own_tokens_per_step}, source
    if source.rates.tokens_per_step is not None and draft_tokens in (None, source.rates.measured):
        published = {
            "tokens_per_step": source.rates.tokens_per_step,
            "draft_tokens": source.rates.measured,
        }
        return values | published, source
    known_to = {"known_tokens": source.known_tokens}
    return values | {"acceptance": list(source.rates.by_depth)} | known_to, source


def acceptance_missing(method: str, model: str = "") -> InputError:
    """The refusal of drafts of which nothing says what is accepted: what to write instead.

    Args:
        method: slug of --method; one that does not draft, or "", where none was named.
        model: target; empty: unknown.
    """
    if decodes_blocks(model):
        rule = (
            f"must be one that refines masked blocks, since {model} decodes no other way: --method"
            " fast-dllm takes its published tokens per pass, and --draft-tokens 0 decodes one token"
            " a pass"
        )
        return InputError(rule, key="--method", value=method or None)
    if not method or not load_method(method).drafts:
        return InputError(
            "exactly one of --trace, --acceptance, --tokens-per-step and --drafter is needed where"
            " anything is drafted: --drafter eagle-3 takes what was published of it, and"
            " --draft-tokens 0 decodes plainly"
        )
    rule = (
        "nothing says what is accepted: state it by --acceptance, --tokens-per-step or --trace;"
        " neither a recording nor a figure of its chains was published"
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
