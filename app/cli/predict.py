"""`predict`: step time, tokens per second and speedup of stated configurations, with intervals."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import (
    MOST_DRAFT_TOKENS,
    Batch,
    Context,
    Device,
    Draft,
    DraftBytes,
    DraftPasses,
    Dtype,
    Engine,
    ExitLayer,
    Fidelity,
    Json,
    KvDtype,
    MatchRate,
    Model,
    Out,
    Overrides,
    Quiet,
    Seed,
    SplitVerify,
    TensorParallel,
    byte_count,
    method_slug,
    ratio,
    whole_numbers,
)
from app.cli.planned import ContextGroup, Data, Expert, Pipeline, plan_of

if TYPE_CHECKING:
    from costmodel.acceptance import Acceptance
    from costmodel.estimate import Setting
    from costmodel.parallel.plan import ParallelPlan
    from traces.schema import AcceptanceTrace


def predict(
    model: Model = "",
    table: Annotated[
        Path | None, typer.Option("--table", help="Parquet or CSV of serving runs: answer TTFT and TPOT of every row.")
    ] = None,
    device: Device = "h100-sxm",
    method: Annotated[
        str, typer.Option("--method", help="Method slug; default: the trace's, else speculative decoding.")
    ] = "",
    draft: Draft = None,
    trace: Annotated[Path | None, typer.Option("--trace", help="Acceptance trace to replay.")] = None,
    acceptance: Annotated[
        float | None, typer.Option("--acceptance", help="Acceptance rate of one token instead of a trace.")
    ] = None,
    tree: Annotated[Path | None, typer.Option("--tree", help="Tree JSON instead of --draft-tokens.")] = None,
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
    engine: Engine = "vllm",
    tp: TensorParallel = 1,
    pp: Pipeline = 1,
    ep: Expert = 1,
    dp: Data = 1,
    cp: ContextGroup = 1,
    dtype: Dtype = None,
    kv_dtype: KvDtype = None,
    draft_passes: DraftPasses = None,
    draft_bytes: DraftBytes = None,
    exit_layer: ExitLayer = None,
    fidelity: Fidelity = "calibrated",
    split_verify: SplitVerify = None,
    transform: Annotated[
        str, typer.Option("--transform", help="Compression and skipped layers by name, comma-separated, in order.")
    ] = "",
    overrides: Overrides = None,
    out: Out = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Cost every combination of batch, context and draft length; K=0 is plain decoding."""
    if table is not None:
        from app.cli.predict_table import predict_table, refuse_others

        refuse_others(
            {"--model": model, "--trace": trace, "--acceptance": acceptance, "--tree": tree, "--set": overrides,
             "--transform": transform}
        )  # fmt: skip
        predict_table(table, json=json, out=out, quiet=quiet, seed=seed)
        return
    if not model:
        from hardware_profiles.errors import InputError as Missing

        raise Missing("Missing option '--model'; see `rooftree predict --help`")
    from app.cli.configurations import fidelity_of, recorded_method
    from app.cli.output import deliver, require_folder
    from costmodel.scenario import Scenario, build_setting, with_match_rate
    from costmodel.transforms.presets import listed_names
    from hardware_profiles.errors import InputError
    from traces.library import read_trace

    if (trace is None) == (acceptance is None):
        raise InputError("exactly one of --trace and --acceptance is needed")
    if include_prefill and trace is None:
        raise InputError("--include-prefill takes its lengths from a --trace")
    if out is not None:
        require_folder(out)
    share = ratio(match_rate, "--match-rate")
    rate = ratio(acceptance, "--acceptance")
    recorded = read_trace(trace) if trace else None
    if recorded is not None:
        recorded.require(1, "predicting")
    slug = method_slug(method, "--method") or recorded_method(recorded)
    if recorded is not None:
        recorded = with_match_rate(recorded, slug, share)
    setting = build_setting(
        Scenario(
            model=model,
            device=device,
            method=slug,
            engine=engine,
            dtype=dtype,
            kv_dtype=kv_dtype,
            tensor_parallel=tp,
            draft=draft,
            exit_layer=exit_layer,
            draft_passes=draft_passes,
            draft_bytes=byte_count(draft_bytes, "--draft-bytes"),
            overrides=overrides or (),
            fidelity=fidelity_of(fidelity),
            split_verify=split_verify,
            transforms=listed_names(transform),
        )
    )
    lengths = whole_numbers(draft_tokens, "--draft-tokens", least=0, most=MOST_DRAFT_TOKENS)
    plan = plan_of(tp=tp, pp=pp, ep=ep, dp=dp, cp=cp)
    configurations = _configurations(recorded, rate, share, lengths, tree, seed)
    rows = [
        _point(setting, a, b, c, recorded if include_prefill else None, seed, explain=explain, plan=plan)
        for c in whole_numbers(context, "--context", least=0)
        for b in whole_numbers(batch, "--batch", least=1)
        for a in configurations
    ]
    inputs = {
        "model": model, "device": device, "method": slug, "draft": draft, "trace": str(trace) if trace else None,
        "acceptance": acceptance, "match_rate": match_rate, "batch": batch, "context": context,
        "draft_tokens": draft_tokens, "tree": str(tree) if tree else None, "engine": engine, "tp": tp,
        "pp": pp, "ep": ep, "dp": dp, "cp": cp,
        "dtype": setting.deployment.precision.weights, "fidelity": fidelity, "set": overrides or [], "seed": seed,
        "include_prefill": include_prefill, "explain": explain, "borrowed": _borrowed(recorded, setting),
        "transform": list(listed_names(transform)),
    }  # fmt: skip
    deliver({"inputs": inputs, "predictions": rows}, name="predictions", json=json, out=out)
    if explain and out is not None:
        _write_explanations({"inputs": inputs, "predictions": rows}, setting, out)
    if not json and not quiet:
        _print(rows, inputs)


