"""`optimize` of a method that refines masked blocks: which threshold, block and cache, at a floor
of quality.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from app.answers.cells import cells_of, runnable
from app.answers.masked.rows import (
    MaskedPolicies,
    MaskedPolicy,
    MaskedQuality,
    PayingPolicy,
    PricedPolicy,
    UnmetFloor,
)
from app.answers.masked.search import paying_policies, searched_policies
from app.answers.progress import progress_line
from app.questions.field import fields_of, inputs_of, refuse
from app.questions.groups import (
    AcceptanceOptions,
    OutputOptions,
    RefiningOptions,
    StoredOptions,
    names_in,
    values_in,
)
from app.questions.optimize import DEFAULT_FLOOR, OptimizeQuestion
from app.questions.resolve.chosen_configuration import configuration_of
from app.questions.resolve.refining import (
    MOST_POLICIES,
    stated_caches,
    stated_rules,
)
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from costmodel.optimizers.refining.grid import policy_grid
from costmodel.optimizers.refining.search import (
    ESTIMATED,
    QUALITY,
    RefiningSearch,
    anchors_by_cache,
    search_policies,
)
from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import RefinePolicy
from traces.library import trace_file, trace_name
from traces.replay.confidence.anchors import Anchors
from traces.storage.confidence_file import read_confidence

DEFAULT_MODEL = "llada-8b"
_TAKEN = {
    *names_in(StoredOptions),
    *names_in(RefiningOptions),
    *names_in(OutputOptions),
    *("model", "method", "trace", "batch", "context", "quality_floor"),
    *("pp", "ep", "dp", "fidelity", "seed"),
}
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        {field.name for field in fields_of(OptimizeQuestion)} - _TAKEN,
        "is no part of a search over masked blocks",
    ),
    "draft_tokens": "masked blocks have no draft tokens; --block states their size",
    "stop": "ends drafts, and masked blocks have none",
    "slo_ttft_s": "is not a limit of this search; `rooftree simulate` answers for first tokens",
    "slo_tpot_s": "is not a limit of this search; --quality-floor is",
    "draft": "masked blocks are drafted by no other model",
    "exit_layer": "masked blocks are drafted by no part of the model",
}


class _Recordings(NamedTuple):
    """Confidence traces by the cache that they were recorded with.

    Attributes:
        anchors: what was recorded.
        names: of the only recording of a cache; None where it has several.
    """

    anchors: Mapping[str, Anchors]
    names: Mapping[str, str | None]


def answer(question: OptimizeQuestion) -> MaskedPolicies:
    """The fastest policy that meets the floor at every batch and context of every model, device and
    engine, and all others.

    Raises:
        InputError: an option that this search does not take, no confidence trace, options out of
            range, or a single policy that cannot be answered for.
    """
    accepted = (
        "is not searched over: a confidence trace (--trace) says what policies of"
        f" {question.method} commit"
    )
    refuse(question, {**_REFUSED, **dict.fromkeys(names_in(AcceptanceOptions), accepted)})
    method = question.method
    model = question.model or DEFAULT_MODEL
    batches, contexts = question.batch, question.context
    floor = DEFAULT_FLOOR if question.quality_floor is None else question.quality_floor
    placed = values_in(StoredOptions, question) | {
        "method": method,
        "pp": question.pp,
        "ep": question.ep,
        "dp": question.dp,
        "fidelity": question.fidelity,
    }
    cells = [
        (cell, configuration_of(None, placed | cell))
        for cell in cells_of(question.values | {"model": model})
    ]
    recorded = _recordings(question.trace or ())
    policies = _policies(question, method, recorded.anchors)
    choices: list[PricedPolicy] = []
    alternatives: list[MaskedPolicy] = []
    unmet: list[UnmetFloor] = []
    pays: list[PayingPolicy] = []
    with progress_line(question.quiet) as progress:

        def searched(cell: tuple[dict[str, str], DecodingConfiguration]) -> RefiningSearch:
            return search_policies(
                replace(cell[1], canvas_tokens=question.canvas),
                recorded.anchors,
                policies,
                batches=batches,
                contexts=contexts,
                floor=floor,
                seed=question.seed,
                progress=progress,
            )

        for (names, _), search in runnable(cells, searched):
            if isinstance(search, str):
                where: dict[str, Any] = {**names, "reason": search}
                unmet += [
                    UnmetFloor(**where, batch=b, context=c) for c in contexts for b in batches
                ]
                continue
            rows = searched_policies(search, recorded.names, question.seed)
            choices += rows.choices
            alternatives += rows.alternatives
            unmet += rows.unmet
            pays += paying_policies(search, question.seed)
    first = next(iter(recorded.anchors.values()))
    return MaskedPolicies(
        inputs=inputs_of(
            question,
            model=model,
            method=method,
            trace=[str(path) for path in question.trace or ()],
            quality_floor=floor,
        ),
        quality=MaskedQuality(
            floor=floor,
            definition=QUALITY,
            remark=ESTIMATED,
            prompts={cache: len(pool.prompts) for cache, pool in recorded.anchors.items()},
            canvas_tokens=question.canvas or first.canvas_tokens,
            policies=len(policies),
        ),
        choices=choices,
        alternatives=alternatives,
        unmet=unmet,
        pays=pays,
    )


def _recordings(paths: Sequence[Path]) -> _Recordings:
    """What --trace names.

    Raises:
        InputError: no trace, or one that is no confidence trace.
    """
    if not paths:
        raise InputError(
            "needed for masked blocks: a confidence trace (`rooftree record --masked`)",
            key="--trace",
        )
    files = [trace_file(path) for path in paths]
    traces = [read_confidence(file) for file in files]
    names: dict[str, str | None] = {}
    for file, trace in zip(files, traces, strict=True):
        cache = trace.policies[0].cache
        names[cache] = None if cache in names else trace_name(file)
    return _Recordings(anchors=anchors_by_cache(traces), names=names)


def _policies(
    question: OptimizeQuestion, method: str, recorded: Mapping[str, Anchors]
) -> list[RefinePolicy]:
    """The policies that options state, and the usual ones of what they leave open.

    Raises:
        InputError: options out of range, or more policies than are searched.
    """
    policies = policy_grid(
        method_policy(load_method(method)),
        recorded,
        rules=stated_rules(question.commit, usual=True),
        blocks=question.block or (),
        caches=stated_caches(question.cache),
    )
    if len(policies) > MOST_POLICIES:
        raise InputError(
            f"must be at most {MOST_POLICIES} policies together",
            key="--commit",
            value=len(policies),
        )
    return policies
