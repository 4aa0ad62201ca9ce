"""`traces import`: bring what engines log and count, benchmarks write and public traces list into a
trace file.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.questions.field import Field, Group
from app.questions.fields import Json, MatchRate, Quiet, Seed
from app.questions.values import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traces.kinds.acceptance import AcceptanceTrace
    from traces.kinds.summary import Window

_FORMATS = (
    "Format of the file; else the one format that its content shows. Acceptance, engines:"
    " vllm-metrics, vllm-log, vllm-bench, vllm-responses, sglang-log, sglang-metrics, sglang-bench,"
    " sglang-responses, tensorrt-llm-stats, tensorrt-llm-metrics, tensorrt-llm-responses,"
    " llama-cpp-log, llama-cpp-timings, llama-cpp-metrics, lmdeploy-log, lmdeploy-metrics."
    " Acceptance, benchmarks: answers (Spec-Bench, Medusa, EAGLE, Hydra, REST), acceptance-table,"
    " specdecode-bench, position-json, guidellm, aiperf. Requests: azure, mooncake, burstgpt,"
    " sharegpt, lengths, vllm-requests, guidellm-requests, aiperf-requests, genai-perf-requests. An"
    " engine's name (vllm, sglang, tensorrt-llm, llama-cpp, lmdeploy), trtllm-metrics, spec-bench"
    " and eagle-eval stand for what the file shows of theirs."
)


def import_(
    files: Annotated[
        list[Path],
        Field(
            "File to import; of counters two scrapes, before and after, or one.",
            Group.WORKLOAD,
            argument=True,
        ),
    ],
    form: Annotated[str | None, Field(_FORMATS, Group.RUN, spelled="--format")] = None,
    out: Annotated[
        Path | None,
        Field(
            "Parquet file to write; else named like the last file, here.", Group.OUTPUT, also="-o"
        ),
    ] = None,
    drafter: Annotated[
        str | None,
        Field("Which drafter or row of the file, where it holds several.", Group.DRAFTING),
    ] = None,
    draft_tokens: Annotated[
        int | None,
        Field(
            "Draft length K in use, where the file does not tell it.",
            Group.DRAFTING,
            least=1,
            most=1024,
        ),
    ] = None,
    model: Annotated[
        str,
        Field("Target model, where the file does not name it or names several.", Group.WORKLOAD),
    ] = "",
    method: Annotated[
        str, Field("Method slug, where the file does not name it.", Group.DRAFTING)
    ] = "",
    match_rate: MatchRate = None,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Convert a file to a trace, and say what it yields and what it cannot know."""
    from app.questions.places import require_file
    from app.render.json import print_json
    from app.render.text import say
    from hardware_profiles.errors import InputError
    from hardware_profiles.places import is_place
    from hardware_profiles.whole_file import make_folder
    from traces.importers.formats import detect

    found = detect(files[-1], form)
    target = Path(f"{files[-1].stem}.parquet") if out is None else out
    if out is None and is_place(target):
        raise InputError("stands here already: name the file to write", file=target, key="--out")
    require_file(target)
    make_folder(target.parent)
    asked = {
        "drafter": drafter,
        "draft_tokens": draft_tokens,
        "model": model,
        "method": method,
        "match_rate": match_rate,
    }
    answer, lines = (_acceptance if found.kind == "acceptance" else _requests)(
        found.name, files, target, asked
    )
    inputs = {"format": found.name, "files": [str(f) for f in files], **asked, "seed": seed}
    if json:
        print_json({"inputs": inputs, **answer})
    elif not quiet:
        for line in lines:
            say(line)


