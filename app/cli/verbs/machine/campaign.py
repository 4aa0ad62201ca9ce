"""`campaign`: run a list of measurements within a time budget."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from app.questions.field import Field, Group
from app.questions.fields import Json, Quiet
from app.questions.values import seconds


def campaign(
    file: Annotated[
        Path,
        Field(
            "Campaign file (YAML), or the name of a shipped one: cpu, gpu-80gb.",
            Group.WORKLOAD,
            argument=True,
        ),
    ],
    budget: Annotated[str, Field("Wall time for everything, e.g. 540s, 9m, 1h.", Group.RUN)] = "9m",
    out: Annotated[Path, Field("Folder for the results.", Group.OUTPUT)] = Path(
        "rooftree-out/campaign"
    ),
    resume: Annotated[bool, Field("Go on in a folder that holds results.", Group.RUN)] = False,
    isolate: Annotated[
        bool,
        Field("Run each job in a process of its own.", Group.RUN, spelled="--isolate/--no-isolate"),
    ] = True,
    model: Annotated[
        Path | None,
        Field(
            "A .gguf file or Hugging Face folder for recordings and decoding that name none.",
            Group.WORKLOAD,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what a campaign file lists, most important first, until the budget is spent."""
    from app.cli.progress import progress_lines
    from app.questions.places import require_folder
    from app.render.json import print_json
    from app.render.text import print_table, say
    from real_runs.campaigns.campaign import run_campaign

    require_folder(out)
    path = shipped_campaign(file)
    report = run_campaign(
        path,
        budget_s=seconds(budget, "--budget"),
        out=out,
        resume=resume,
        isolate=isolate,
        model_file=model,
        progress=progress_lines(quiet),
    )
    if json:
        inputs = {"file": str(file), "budget_s": seconds(budget, "--budget"), "resume": resume}
        found = {"jobs": list(report.outcomes), "measures": dict(report.measures)}
        print_json({"inputs": inputs, "out": str(out), "seconds": report.seconds, **found})
    elif not quiet:
        rows = [
            [o.name, o.state, str(o.rows), f"{o.seconds:.0f}", o.reason[:80]]
            for o in report.outcomes
        ]
        print_table(f"{report.seconds:.0f} s", ["job", "state", "rows", "seconds", "reason"], rows)
        _print_passes(report.measures)
        _print_speeds(report.measures)
        say(f"results in {out}")


def _print_passes(measures: Mapping[str, Any]) -> None:
    """Whole passes as rates beside the copy rate."""
    from app.render.text import print_table
    from hardware_profiles.units import GIGA, MILLI

    if not measures["steps"]:
        return
    rows = [
        [
            f"{s['model']}, {s['layers']} layers, {s['dtype']}, {s['implementation']}, {s['mask']}",
            str(s["requests"]),
            str(s["query_tokens"]),
            str(s["context"]),
            f"{s['median_s'] / MILLI:.2f}",
            f"{s['bytes_per_s'] / GIGA:.1f}",
            "" if s["copy_ratio"] is None else f"{s['copy_ratio']:.2f}",
        ]
        for s in measures["steps"]
    ]
    copy = measures["copy_bytes_per_s"]
    caption = "no copy was measured" if copy is None else f"a copy moves {copy / GIGA:.1f} GB/s"
    columns = ["pass", "requests", "tokens", "context", "ms", "GB/s", "of a copy"]
    print_table("passes: weights and cache read once", columns, rows, caption=caption)


def _print_speeds(measures: Mapping[str, Any]) -> None:
    """Real decoding speeds per configuration and kind."""
    from app.render.text import print_table

    if not measures["decode"]:
        return

    def number(value: float | None, digits: int = 2) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    rows = [
        [
            f"{s['configuration']}, {s['kind']}",
            str(s["prompts"]),
            str(s["runs"]),
            str(s["disturbed"]),
            str(s["differing"]),
            number(s["tokens_per_step"]),
            number(s["tokens_per_s"], 1),
            number(s["draft_ratio"]),
            number(s["speedup"]),
            "–".join(number(end) for end in s["speedup_interval"] or ()),
            number(s["request_speedup"]),
        ]
        for s in measures["decode"]
    ]
    columns = [
        "configuration, prompts of kind",
        "prompts",
        "runs",
        "disturbed",
        "differing",
        "tokens/step",
        "tokens/s",
        "drafting",
        "speedup",
        "80 %",
        "with prefill",
    ]
    print_table("decoding: medians over prompts, against plain", columns, rows)


def shipped_campaign(file: Path) -> Path:
    """The file itself where it exists, else the shipped campaign of that name."""
    import real_runs
    from hardware_profiles.places import is_place

    shipped = (
        Path(str(real_runs.__file__)).parent
        / "campaigns"
        / f"{file.name.removesuffix('.yaml')}.yaml"
    )
    return shipped if not is_place(file) and len(file.parts) == 1 and shipped.exists() else file
