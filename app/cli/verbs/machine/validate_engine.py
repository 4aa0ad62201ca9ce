"""`validate --engine transformers`: the exported config in the engine itself, beside what was
predicted.
"""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costmodel.passes.deployment import Fidelity

KINDS = {"overlap": ("summarising", "code editing"), "ordinary": ("chat", "reasoning")}
FITTED = ("translation", "code completion")


def validate_transformers(
    *,
    profile: str,
    model: Path | None,
    shape: str,
    dtype: str,
    threads: int,
    draft_tokens: int,
    fidelity: "Fidelity",
    new_tokens: int,
    rounds: int,
    keep_disturbed: bool,
    out: Path,
    json: bool,
    quiet: bool,
) -> None:
    """Export prompt lookup for Transformers, run it there, and print speedups beside predictions.

    Raises:
        InputError: a model that Transformers' Llama does not run, or options that do not fit.
    """
    from app.cli.progress import progress_line
    from app.exporters.registry import export
    from app.exporters.transformers import TARGET_FILE
    from app.render.json import print_json, write_json
    from app.render.text import print_table, say
    from costmodel.configuration import DecodingConfiguration, DeploymentNames
    from real_runs.validation.engines.assisted_setup import run_assisted

    chosen = DecodingConfiguration(
        deployment=DeploymentNames(model=shape),
        method="n-gram",
        draft_tokens=draft_tokens,
        ngram_max=3,
    )
    config: dict[str, Any] = json_module.loads(export(chosen, "transformers").files[TARGET_FILE])
    with progress_line(quiet) as tell:
        found = run_assisted(
            profile=profile,
            model_file=model,
            shipped_model=shape,
            dtype=dtype,
            threads=threads,
            fidelity=fidelity,
            config=config,
            kinds=KINDS,
            fitted_kinds=FITTED,
            new_tokens=new_tokens,
            rounds=rounds,
            keep_disturbed=keep_disturbed,
            tell=tell,
        )
    inputs = {
        "engine": "transformers",
        "profile": profile,
        "shape": shape,
        "dtype": dtype,
        "threads": threads,
        "draft_tokens": draft_tokens,
        "fidelity": fidelity,
        "new_tokens": new_tokens,
        "rounds": rounds,
    }
    answer = {"inputs": inputs, "generation_config": config, "points": found}
    out.mkdir(parents=True, exist_ok=True)
    write_json(answer, out / "transformers.json")
    if json:
        print_json({**answer, "out": str(out)})
    elif not quiet:
        rows = [
            [
                each.kind,
                str(each.prompts),
                str(each.draft_tokens),
                f"{each.tokens_per_step:.2f}",
                f"{each.predicted_tokens_per_step:.2f}",
                f"{each.plain_tokens_per_s:.1f}",
                f"{each.tokens_per_s:.1f}",
                f"{each.speedup:.2f}",
                f"{each.predicted_speedup:.2f}",
                f"{each.error_ratio:+.1%}",
            ]
            for each in found
        ]
        columns = [
            "prompts",
            "number",
            "K",
            "tokens/step",
            "predicted",
            "plain tokens/s",
            "with lookup",
            "speedup",
            "predicted",
            "error",
        ]
        print_table("prompt lookup in Transformers, exported config", columns, rows)
        say(f"report in {out / 'transformers.json'}")
