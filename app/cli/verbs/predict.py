"""`predict`: step time, tokens per second and speedup of stated configurations, with intervals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.asked import Config
from app.cli.cells import cells_of, marked, require_one, runnable
from app.cli.drafts import DynamicTree, StopRule, law_of, varying
from app.cli.option_groups import Drafting, Stored, grouped
from app.cli.options import (
    Batch,
    Context,
    Csv,
    Fidelity,
    Json,
    MatchRate,
    MethodOrTraces,
    Model,
    Out,
    Quiet,
    Seed,
    Trace,
    TreeFile,
    ratio,
    whole_numbers,
)
from app.cli.output import Answered
from app.cli.planned import ContextGroup, Data, Expert, Pipeline

if TYPE_CHECKING:
    from app.cli.asked import Drafts
    from costmodel.answers.estimate import Setting
    from costmodel.configuration import DecodingConfiguration
    from costmodel.laws.acceptance import Acceptance
    from traces.kinds.acceptance import AcceptanceTrace

_SOURCES = "exactly one of --trace, --acceptance and --tokens-per-step is needed"


@grouped
def predict(
    running: typer.Context,
    placed: Stored,
    drafting: Drafting,
    model: Model = "",
    table: Annotated[
        Path | None, typer.Option("--table", help="Parquet or CSV of serving runs: answer TTFT and TPOT of every row.")
    ] = None,
    config: Config = None,
    method: MethodOrTraces = "",
    trace: Trace = None,
    acceptance: Annotated[
        float | None, typer.Option("--acceptance", help="Acceptance rate of one token instead of a trace.")
    ] = None,
    tokens_per_step: Annotated[
        float | None,
        typer.Option(
            "--tokens-per-step", help="Stated tokens per step instead; without K or tree, for the method's own."
        ),
    ] = None,
    tree: TreeFile = None,
    dynamic_tree: DynamicTree = "",
    stop: StopRule = "",
    batch: Batch = "1,8,64",
    context: Context = "1024",
    draft_tokens: Annotated[str, typer.Option("--draft-tokens", help="Draft tokens K, comma-separated.")] = "0,3,5",
    include_prefill: Annotated[
        bool,
        typer.Option(
            "--include-prefill",
            help="Speedup of whole requests of the trace's mean lengths, prompts included.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say where each step's time goes and what would move it; a page with --out."),
    ] = False,
    match_rate: MatchRate = None,
    pp: Pipeline = 1,
    ep: Expert = 1,
    dp: Data = 1,
    cp: ContextGroup = 1,
    fidelity: Fidelity = "calibrated",
    transform: Annotated[
        str, typer.Option("--transform", help="Compression and skipped layers by name, comma-separated, in order.")
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

        refuse_others(
            {"--model": model, "--trace": trace, "--acceptance": acceptance, "--tokens-per-step": tokens_per_step,
             "--tree": tree, "--set": placed.overrides, "--dynamic-tree": dynamic_tree, "--stop": stop,
             "--transform": transform}
        )  # fmt: skip
        return predict_table(table, json=json, out=out, csv=csv, quiet=quiet, seed=seed)
    from app.cli.asked import asked, drafts_of, given_options, with_options
    from app.cli.configurations import claimed
    from app.cli.output import deliver
    from app.cli.verbs.predict_output import print_predictions
    from costmodel.answers.settings import build_setting
    from hardware_profiles.errors import InputError
    from traces.kinds.naming import naming

    given, rate = given_options(running), ratio(acceptance, "--acceptance")
    batches = whole_numbers(batch, "--batch", least=1)
    cells = cells_of(given)
    chosen = asked(config, given | cells[0], batch=batches[0] if "batch" in given else None)
    if not chosen.deployment.model:
        raise InputError("Missing option '--model'; see `rooftree predict --help`")
    if rate is not None and tokens_per_step is not None:
        raise InputError(_SOURCES)
    chosen, recorded = _recorded(chosen, given, rate if tokens_per_step is None else tokens_per_step, include_prefill)
    if config is not None:
        batches = batches if "batch" in given or chosen.batch is None else [chosen.batch]
        context = context if "context" in given or chosen.context is None else str(chosen.context)
    contexts = whole_numbers(context, "--context", least=0)
    shaped = given if config is not None else {"draft_tokens": draft_tokens, **given}
    drafts = drafts_of(None if config is None else chosen, shaped, batches)

    def compared(setting: "Setting") -> "list[Acceptance]":
        if tokens_per_step is None or drafts.dynamic is not None or drafts.stop is not None:
            with naming(str(tree) if tree else None):
                return _configurations(recorded, chosen, rate, drafts, seed, (setting, batches, contexts))
        own = config is None and "draft_tokens" not in given
        return claimed(chosen, tokens_per_step, [] if own else drafts.lengths, drafts.tree)

    settings = runnable(cells, lambda cell: build_setting(with_options(chosen, cell)))
    rows: list[dict[str, Any]] = []
    configurations: list[Acceptance] = []
    for cell, setting in settings:
        one = with_options(chosen, cell)
        if isinstance(setting, str):
            rows += [{**_names(one, b, c), "feasible": False, "reason": setting} for c in contexts for b in batches]
            continue
        if not configurations or (drafts.stop is not None and drafts.stop.rule == "goodput"):
            configurations = compared(setting)  # that rule alone weighs the seconds of a setting
        rows += [
            _row(one, setting, a, b, c, recorded if include_prefill else None, seed, explain=explain)
            for c in contexts
            for b in batches
            for a in configurations
            if a.holds_at in (None, (b, c)) and drafts.belongs(a.draft_tokens, b)
        ]
    able = [made for _, made in settings if not isinstance(made, str)]
    inputs = _inputs(running.params, chosen, batches, context, able, recorded) | {
        name: ",".join(dict.fromkeys(cell[name] for cell in cells)) for name in cells[0]
    }
    answer = {"inputs": inputs, "predictions": rows}

    def also(folder: Path) -> None:
        if explain:
            _write_explanations(answer, able[0], folder)

    found = deliver(
        answer, name="predictions", json=json, out=out, quiet=quiet, show=lambda: print_predictions(rows, inputs),
        also=also, csv=csv, rows=["predictions"],
    )  # fmt: skip
    require_one(rows)
    return found


def _inputs(
    options: Mapping[str, Any],
    chosen: "DecodingConfiguration",
    batches: Sequence[int],
    context: str,
    settings: "Sequence[Setting]",
    recorded: "AcceptanceTrace | None",
) -> dict[str, Any]:
    """What was asked, as the answer repeats it: options as given, names as the configuration has them."""
    where, given = chosen.deployment, {name: options[name] or None for name in ("dynamic_tree", "stop")}
    files = {name: str(options[name]) if options[name] else None for name in ("config", "tree")}
    return {
        "model": where.model, "device": where.device, "method": chosen.method, "draft": chosen.draft_model,
        "trace": chosen.trace, "config": files["config"],
        "acceptance": options["acceptance"], "tokens_per_step": options["tokens_per_step"],
        "match_rate": chosen.match_rate, "batch": ",".join(map(str, batches)), "context": context,
        "draft_tokens": options["draft_tokens"], "tree": files["tree"], "engine": where.engine,
        "tp": where.tensor_parallel,
        "shared_prefix": where.shared_prefix_tokens, "host_weights": where.host_weights_ratio, **given,
        "pp": where.pipeline_parallel, "ep": where.expert_parallel, "dp": where.data_parallel,
        "cp": where.context_parallel, "fidelity": where.fidelity,
        "set": list(where.overrides), "seed": options["seed"],
        "include_prefill": options["include_prefill"], "explain": options["explain"],
        "dtype": ",".join(dict.fromkeys(each.deployment.precision.weights for each in settings)),
        "borrowed": _borrowed(recorded, settings), "transform": list(where.transforms),
    }  # fmt: skip


def _recorded(
    chosen: "DecodingConfiguration", given: dict[str, Any], stated: float | None, whole: bool
) -> "tuple[DecodingConfiguration, AcceptanceTrace | None]":
    """The configuration with the method of its recording, and that recording; None with a stated number."""
    from dataclasses import replace

    from app.cli.configurations import recorded_method
    from costmodel.answers.settings import with_match_rate
    from hardware_profiles.errors import InputError
    from traces.library import read_trace, trace_file

    if stated is not None and "trace" not in given:
        chosen = replace(chosen, trace=None)
    if (chosen.trace is None) == (stated is None):
        raise InputError(_SOURCES)
    if whole and chosen.trace is None:
        raise InputError("--include-prefill takes its lengths from a --trace")
    recorded = read_trace(trace_file(chosen.trace)) if chosen.trace else None
    if recorded is not None:
        recorded.require(1, "predicting")
    if not given.get("config") and not given.get("method"):
        chosen = replace(chosen, method=recorded_method(recorded))
    if recorded is not None:
        recorded = with_match_rate(recorded, chosen.method, chosen.match_rate)
    return chosen, recorded


def _configurations(
    recorded: "AcceptanceTrace | None",
    chosen: "DecodingConfiguration",
    rate: float | None,
    drafts: "Drafts",
    seed: int,
    grid: "tuple[Setting, list[int], list[int]]",
) -> "list[Acceptance]":
    from app.cli.configurations import replayed, stated
    from hardware_profiles.errors import InputError

    if drafts.dynamic is not None or drafts.stop is not None:
        if recorded is None or drafts.tree is not None:
            raise InputError("dynamic trees and stop rules need a --trace, and no --tree")
        law = law_of(recorded, chosen.method, drafts.lengths)
        return varying(recorded, law, drafts.lengths, drafts.dynamic, drafts.stop, seed, grid)
    if recorded is not None:
        return replayed(recorded, chosen.method, drafts.lengths, drafts.tree, seed)
    if drafts.tree is not None:
        raise InputError("a tree needs a --trace that holds ranks", key="--tree")
    return stated(float(rate or 0.0), drafts.lengths, None, chosen.match_rate, method=chosen.method)


def _names(asked: "DecodingConfiguration", batch: int, context: int) -> dict[str, Any]:
    where = asked.deployment
    return {"model": where.model, "device": where.device, "engine": where.engine, "batch": batch, "context": context}


def _row(
    asked: "DecodingConfiguration",
    setting: "Setting",
    a: "Acceptance",
    batch: int,
    context: int,
    whole: "AcceptanceTrace | None",
    seed: int,
    *,
    explain: bool,
) -> dict[str, Any]:
    """A prediction, or the mark of a cell that does not fit."""
    from app.answers.feasible import require_cell
    from hardware_profiles.errors import InfeasibleError

    row = {**_names(asked, batch, context), "draft_tokens": a.draft_tokens}
    try:
        require_cell(asked, setting, a, batch=batch, context=context)
    except InfeasibleError as error:
        return row | marked(asked, a, str(error), batch=batch, context=context)
    return row | {"feasible": True} | _point(setting, a, batch, context, whole, seed, explain=explain)


def _point(
    setting: "Setting",
    a: "Acceptance",
    batch: int,
    context: int,
    whole: "AcceptanceTrace | None",
    seed: int,
    *,
    explain: bool,
) -> dict[str, Any]:
    import numpy as np

    from app.answers.drafting import drafting
    from app.answers.optimize import breakdown, named_terms, point
    from costmodel.answers.estimate import estimate, intervals, throughput_speedup
    from costmodel.answers.uncertainty import dominant_terms

    result = estimate(setting, a, batch=batch, context=context)
    spread = intervals(setting, result, batch=batch, generator=np.random.default_rng(seed))
    used = setting.overhead if a.draft_tokens else setting.plain_overhead
    terms = dominant_terms(result.step, setting.device.constants.residual_ratio, used)[:2]
    row = {
        "breakdown_s": breakdown(result),
        "tokens_per_step": a.tokens_per_step, "proposal_ratio": a.proposal_ratio, **point(result, spread),
        "limit": str(result.step.limit), "rule": a.rule or None, "remark": a.remark, **drafting(a),
        "dominant_uncertainty": named_terms(terms, setting.device, used),
    }  # fmt: skip
    if whole is not None:
        mean_prompt, mean_output = float(whole.prompt_tokens.mean()), float(whole.output_tokens.mean())
        overall = throughput_speedup(
            setting, a, batch=batch, prompt_tokens=max(mean_prompt, 1.0), output_tokens=mean_output
        )
        scale = float(overall) / row["speedup"]
        row |= {
            "throughput_speedup": float(overall),
            "throughput_speedup_interval": [scale * bound for bound in row["speedup_interval"]],
            "mean_prompt_tokens": mean_prompt, "mean_output_tokens": mean_output,
        }  # fmt: skip
    if setting.plan is not None:
        from app.cli.planned import planned_answer

        row["plan"] = planned_answer(setting, a, setting.plan, batch=batch, context=context)
    if explain:
        row["explain"] = _explained(setting, a, batch, context, seed)
    return row


def _explained(setting: "Setting", a: "Acceptance", batch: int, context: int, seed: int) -> dict[str, Any]:
    """Where the time of a step goes; under a plan, of one tensor group's."""
    from dataclasses import replace

    import numpy as np

    from app.answers.explanations import explanation
    from costmodel.answers.explain import explain

    return explanation(
        explain(replace(setting, plan=None), a, batch=batch, context=context, generator=np.random.default_rng(seed))
    )


def _write_explanations(answer: dict[str, Any], setting: "Setting", out: Path) -> None:
    from app.answers.explanations import roofs_of
    from app.reports.explain_report import write_explanations
    from app.reports.page import plots_available

    if plots_available():
        write_explanations(answer, roofs_of(setting), out / "explain.html")


def _borrowed(recorded: "AcceptanceTrace | None", settings: "Sequence[Setting]") -> bool | None:
    """Whether the recording is another model's than any that is asked about."""
    from costmodel.optimizers.sources import is_borrowed

    return None if recorded is None else any(is_borrowed(recorded, each.target.name) for each in settings)