def _configurations(
    recorded: "AcceptanceTrace | None",
    rate: float | None,
    match_rate: float | None,
    lengths: list[int],
    tree: Path | None,
    seed: int,
) -> "list[Acceptance]":
    from app.cli.configurations import replayed, stated
    from hardware_profiles.errors import InputError

    if recorded is not None:
        return replayed(recorded, lengths, tree, seed)
    if tree is not None:
        raise InputError("a tree needs a --trace that holds ranks", key="--tree", value=str(tree))
    return stated(float(rate or 0.0), lengths, None, match_rate)


def _point(
    setting: "Setting",
    a: "Acceptance",
    batch: int,
    context: int,
    whole: "AcceptanceTrace | None",
    seed: int,
    *,
    explain: bool = False,
    plan: "ParallelPlan | None" = None,
) -> dict[str, Any]:
    import numpy as np

    from app.answers import breakdown, named_terms, point
    from costmodel.estimate import estimate, intervals, needed_bytes, throughput_speedup
    from costmodel.memory import require_fit
    from costmodel.uncertainty import dominant_terms

    what = f"batch {batch}, context {context}, {a.draft_tokens} draft tokens"
    if plan is None:
        require_fit(setting.device, needed_bytes(setting, a, batch=batch, context=context), what)
    result = estimate(setting, a, batch=batch, context=context)
    spread = intervals(setting, result, batch=batch, generator=np.random.default_rng(seed))
    used = setting.overhead if a.draft_tokens else setting.plain_overhead
    terms = dominant_terms(result.step, setting.device.constants.residual_ratio, used)[:2]
    row = {
        "batch": batch, "context": context, "draft_tokens": a.draft_tokens, "breakdown_s": breakdown(result),
        "tokens_per_step": a.tokens_per_step, "proposal_ratio": a.proposal_ratio, **point(result, spread),
        "limit": str(result.step.limit),
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
    if plan is not None:
        from app.cli.planned import planned_answer

        row["plan"] = planned_answer(setting, a, plan, batch=batch, context=context)
    if explain:
        row["explain"] = _explained(setting, a, batch, context, seed)
    return row


def _explained(setting: "Setting", a: "Acceptance", batch: int, context: int, seed: int) -> dict[str, Any]:
    import numpy as np

    from app.explanations import explanation
    from costmodel.explain import explain

    return explanation(explain(setting, a, batch=batch, context=context, generator=np.random.default_rng(seed)))


def _write_explanations(answer: dict[str, Any], setting: "Setting", out: Path) -> None:
    from app.explain_report import write_explanations
    from app.explanations import roofs_of
    from app.page import plots_available

    if plots_available():
        write_explanations(answer, roofs_of(setting), out / "explain.html")


def _borrowed(recorded: "AcceptanceTrace | None", setting: "Setting") -> bool | None:
    from costmodel.optimizers.recommend import is_borrowed

    return None if recorded is None else is_borrowed(recorded, setting.target.name)


def _print(rows: list[dict[str, Any]], inputs: dict[str, Any]) -> None:
    from app.cli.output import print_table, say
    from hardware_profiles.units import MILLI

    cells = [
        [
            str(r["batch"]), str(r["context"]), str(r["draft_tokens"]), f"{r['tokens_per_step']:.3f}",
            f"{r['step_s'] / MILLI:.3f}",
            " + ".join(f"{r['breakdown_s'][part] / MILLI:.2f}" for part in ("draft", "verify", "overhead")),
            f"{r['tokens_per_s']:.4g} [{r['tokens_per_s_interval'][0]:.4g}, {r['tokens_per_s_interval'][1]:.4g}]",
            f"{r['speedup']:.3f} [{r['speedup_interval'][0]:.3f}, {r['speedup_interval'][1]:.3f}]",
            f"{r['throughput_speedup']:.3f}" if "throughput_speedup" in r else "",
            r["limit"],
        ]
        for r in rows
    ]  # fmt: skip
    columns = ["batch", "context", "K", "tokens/step", "step ms", "draft + verify + overhead", "tokens/s", "speedup",
               "with prefill", "limit"]  # fmt: skip
    title = f"{inputs['model']} on {inputs['device']}, {inputs['method']}, {inputs['dtype']}, {inputs['engine']}"
    title += f", {', '.join(inputs['transform'])}" if inputs["transform"] else ""
    print_table(title, columns, cells, caption="brackets: 80 % intervals")
    if inputs["borrowed"]:
        say("acceptance borrowed: the trace was recorded on another model")
    if "plan" in rows[0]:
        _print_plans(rows)
    _print_explanations([row for row in rows if "explain" in row])


def _print_plans(rows: list[dict[str, Any]]) -> None:
    from app.cli.output import print_table
    from hardware_profiles.units import GIGA, MILLI

    sizes = ", ".join(f"{name} {rows[0]['plan'][name]}" for name in ("tp", "pp", "ep", "dp", "cp"))
    cells = [
        [
            str(r["batch"]), str(r["context"]), str(r["draft_tokens"]), f"{r['plan']['step_s'] / MILLI:.3f}",
            f"{r['plan']['tokens_per_s']:.4g}", f"{r['plan']['tokens_per_s_per_device']:.4g}",
            f"{r['plan']['speedup']:.3f}", f"{r['plan']['bytes_per_device'] / GIGA:.1f}",
        ]
        for r in rows
    ]  # fmt: skip
    columns = ["batch", "context", "K", "step ms", "tokens/s", "per device", "speedup", "GB per device"]
    title = f"under the plan: {sizes}, {rows[0]['plan']['devices']} devices"
    print_table(title, columns, cells, caption="without intervals; the table above holds for one tensor group")


def _print_explanations(rows: list[dict[str, Any]]) -> None:
    from app.cli.output import print_table, say
    from app.explain_report import summary_lines

    for row in rows:
        told = row["explain"]
        title = f"batch {row['batch']}, context {row['context']}, K={row['draft_tokens']}: where the time goes"
        columns = ["operation", "ms", "% of step", "waits for", "FLOP/byte", "% of bandwidth", "% of peak"]
        print_table(title, columns, summary_lines(told))
        moved = ", ".join(f"{e['lever']} {e['tokens_per_s']:+.2f} ({e['speedup']:+.2f})" for e in told["elasticities"])
        say(f"1 % more of each moves tokens/s (and the speedup) by, in %: {moved}")
        say(f"most of the interval comes from {' and '.join(told['dominant_variance'])}")
        say(told["sentence"])
