"""`optimize` of a method that refines masked blocks: which threshold, block and cache, at a floor
of quality.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.output import Answered
from app.questions.groups import AcceptanceOptions, RefiningOptions
from app.questions.optimize import DEFAULT_FLOOR

if TYPE_CHECKING:
    from costmodel.configuration import DecodingConfiguration
    from costmodel.optimizers.refining.search import RefiningSearch
    from traces.kinds.refine_policy import RefinePolicy
    from traces.replay.confidence.anchors import Anchors

Row = dict[str, Any]
DEFAULT_MASKED_MODEL = "llada-8b"
REFUSED = {
    "draft_tokens": "masked blocks have no draft tokens; --block states their size",
    "stop": "ends drafts, and masked blocks have none",
    "slo_ttft": "is not a limit of this search; `rooftree simulate` answers for first tokens",
    "slo_tpot": "is not a limit of this search; --quality-floor is",
    "draft": "masked blocks are drafted by no other model",
    "exit_layer": "masked blocks are drafted by no part of the model",
}


@dataclass(frozen=True, kw_only=True)
class RefiningQuestion:
    """What a search is asked, beside models and devices.

    Args:
        method: slug of a method that refines masked blocks.
        traces: confidence traces.
        refining: rules, blocks, caches and canvas.
        batches: requests.
        contexts: cached tokens per request before the canvas.
        floor: least agreement with one token a pass.
        seed: of intervals.
    """

    method: str
    traces: Sequence[Path]
    refining: RefiningOptions
    batches: list[int]
    contexts: list[int]
    floor: float
    seed: int


def refuse_drafting(given: Mapping[str, Any], accepted: AcceptanceOptions) -> None:
    """Refuse options that belong to drafts which are verified.

    Raises:
        InputError: naming the first that was given.
    """
    from hardware_profiles.errors import InputError

    for name, rule in REFUSED.items():
        if given.get(name):
            raise InputError(rule, key=f"--{name.replace('_', '-')}", value=given[name])
    for name in ("acceptance", "tokens_per_step", "drafter", "match_rate"):
        if getattr(accepted, name) is not None:
            rule = (
                "is not searched over: a confidence trace (--trace) says what policies of"
                f" {given['method']} commit"
            )
            raise InputError(rule, key=f"--{name.replace('_', '-')}", value=getattr(accepted, name))


def optimize_refining(
    options: Mapping[str, Any],
    refining: RefiningOptions,
    traces: Sequence[Path],
    floor: float | None,
    deliver_as: Row,
) -> Answered:
    """Answer `optimize` where its options name a method that refines masked blocks.

    Args:
        options: on the command line: where it runs, `method`, `batch`, `context` and `seed`.
        refining: rules, blocks, caches and canvas.
        traces: confidence traces.
        floor: least agreement with one token a pass; None: `DEFAULT_FLOOR`.
        deliver_as: `json`, `out`, `csv` and `quiet`.

    Raises:
        InputError: as `_searched`.
    """
    from app.answers.cells import cells_of
    from app.questions.resolve.asked import asked
    from app.questions.values import method_slug, whole_numbers

    options = {
        **options,
        "method": method_slug(options["method"], "--method"),
        "model": options["model"] or DEFAULT_MASKED_MODEL,
    }
    about = RefiningQuestion(
        method=options["method"],
        traces=traces,
        refining=refining,
        seed=options["seed"],
        batches=whole_numbers(options["batch"], "--batch", least=1),
        contexts=whole_numbers(options["context"], "--context", least=0),
        floor=DEFAULT_FLOOR if floor is None else floor,
    )
    placed = {
        key: value
        for key, value in options.items()
        if key not in ("model", "batch", "context", "seed")
    }
    questions = [(cell, asked(None, {**placed, **cell})) for cell in cells_of(options)]
    inputs = {**options, "trace": [str(path) for path in traces], **asdict(refining)}
    return _searched(about, questions, inputs, deliver_as)


def _searched(
    asked: RefiningQuestion,
    cells: "Sequence[tuple[dict[str, str], DecodingConfiguration]]",
    inputs: Row,
    deliver_as: Row,
) -> Answered:
    """Search every cell, and hand the answer over.

    Args:
        asked: what is searched.
        cells: models, devices and engines, each with its question.
        inputs: what was asked, as the answer repeats it.
        deliver_as: `json`, `out`, `csv` and `quiet`.

    Raises:
        InputError: no confidence trace, options out of range, or a single policy that cannot be
            answered for.
    """
    from app.answers.cells import require_one, runnable
    from app.answers.refining import paying_rows, search_rows
    from app.cli.output import deliver
    from app.cli.progress import progress_line
    from app.cli.shown.refining import print_search
    from costmodel.optimizers.refining.search import ESTIMATED, QUALITY, search_policies

    recorded, names = _recorded(asked.traces)
    policies = _policies(asked, recorded)
    with progress_line(deliver_as["quiet"]) as progress:

        def searched(cell: "tuple[dict[str, str], DecodingConfiguration]") -> "RefiningSearch":
            return search_policies(
                replace(cell[1], canvas_tokens=asked.refining.canvas),
                recorded,
                policies,
                batches=asked.batches,
                contexts=asked.contexts,
                floor=asked.floor,
                seed=asked.seed,
                progress=progress,
            )

        found = runnable(cells, searched)
        rows: dict[str, list[Row]] = {"choices": [], "alternatives": [], "unmet": [], "pays": []}
        for (cell, _), answer in found:
            if isinstance(answer, str):
                at = [{"batch": b, "context": c} for c in asked.contexts for b in asked.batches]
                rows["unmet"] += [
                    {**cell, "feasible": False, "reason": answer, **each} for each in at
                ]
                continue
            for key, more in search_rows(answer, names, asked.seed).items():
                rows[key] += more
            rows["pays"] += paying_rows(answer, asked.seed)
    anchors = next(iter(recorded.values()))
    prompts = {cache: len(each.prompts) for cache, each in recorded.items()}
    quality = {
        "floor": asked.floor,
        "definition": QUALITY,
        "remark": ESTIMATED,
        "prompts": prompts,
        "canvas_tokens": asked.refining.canvas or anchors.canvas_tokens,
        "policies": len(policies),
    }
    body: Row = {
        "inputs": inputs | {"quality_floor": asked.floor},
        "quality": quality,
        **rows,
        "schedules": [],
    }
    delivered = deliver(
        body,
        name="recommendation",
        show=lambda: print_search(body),
        also=lambda folder: _write(body, folder),
        rows=["choices", "alternatives", "unmet"],
        **deliver_as,
    )
    require_one([*body["choices"], *body["unmet"]])
    return delivered


def _recorded(paths: Sequence[Path]) -> "tuple[dict[str, Anchors], dict[str, str | None]]":
    """Anchors by cache, and the name of the only recording of a cache.

    Raises:
        InputError: no trace, or one that is no confidence trace.
    """
    from costmodel.optimizers.refining.search import anchors_by_cache
    from hardware_profiles.errors import InputError
    from traces.library import trace_file, trace_name
    from traces.storage.confidence_file import read_confidence

    if not paths:
        raise InputError(
            "needed for masked blocks: a confidence trace (`rooftree record --masked`)",
            key="--trace",
        )
    files = [trace_file(path) for path in paths]
    traces = [read_confidence(file) for file in files]
    recorded = anchors_by_cache(traces)
    of_cache = {
        cache: [
            file
            for file, trace in zip(files, traces, strict=True)
            if trace.policies[0].cache == cache
        ]
        for cache in recorded
    }
    return recorded, {
        cache: trace_name(own[0]) if len(own) == 1 else None for cache, own in of_cache.items()
    }


def _policies(asked: RefiningQuestion, recorded: "Mapping[str, Anchors]") -> "list[RefinePolicy]":
    """The policies that options state, and the usual ones of what they leave open.

    Raises:
        InputError: options out of range, or more policies than are searched.
    """
    from app.questions.resolve.refining import (
        MOST_POLICIES,
        stated_blocks,
        stated_caches,
        stated_rules,
    )
    from costmodel.laws.refined_method import method_policy
    from costmodel.method_library import load_method
    from costmodel.optimizers.refining.grid import policy_grid
    from hardware_profiles.errors import InputError

    own, stated = method_policy(load_method(asked.method)), asked.refining
    found = policy_grid(
        own,
        recorded,
        rules=stated_rules(stated.commit, usual=True),
        blocks=stated_blocks(stated.block),
        caches=stated_caches(stated.cache),
    )
    if len(found) > MOST_POLICIES:
        raise InputError(
            f"must be at most {MOST_POLICIES} policies together", key="--commit", value=len(found)
        )
    return found


def _write(body: Row, folder: Path) -> None:
    """The first choice as a configuration, and the report where it can be drawn."""
    from app.questions.places import plots_available
    from app.render.json import write_json

    if body["choices"]:
        write_json(body["choices"][0]["configuration"], folder / "configuration.json")
    if plots_available():
        from app.render.html.refining_page import write_refining_page

        write_refining_page(body, folder / "report.html")
