"""`predict`: step time, tokens per second and speedup of stated configurations, with intervals."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from app.answers.cells import cells_of, marked, require_one, runnable
from app.cli.output import Answered
from app.questions.field import Field, Group, Stated
from app.questions.fields import (
    Batch,
    Config,
    Context,
    ContextGroup,
    Csv,
    Data,
    DraftShapes,
    Expert,
    Fidelity,
    Json,
    MethodOrTraces,
    Model,
    Out,
    Pipeline,
    Quiet,
    Seed,
    StopRule,
    Trace,
    TreeFile,
)
from app.questions.groups import AcceptanceOptions, DraftingOptions, RefiningOptions, StoredOptions
from app.questions.resolve.accepted import as_given, asked_source, lengths_for, numbers_words
from app.questions.values import whole_numbers

if TYPE_CHECKING:
    from app.answers.feasible import Settings
    from app.questions.resolve.asked import ComparedShapes
    from costmodel.answers.estimate import Setting
    from costmodel.answers.steps.step import StepCost
    from costmodel.configuration import DecodingConfiguration
    from costmodel.laws.acceptance import Acceptance
    from costmodel.optimizers.drafters.sources import Source

_SOURCES = (
    "exactly one of --trace, --acceptance, --tokens-per-step and --drafter is needed where anything"
    " is drafted"
)
_USUAL = [0, 3, 5]


class _Wanted(NamedTuple):
    """What rows say beside the step: throughput of requests of mean prompt and output, and where
    the time goes.
    """

    whole: tuple[float, float] | None
    seed: int
    explain: bool


class _Cell(NamedTuple):
    """What rows of a configuration share: settings of it placed elsewhere, and plain steps by batch
    and context.
    """

    asked: "DecodingConfiguration"
    setting: "Setting"
    settings: "Settings"
    plain: "Callable[[int, int], StepCost]"


def predict(
    stated: Stated,
    placed: StoredOptions,
    drafting: DraftingOptions,
    accepted: AcceptanceOptions,
    refining: RefiningOptions,
    model: Model = "",
    table: Annotated[
        Path | None,
        Field(
            "Parquet, CSV or JSON Lines of serving runs: answer TTFT and TPOT of every row.",
            Group.WORKLOAD,
        ),
    ] = None,
    config: Config = None,
    method: MethodOrTraces = "",
    trace: Trace = None,
    tree: TreeFile = None,
    shape: DraftShapes = None,
    stop: StopRule = "",
    batch: Batch = "1,8,64",
    context: Context = "1024",
    draft_tokens: Annotated[
        str, Field("Draft tokens K, comma-separated.", Group.DRAFTING)
    ] = "0,3,5",
    include_prefill: Annotated[
        bool,
        Field(
            (
                "Speedup of throughput too, prompts included, for requests of the trace's mean"
                " lengths."
            ),
            Group.SEARCH,
        ),
    ] = False,
    prompt: Annotated[
        float | None,
        Field(
            "Mean prompt tokens: speedup of throughput too, beside that of a step.",
            Group.WORKLOAD,
            spelled="--prompt-tokens",
            also="--prompt",
            least=1.0,
        ),
    ] = None,
    output: Annotated[
        float | None,
        Field(
            "Mean output tokens; goes with --prompt-tokens.",
            Group.WORKLOAD,
            spelled="--output-tokens",
            also="--output",
            least=1.0,
        ),
    ] = None,
    explain: Annotated[
        bool,
        Field(
            "Say where each step's time goes and what would move it; a page with --out.",
            Group.OUTPUT,
        ),
    ] = False,
    pp: Pipeline = 1,
    ep: Expert = 1,
    dp: Data = 1,
    cp: ContextGroup = 1,
    fidelity: Fidelity = "calibrated",
    transform: Annotated[
        str,
        Field("Compression and skipped layers by name, comma-separated, in order.", Group.DRAFTING),
    ] = "",
    out: Out = None,
    csv: Csv = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> Answered:
    """Cost every combination of batch, context and draft length; K=0 is plain decoding."""
    if table is not None:
        from app.cli.verbs.predict_table import predict_table, refuse_others

        refuse_others(stated.values)
        return predict_table(table, json=json, out=out, csv=csv, quiet=quiet, seed=seed)
    from app.answers.optimize import acceptance
    from app.cli.output import deliver
    from app.cli.shown.predict import print_predictions
    from app.questions.resolve.asked import asked, with_options
    from app.render.text import say
    from costmodel.answers.settings import build_setting
    from hardware_profiles.errors import InputError

    given = stated.given
    batches = whole_numbers(batch, "--batch", least=1)
    cells = cells_of(given)
    chosen = asked(config, given | cells[0], batch=batches[0] if "batch" in given else None)
    if not chosen.deployment.model:
        raise InputError("Missing option '--model'; see `rooftree predict --help`")
    chosen, source = asked_source(chosen, accepted, given)
    wanted = _Wanted(_whole(source, prompt, output, include_prefill=include_prefill), seed, explain)
    if config is not None:
        batches = batches if "batch" in given or chosen.batch is None else [chosen.batch]
        context = context if "context" in given or chosen.context is None else str(chosen.context)
    grid = (batches, whole_numbers(context, "--context", least=0))
    drafts = _drafts(chosen if config is not None else None, given, batches, source)
    settings = runnable(cells, lambda cell: build_setting(with_options(chosen, cell)))
    published = (
        source is not None and source.kind == "published"
    )  # the figure that suits each model best
    rows: list[dict[str, Any]] = []
    configurations: list[Acceptance] = []
    for cell, setting in settings:
        one = with_options(chosen, cell)
        here = asked_source(one, accepted, given)[1] if published and len(cells) > 1 else source
        # a goodput controller alone weighs the seconds of a setting
        if not isinstance(setting, str) and (
            not configurations or here is not source or drafts.weighs_seconds
        ):
            configurations = _configurations(here, drafts, seed, (setting, *grid))
        rows += _rows(one, setting, configurations, drafts, grid, wanted)
    able = [made for _, made in settings if not isinstance(made, str)]
    inputs = _inputs(stated.values, chosen, batches, context, able, source) | {
        name: ",".join(dict.fromkeys(cell[name] for cell in cells)) for name in cells[0]
    }
    answer = {
        "inputs": inputs,
        "acceptance": None if source is None else acceptance(source, configurations),
        "predictions": rows,
    }

    def also(folder: Path) -> None:
        if explain:
            _write_explanations(answer, able[0], folder)

    def show() -> None:
        print_predictions(rows, inputs)
        for line in numbers_words(source, configurations):
            say(line)

    found = deliver(
        answer,
        name="predictions",
        json=json,
        out=out,
        quiet=quiet,
        show=show,
        also=also,
        csv=csv,
        rows=["predictions"],
    )
    require_one(rows)
    return found


def _rows(
    asked: "DecodingConfiguration",
    setting: "Setting | str",
    configurations: "Sequence[Acceptance]",
    drafts: "ComparedShapes",
    grid: tuple[Sequence[int], Sequence[int]],
    wanted: _Wanted,
) -> list[dict[str, Any]]:
    """Rows of one cell at every context and batch; its reason at each where it cannot run."""
    batches, contexts = grid
    if isinstance(setting, str):
        return [
            {**_names(asked, b, c), "feasible": False, "reason": setting}
            for c in contexts
            for b in batches
        ]
    cell = _cell(asked, setting)
    return [
        _row(cell, a, b, c, wanted)
        for c in contexts
        for b in batches
        for a in configurations
        if a.holds_at in (None, (b, c)) and drafts.belongs(a.draft_tokens, b)
    ]


def _whole(
    source: "Source | None", prompt: float | None, output: float | None, *, include_prefill: bool
) -> tuple[float, float] | None:
    """Mean prompt and output of the requests whose throughput is asked about; None where it is not.

    Raises:
        InputError: one length without the other, or none to be had.
    """
    from hardware_profiles.errors import InputError

    if prompt is not None and output is not None:
        return prompt, output
    if prompt is not None or output is not None:
        raise InputError("--prompt-tokens and --output-tokens go together")
    if not include_prefill:
        return None
    if source is None or source.positions is None:
        raise InputError(
            "--include-prefill takes its lengths from a --trace of recorded requests; or"
            " --prompt-tokens, --output-tokens"
        )
    found = source.positions
    return max(float(found.prompt_tokens.mean()), 1.0), float(found.output_tokens.mean())


def _inputs(
    options: Mapping[str, Any],
    chosen: "DecodingConfiguration",
    batches: Sequence[int],
    context: str,
    settings: "Sequence[Setting]",
    source: "Source | None",
) -> dict[str, Any]:
    """What was asked, as the answer repeats it: options as given, names as the configuration has
    them.
    """
    where, given = (
        chosen.deployment,
        {name: options[name] or None for name in ("shape", "stop")},
    )
    files = {name: str(options[name]) if options[name] else None for name in ("config", "tree")}
    if chosen.refine is not None:
        given |= {"refine": chosen.refine.as_json(), "canvas_tokens": chosen.canvas_tokens}
    return {
        "model": where.model,
        "device": where.device,
        "method": chosen.method,
        "draft": chosen.draft_model,
        "trace": chosen.trace,
        "config": files["config"],
        "acceptance": as_given(options["acceptance"]),
        "tokens_per_step": options["tokens_per_step"],
        "drafter": options["drafter"] or [],
        "match_rate": chosen.match_rate,
        "batch": ",".join(map(str, batches)),
        "context": context,
        "draft_tokens": options["draft_tokens"],
        "tree": files["tree"],
        "engine": where.engine,
        "tp": where.tensor_parallel,
        "shared_prefix": where.shared_prefix_tokens,
        "host_weights": where.host_weights_ratio,
        **given,
        "pp": where.pipeline_parallel,
        "ep": where.expert_parallel,
        "dp": where.data_parallel,
        "cp": where.context_parallel,
        "fidelity": where.fidelity,
        "set": list(where.overrides),
        "seed": options["seed"],
        "include_prefill": options["include_prefill"],
        "explain": options["explain"],
        "prompt": options["prompt"],
        "output": options["output"],
        "dtype": ",".join(dict.fromkeys(each.deployment.precision.label for each in settings)),
        "borrowed": _borrowed(source, settings),
        "transform": list(where.transforms),
    }


def _drafts(
    chosen: "DecodingConfiguration | None",
    given: Mapping[str, Any],
    batches: list[int],
    source: "Source | None",
) -> "ComparedShapes":
    """What is compared: as a file and options say, else the usual lengths within what is known of
    the drafter.

    Raises:
        InputError: something is drafted and nothing says what is accepted of it.
    """
    from app.questions.resolve.asked import drafts_of
    from hardware_profiles.errors import InputError

    drafts = drafts_of(chosen, given, batches, source, lengths_for(source, None, _USUAL))
    if source is None and any(shape.drafts for shape in drafts.shapes):
        raise InputError(_SOURCES)
    return drafts


def _configurations(
    source: "Source | None",
    drafts: "ComparedShapes",
    seed: int,
    weighed: "tuple[Setting, list[int], list[int]]",
) -> "list[Acceptance]":
    import numpy as np

    from app.questions.resolve.configurations import plain
    from costmodel.optimizers.candidates.asked_shapes import shape_acceptances

    if source is None:
        return plain()
    generator = np.random.default_rng(seed)
    return shape_acceptances(source, drafts.shapes, generator=generator, weighed=weighed)


def _names(asked: "DecodingConfiguration", batch: int, context: int) -> dict[str, Any]:
    where = asked.deployment
    return {
        "model": where.model,
        "device": where.device,
        "engine": where.engine,
        "batch": batch,
        "context": context,
    }


def _cell(asked: "DecodingConfiguration", setting: "Setting") -> _Cell:
    from app.answers.feasible import settings_of
    from costmodel.answers.estimate import step_cost
    from costmodel.laws.acceptance import geometric

    @lru_cache(maxsize=1)
    def plain(batch: int, context: int) -> "StepCost":
        return step_cost(setting, geometric(0.0, 0), batch=batch, context=context)

    return _Cell(asked, setting, settings_of(asked), plain)


def _row(cell: _Cell, a: "Acceptance", batch: int, context: int, wanted: _Wanted) -> dict[str, Any]:
    """A prediction, or the mark of a cell that does not fit."""
    from app.answers.feasible import require_cell
    from costmodel.answers.positions import require_positions
    from costmodel.draft_shape import shape_of
    from hardware_profiles.errors import InfeasibleError

    require_positions(cell.setting.target, context)
    row = {
        **_names(cell.asked, batch, context),
        "draft": str(shape_of(a)),
        "draft_tokens": a.draft_tokens,
    }
    try:
        require_cell(cell.asked, cell.setting, a, batch=batch, context=context)
    except InfeasibleError as error:
        return row | marked(
            cell.asked, a, str(error), batch=batch, context=context, settings=cell.settings
        )
    return row | {"feasible": True} | _point(cell, a, batch, context, wanted)


def _point(
    cell: _Cell, a: "Acceptance", batch: int, context: int, wanted: _Wanted
) -> dict[str, Any]:
    import numpy as np

    from app.answers.drafting import drafting
    from app.answers.optimize import breakdown, named_terms, point
    from costmodel.answers.estimate import estimate, intervals, throughput_speedup
    from costmodel.answers.positions import context_remark
    from costmodel.answers.uncertainty import dominant_terms

    setting = cell.setting
    beyond = context_remark(setting.target, context)
    result = estimate(setting, a, batch=batch, context=context, plain=cell.plain(batch, context))
    spread = intervals(setting, result, batch=batch, generator=np.random.default_rng(wanted.seed))
    used = setting.overhead if a.draft_tokens else setting.plain_overhead
    terms = dominant_terms(result.step, setting.device.constants.residual_ratio, used)[:2]
    row = {
        "breakdown_s": breakdown(result),
        "tokens_per_step": a.tokens_per_step,
        "proposal_ratio": a.proposal_ratio,
        **point(result, spread),
        "limit": str(result.step.limit),
        "rule": a.rule or None,
        "remark": "; ".join(filter(None, (a.remark, beyond))),
        **drafting(a),
        "dominant_uncertainty": named_terms(terms, setting.device, used),
    }
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
        from app.answers.planned import planned_answer

        row["plan"] = planned_answer(setting, a, setting.plan, batch=batch, context=context)
    if wanted.explain:
        row["explain"] = _explained(setting, a, batch, context, wanted.seed)
    return row


def _explained(
    setting: "Setting", a: "Acceptance", batch: int, context: int, seed: int
) -> dict[str, Any]:
    """Where the time of a step goes; under a plan, of one tensor group's."""
    from dataclasses import replace

    import numpy as np

    from app.answers.explanations import explanation
    from costmodel.answers.explain import explain

    return explanation(
        explain(
            replace(setting, plan=None),
            a,
            batch=batch,
            context=context,
            generator=np.random.default_rng(seed),
        )
    )


def _write_explanations(answer: dict[str, Any], setting: "Setting", out: Path) -> None:
    from app.answers.explanations import roofs_of
    from app.render.html.explain_report import write_explanations
    from app.render.html.page import plots_available

    if plots_available():
        write_explanations(answer, roofs_of(setting), out / "explain.html")


def _borrowed(source: "Source | None", settings: "Sequence[Setting]") -> bool | None:
    """Whether the acceptance is another model's than any that is asked about; None where it is
    stated.
    """
    if source is None or source.kind == "stated":
        return None
    return any(source.asked_on(each.target.name).borrowed for each in settings)
