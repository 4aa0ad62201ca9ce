"""`predict`: step time, tokens per second and speedup of stated configurations, with intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from app.answers.answer import Answer
from app.answers.breakeven.rows import twin_words
from app.answers.cells import MarkedCell, cells_of, marked, runnable
from app.answers.drafting import drafting
from app.answers.drafting_cost import DraftingCost, drafting_cost
from app.answers.estimates import acceptance, cost, phases, point, uncertain_terms
from app.answers.explanations import ExplainedStep, explained_step, roofs_of
from app.answers.feasible import Settings, require_cell, settings_of
from app.answers.planned import planned_answer
from app.answers.predict.rows import PredictionRow, Predictions
from app.answers.scoring.certainty import Certainty, how_sure
from app.questions.field import inputs_of, refuse
from app.questions.predict import PredictQuestion
from app.questions.resolve.accepted import (
    acceptance_missing,
    asked_source,
    lengths_for,
    numbers_words,
    undrafted,
)
from app.questions.resolve.chosen_configuration import (
    ComparedShapes,
    configuration_of,
    drafts_of,
    with_options,
)
from app.questions.resolve.configurations import plain as plain_decoding
from app.questions.resolve.limits import asked_limits, refuse_percentiles, refuse_whole_requests
from costmodel.answers.estimate import (
    Setting,
    estimate,
    intervals,
    step_cost,
    throughput_speedup,
)
from costmodel.answers.explain import explain
from costmodel.answers.positions import context_remark, require_positions
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import StepCost
from costmodel.answers.workload import Limits, RequestTimes
from costmodel.configuration import DecodingConfiguration
from costmodel.configuration.file import points_of
from costmodel.draft_shape import shape_of
from costmodel.laws.acceptance import Acceptance, geometric
from costmodel.optimizers.candidates.asked_shapes import shape_acceptances
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.pricing import first_token_s
from hardware_profiles.errors import InfeasibleError, InputError

_USUAL = [0, 3, 5]


class _Wanted(NamedTuple):
    """What rows say beside the step: throughput of requests of mean prompt and output, where the
    time goes, whether limits of latency are met, and within which bounds a replay puts a policy's
    tokens per pass.
    """

    whole: tuple[float, float] | None
    seed: int
    explain: bool
    limits: Limits
    pace: tuple[float, float] | None


class _Cell(NamedTuple):
    """What rows of a configuration share: settings of it placed elsewhere, and plain steps by batch
    and context.
    """

    configuration: DecodingConfiguration
    setting: Setting
    settings: Settings
    plain: Callable[[int, int], StepCost]


def answer(question: PredictQuestion) -> Answer:
    """Cost every combination of batch, context and draft length, or every row of a table.

    Raises:
        InputError: a value that makes no sense, or nothing that says what is accepted.
    """
    question = undrafted(question)
    if question.table is not None:
        # the serving loop behind it is compiled code that other questions need not load
        from app.answers.predict.table import answer_table

        return answer_table(question)
    refuse(question, {"launch": "goes with --table, whose rows were measured somewhere"})
    stated = question.stated_values
    batches, contexts = question.batch, question.context
    cells = cells_of(stated)
    chosen = configuration_of(
        question.config, stated | cells[0], batch=batches[0] if "batch" in stated else None
    )
    if not chosen.deployment.model:
        raise InputError("Missing option '--model'; see `rooftree predict --help`")
    chosen, source = asked_source(chosen, question, stated)
    refuse_whole_requests(question)
    refuse_percentiles(
        question,
        "percentiles come from a load of requests: `rooftree simulate` and `rooftree capacity`"
        " answer them",
    )
    limits = asked_limits(question)
    pace = None if source is None else source.own_tokens_interval
    wanted = _Wanted(_whole(source, question), question.seed, question.explain, limits, pace)
    if question.config is not None:
        # a schedule is of all batches of its file, another choice of its own
        own_batches, own_contexts = points_of(question.config)
        if "batch" not in stated:
            batches = own_batches or batches if chosen.batch is None else (chosen.batch,)
        if "context" not in stated:
            contexts = own_contexts or contexts if chosen.context is None else (chosen.context,)
    grid = (batches, contexts)
    configured = chosen if question.config is not None else None
    drafts = _drafts(configured, stated, batches, source, chosen.deployment.model)
    settings = runnable(cells, lambda cell: build_setting(with_options(chosen, cell)))
    # where a method is looked up, every model takes what suits it best
    looked_up = source is not None and source.looked_up
    rows: list[PredictionRow | MarkedCell] = []
    configurations: list[Acceptance] = []
    sure: list[Certainty] = []
    costs: list[DraftingCost] = []
    for cell, setting in settings:
        configuration = with_options(chosen, cell)
        cell_source = (
            asked_source(configuration, question, stated)[1]
            if looked_up and len(cells) > 1
            else source
        )
        # a goodput controller alone weighs the seconds of a setting
        if not isinstance(setting, str) and (
            not configurations or cell_source is not source or drafts.weighs_seconds
        ):
            configurations = _configurations(cell_source, drafts, question.seed, (setting, *grid))
        rows += _rows(configuration, setting, configurations, drafts, grid, wanted)
        if not isinstance(setting, str):
            sure.append(
                how_sure(configuration.deployment, cell_source, context_tokens=max(contexts))
            )
            costs += _costs(setting, configurations, batches[0], contexts[0])
    able = [setting for _, setting in settings if not isinstance(setting, str)]
    listed = {name: ",".join(dict.fromkeys(cell[name] for cell in cells)) for name in cells[0]}
    return Predictions(
        inputs=_inputs(question, chosen, able, source)
        | {"batch": ",".join(map(str, batches)), "context": ",".join(map(str, contexts))}
        | listed,
        acceptance=None if source is None else acceptance(source, configurations),
        baseline=_baseline(able[0]),
        predictions=rows,
        drafting_costs=costs,
        how_sure=sure,
        remarks=numbers_words(source, configurations),
        roofs=roofs_of(able[0]),
        limits=limits,
    )


def _baseline(setting: Setting) -> str:
    """What speedups are against: of masked blocks a decoder that nobody serves, as it is priced."""
    if setting.drafter.method.refine is None:
        return "no speculation"
    return f"the autoregressive twin, {twin_words('')}"


def _costs(
    setting: Setting, configurations: Sequence[Acceptance], batch: int, context: int
) -> list[DraftingCost]:
    """What the longest draft costs beside time; none where nothing is drafted."""
    longest = max(configurations, key=lambda a: a.draft_tokens)
    step_s = float(step_cost(setting, longest, batch=batch, context=context).total_s)
    cost = drafting_cost(setting, longest, batch=batch, context=context, step_s=step_s)
    return [] if cost is None else [cost]


def _inputs(
    question: PredictQuestion,
    chosen: DecodingConfiguration,
    settings: Sequence[Setting],
    source: Source | None,
) -> dict[str, Any]:
    """What was asked, with names as the configuration has them."""
    where = chosen.deployment
    policy = (
        {}
        if chosen.refine is None
        else {"refine": chosen.refine.as_json(), "canvas_tokens": chosen.canvas_tokens}
    )
    return inputs_of(
        question,
        model=where.model,
        device=where.device,
        engine=where.engine,
        method=chosen.method,
        draft=chosen.draft_model,
        trace=chosen.trace,
        drafter=question.drafter or [],
        match_rate=chosen.match_rate,
        tp=where.tensor_parallel,
        pp=where.pipeline_parallel,
        ep=where.expert_parallel,
        dp=where.data_parallel,
        cp=where.context_parallel,
        shared_prefix=where.shared_prefix_tokens,
        host_weights=where.host_weights_ratio,
        max_loras=where.max_loras,
        max_lora_rank=where.max_lora_rank,
        fidelity=where.fidelity,
        set=list(where.overrides),
        dtype=",".join(dict.fromkeys(s.deployment.precision.label for s in settings)),
        borrowed=_borrowed(source, settings),
        transform=list(where.transforms),
        **policy,
    )


def _whole(source: Source | None, question: PredictQuestion) -> tuple[float, float] | None:
    """Mean prompt and output of the requests whose throughput is asked about; None where it is not.

    Raises:
        InputError: one length without the other, or none to be had.
    """
    prompt, output = question.prompt, question.output
    if prompt is not None and output is not None:
        return prompt, output
    if prompt is not None or output is not None:
        raise InputError("--prompt-tokens and --output-tokens go together")
    if not question.include_prefill:
        return None
    if source is None or source.positions is None:
        raise InputError(
            "--include-prefill takes its lengths from a --trace of recorded requests; or"
            " --prompt-tokens, --output-tokens"
        )
    recorded = source.positions
    return max(float(recorded.prompt_tokens.mean()), 1.0), float(recorded.output_tokens.mean())


def _rows(
    configuration: DecodingConfiguration,
    setting: Setting | str,
    configurations: Sequence[Acceptance],
    drafts: ComparedShapes,
    grid: tuple[Sequence[int], Sequence[int]],
    wanted: _Wanted,
) -> list[PredictionRow | MarkedCell]:
    """Rows of one cell at every context and batch; its reason at each where it cannot run."""
    batches, contexts = grid
    if isinstance(setting, str):
        return [
            MarkedCell(**_names(configuration, b, c), reason=setting)
            for c in contexts
            for b in batches
        ]
    cell = _cell(configuration, setting)
    return [
        _row(cell, a, b, c, wanted)
        for c in contexts
        for b in batches
        for a in configurations
        if a.holds_at in (None, (b, c)) and drafts.belongs(a.draft_tokens, b)
    ]


def _drafts(
    chosen: DecodingConfiguration | None,
    options: Mapping[str, Any],
    batches: Sequence[int],
    source: Source | None,
    model: str,
) -> ComparedShapes:
    """What is compared: as a file and options say, else the usual lengths within what is known of
    the drafter.

    Raises:
        InputError: something is drafted and nothing says what is accepted of it.
    """
    drafts = drafts_of(chosen, options, batches, source, lengths_for(source, None, _USUAL))
    if source is None and any(shape.drafts for shape in drafts.shapes):
        named = options.get("method") or "" if chosen is None else chosen.method
        raise acceptance_missing(named, model)
    return drafts


def _configurations(
    source: Source | None,
    drafts: ComparedShapes,
    seed: int,
    weighed: tuple[Setting, Sequence[int], Sequence[int]],
) -> list[Acceptance]:
    if source is None:
        return plain_decoding()
    generator = np.random.default_rng(seed)
    return shape_acceptances(source, drafts.shapes, generator=generator, weighed=weighed)


def _names(configuration: DecodingConfiguration, batch: int, context: int) -> dict[str, Any]:
    where = configuration.deployment
    return {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "batch": batch,
        "context": context,
    }


def _cell(configuration: DecodingConfiguration, setting: Setting) -> _Cell:
    @lru_cache(maxsize=1)
    def plain(batch: int, context: int) -> StepCost:
        return step_cost(setting, geometric(0.0, 0), batch=batch, context=context)

    return _Cell(configuration, setting, settings_of(configuration), plain)


def _row(
    cell: _Cell, a: Acceptance, batch: int, context: int, wanted: _Wanted
) -> PredictionRow | MarkedCell:
    """A prediction, or the mark of a cell that does not fit."""
    require_positions(cell.setting.target, context)
    row = {
        **_names(cell.configuration, batch, context),
        "draft": str(shape_of(a)),
        "draft_tokens": a.draft_tokens,
    }
    try:
        require_cell(cell.configuration, cell.setting, a, batch=batch, context=context)
    except InfeasibleError as error:
        mark = marked(
            cell.configuration, a, str(error), batch=batch, context=context, settings=cell.settings
        )
        return MarkedCell(**row, **mark)
    return PredictionRow(**row, **_point(cell, a, batch, context, wanted))


def _point(cell: _Cell, a: Acceptance, batch: int, context: int, wanted: _Wanted) -> dict[str, Any]:
    setting = cell.setting
    beyond = context_remark(setting.target, context)
    result = estimate(setting, a, batch=batch, context=context, plain=cell.plain(batch, context))
    spread = intervals(setting, result, batch=batch, generator=np.random.default_rng(wanted.seed))
    row = {
        "breakdown_s": phases(result),
        "tokens_per_step": a.tokens_per_step,
        "proposal_ratio": a.proposal_ratio,
        **point(result, spread),
        **cost(setting, result, batch=batch, context=context),
        "limit": str(result.step.limit),
        "rule": a.rule or None,
        "remark": "; ".join(filter(None, (a.remark, beyond, setting.deployment.unpriced_adapters))),
        **drafting(a),
        "dominant_uncertainty": uncertain_terms(setting, result),
    }
    row["tpot_s"] = float(result.step_s) / a.tokens_per_step
    if wanted.pace is not None and a.draft_tokens:
        row["tokens_per_step_interval"] = wanted.pace
    if wanted.limits.limited:
        first = first_token_s(setting, a, result.step_s, batch, context)
        row["ttft_s"] = float(first)
        row["meets_limits"] = bool(
            wanted.limits.met(RequestTimes(ttft_s=first, tpot_s=row["tpot_s"], e2e_s=np.nan))
        )
    if wanted.whole is not None:
        prompt, output = wanted.whole
        overall = throughput_speedup(
            setting, a, batch=batch, prompt_tokens=prompt, output_tokens=output
        )
        scale = float(overall) / row["speedup"]
        row |= {
            "throughput_speedup": float(overall),
            "throughput_speedup_interval": [scale * bound for bound in row["speedup_interval"]],
            "mean_prompt_tokens": prompt,
            "mean_output_tokens": output,
        }
    if setting.plan is not None:
        row["plan"] = planned_answer(setting, a, setting.plan, batch=batch, context=context)
    if wanted.explain:
        row["explain"] = _explained(setting, a, batch, context, wanted.seed)
    return row


def _explained(
    setting: Setting, a: Acceptance, batch: int, context: int, seed: int
) -> ExplainedStep:
    """Where the time of a step goes; under a plan, of one tensor group's."""
    return explained_step(
        explain(
            replace(setting, plan=None),
            a,
            batch=batch,
            context=context,
            generator=np.random.default_rng(seed),
        )
    )


def _borrowed(source: Source | None, settings: Sequence[Setting]) -> bool | None:
    """Whether the acceptance is another model's than any that is asked about; None where it is
    stated.
    """
    if source is None or source.kind == "stated":
        return None
    return any(source.asked_on(setting.target.name).borrowed for setting in settings)