def _acceptance(
    form: str, files: list[Path], out: Path, asked: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    from dataclasses import replace

    from traces.storage.acceptance_file import write_acceptance

    options = {
        "match_rate": ratio(asked["match_rate"], "--match-rate"),
        "draft_tokens": asked["draft_tokens"],
    }
    if asked["drafter"] is not None:
        options["drafter"] = asked["drafter"]
    trace = _read(form, files, asked["model"], options)
    known = trace.provenance
    stated = replace(
        known, model=asked["model"] or known.model, method=asked["method"] or known.method
    )
    trace = replace(trace, provenance=stated)
    write_acceptance(trace, out)
    answer = {
        "format": form,
        "level": trace.level,
        "requests": trace.requests,
        "positions": int(trace.positions),
        "out": str(out),
        "notes": stated.notes,
        "model": stated.model,
        "method": stated.method,
        **counts_of(trace),
    }
    return answer, _said(answer, form, out)


def _read(form: str, files: list[Path], model: str, options: dict[str, Any]) -> "AcceptanceTrace":
    """The trace; the model chooses among several that were served, and is no condition where there
    is one.
    """
    from hardware_profiles.errors import InputError
    from traces.importers.formats import import_trace

    try:
        return import_trace(form, files, **options)
    except InputError as error:
        if error.key != "model" or not model:
            raise
        return import_trace(form, files, **options, model=model)


def counts_of(trace: "AcceptanceTrace") -> dict[str, Any]:
    """What was counted, and what the verbs will make of it."""
    from costmodel.laws.acceptance.stated import counted_rates

    summary = trace.summary
    if summary is None:
        return {}
    rates = counted_rates(summary) if trace.level == 0 and not summary.acceptance_by_depth else None
    return {
        "tokens_per_step": summary.tokens_per_step,
        "acceptance_by_depth": list(summary.acceptance_by_depth),
        "drafts": summary.drafts,
        "draft_tokens": summary.draft_tokens,
        "accepted_tokens": summary.accepted_tokens,
        "draft_levels": summary.draft_levels,
        "match_rate": trace.match_rate,
        "windows": len(summary.windows),
        "tokens_per_step_by_batch": _by_batch(summary.windows),
        "geometric_acceptance": (
            rates.by_depth[0] if rates and not summary.sibling_vectors else None
        ),
        "sibling_vectors": [list(vector) for vector in summary.sibling_vectors],
    }


def _by_batch(windows: "Sequence[Window]") -> list[list[float]]:
    """Running requests and tokens per step of the windows that tell both, those of one batch pooled
    by their steps.
    """
    groups: dict[int, list[tuple[float, int]]] = {}
    for window in windows:
        if window.batch_requests is not None and window.tokens_per_step is not None:
            groups.setdefault(window.batch_requests, []).append(
                (window.tokens_per_step, window.drafts or 1)
            )
    return [
        [batch, sum(mean * steps for mean, steps in group) / sum(steps for _, steps in group)]
        for batch, group in sorted(groups.items())
    ]


def _said(answer: dict[str, Any], form: str, out: Path) -> list[str]:
    from app.answers.numbers import fixed

    lines = [f"{out}: level {answer['level']}, read as {form}"]
    if answer["level"]:
        lines[0] += f", {answer['requests']:,} requests, {answer['positions']:,} positions"
    if (mean := answer.get("tokens_per_step")) is not None:
        steps = f" over {answer['drafts']:,} steps" if answer["drafts"] else ""
        drafted = f" of {answer['draft_tokens']:,} drafted" if answer["draft_tokens"] else ""
        accepted = (
            f": {answer['accepted_tokens']:,} tokens accepted{drafted}" if answer["drafts"] else ""
        )
        lines.append(f"tokens per step {fixed(mean, 3)}{steps}{accepted}")
    elif answer.get("draft_tokens"):
        lines.append(
            f"{answer['accepted_tokens']:,} of {answer['draft_tokens']:,} draft tokens accepted"
        )
    if answer.get("acceptance_by_depth"):
        lines.append(
            "accepted by position"
            f" {', '.join(fixed(rate, 3) for rate in answer['acceptance_by_depth'][:32])}"
        )
    if len(batches := answer.get("tokens_per_step_by_batch", [])) > 1:
        lines.append(
            "by running requests "
            + ", ".join(f"{batch:,}: {fixed(mean, 2)}" for batch, mean in batches[:16])
        )
    for vector in answer.get("sibling_vectors", []):
        lines.append(f"candidates of a head {', '.join(fixed(rate, 3) for rate in vector)}")
    if (rate := answer.get("geometric_acceptance")) is not None:
        levels = answer["draft_levels"]
        lines.append(
            f"verbs take a geometric law with that mean: {fixed(rate, 3)} for each of {levels}"
            " draft tokens"
        )
    elif not (
        answer["level"]
        or answer["acceptance_by_depth"]
        or answer["draft_levels"]
        or answer["sibling_vectors"]
    ):
        lines.append(
            "the draft length is unknown: name it with --draft-tokens, and verbs take a"
            " geometric law"
        )
    return [*lines, answer["notes"]]


def _requests(
    form: str, files: list[Path], out: Path, asked: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    from app.answers.numbers import plain
    from hardware_profiles.errors import InputError
    from traces.importers.formats import import_requests
    from traces.storage.acceptance_file import write_requests

    for option, value in asked.items():
        if value:
            name = f"--{option.replace('_', '-')}"
            raise InputError(
                f"{form} lists requests and takes no such option", key=name, value=value
            )
    if len(files) != 1:
        raise InputError(f"{form} takes one file", key="files", value=len(files))
    trace = import_requests(form, files[0])
    write_requests(trace, out)
    prompt, output = int(trace.prompt_tokens.sum()), int(trace.output_tokens.sum())
    answer = {
        "format": form,
        "kind": "requests",
        "requests": trace.requests,
        "last_arrival_s": float(trace.arrival_s[-1]),
        "prompt_tokens": prompt,
        "output_tokens": output,
        "out": str(out),
        "notes": trace.provenance.notes,
    }
    first = (
        f"{out}: {trace.requests:,} requests over {plain(float(trace.arrival_s[-1]), 6)} s, read as"
        f" {form}"
    )
    lines = [first, f"{prompt:,} prompt tokens, {output:,} output tokens", trace.provenance.notes]
    return answer, [*lines, f"simulate --requests {out} plays them"]
