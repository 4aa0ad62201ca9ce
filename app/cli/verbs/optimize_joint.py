"""`optimize --search full`: layouts, formats, devices, batch caps and token budgets beside drafters
and drafts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.output import Answered
from app.questions.groups import JointOptions
from app.questions.spelled_options import as_options
from app.questions.values import whole_numbers

if TYPE_CHECKING:
    from app.answers.deployables import Deployable
    from app.answers.joint.simulated import Traffic
    from app.questions.groups import AcceptanceOptions
    from costmodel.answers.workload import Load
    from costmodel.configuration import DecodingConfiguration
    from costmodel.draft_shape import DraftShape
    from costmodel.optimizers.drafters.sources import Source
    from costmodel.optimizers.joint.space import JointQuestion
    from costmodel.optimizers.layouts import Layout

PROMPT_TOKENS, OUTPUT_TOKENS = "1024", "uniform:128:384"
_LOAD_REQUESTS = 2000  # drawn to say what lengths a law has


@dataclass(frozen=True, kw_only=True)
class DraftSources:
    """What is drafted: the method, traces and shapes that options name."""

    method: str
    trace: Sequence[Path]
    lengths: Sequence[int] | None
    trees: str
    shapes: "Sequence[DraftShape] | None" = None


def full_search(
    joint: JointOptions,
    given: Mapping[str, Any],
    accepted: "AcceptanceOptions",
    drafts: DraftSources,
    shown: Mapping[str, Any],
) -> Answered:
    """Answer `--search full`.

    Args:
        joint: what is varied beside the drafts.
        given: other options of the verb.
        accepted: what is known of acceptance.
        drafts: what is drafted.
        shown: json, out, csv and quiet, as the verb takes them.
    """
    from app.answers.deployables import file_paths
    from app.answers.joint.answer import joint_answer
    from app.answers.joint.exports import joint_deployables
    from app.answers.joint.rows import joint_object
    from app.answers.progress import counting
    from app.cli.output import deliver
    from app.cli.shown.joint import print_joint
    from app.questions.resolve.accepted import as_given
    from app.render.charts.joint_words import uncarried_words, unmet_words
    from hardware_profiles.errors import InfeasibleError

    question, traffic = joint_question(joint, given, accepted, drafts)
    with counting(shown["quiet"]) as report:
        answer = joint_answer(question, traffic, simulate=joint.simulate, report=report)
    out = shown["out"]
    winner = answer.finalists[0]
    met = winner.meets(question.slo)  # engines get no files of what does not do what was asked
    entries = joint_deployables(winner.design.configuration) if met else []
    inputs = {
        **given,
        **asdict(joint),
        "model": question.question.deployment.model,
        "method": drafts.method,
        "requests": None if joint.requests is None else str(joint.requests),
        "rate": joint.rate,
        "prompt_tokens": traffic.prompt_tokens,
        "output_tokens": traffic.output_tokens,
        "trace": [str(path) for path in drafts.trace],
        "drafter": accepted.drafter or [],
        "acceptance": as_given(accepted.acceptance),
        "tokens_per_step": accepted.tokens_per_step,
    }
    body = joint_object(answer, inputs, file_paths(entries, out) if out is not None else {})
    delivered = deliver(
        body,
        name="recommendation",
        json=shown["json"],
        out=out,
        quiet=shown["quiet"],
        csv=shown["csv"],
        rows=["choices", "alternatives", "front", "unmet"],
        show=lambda: print_joint(body, entries, out),
        also=lambda folder: _write(body, entries, folder),
    )
    if not met:
        raise InfeasibleError(unmet_words(body) or uncarried_words(body))
    return delivered


@as_options("devices", "layouts", "maximise")
def joint_question(
    joint: JointOptions,
    given: Mapping[str, Any],
    accepted: "AcceptanceOptions",
    drafts: DraftSources,
) -> "tuple[JointQuestion, Traffic]":
    """What is asked, and the requests that designs are simulated with.

    Args:
        joint: what is varied beside the drafts.
        given: other options of the verb.
        accepted: what is known of acceptance.
        drafts: what is drafted.

    Raises:
        InputError: several models or engines, or values out of range.
    """
    from app.questions.values import MOST_DRAFT_TOKENS, milliseconds
    from costmodel.answers.workload import Limits
    from costmodel.optimizers.drafters.competing import competing
    from costmodel.optimizers.joint.objective import objective_named
    from costmodel.optimizers.joint.space import BATCH_CAPS, TOKEN_BUDGETS, JointQuestion

    load, traffic = load_and_traffic(joint)
    question, sources = _drafters(given, accepted, drafts)
    budgets, caps = joint.token_budgets, joint.batch_caps
    return (
        JointQuestion(
            question=question,
            sources=competing(question, sources),
            device_names=_names(given["device"], "--device"),
            most_devices=joint.devices,
            layouts=_layouts(joint, question),
            weight_formats=_formats(given, "dtype"),
            cache_formats=_formats(given, "kv_dtype"),
            batch_caps=whole_numbers(caps, "--batch-caps", least=1) if caps else BATCH_CAPS,
            token_budgets=(
                whole_numbers(budgets, "--token-budgets", least=1) if budgets else TOKEN_BUDGETS
            ),
            load=load,
            rate_stated=joint.rate is not None or joint.requests is not None,
            slo=Limits(
                ttft_s=milliseconds(given["slo_ttft"], "--slo-ttft"),
                share_ratio=joint.good_share,
                tpot_s=milliseconds(given["slo_tpot"], "--slo-tpot"),
            ),
            maximise=objective_named(joint.maximise),
            draft_tokens=drafts.lengths,
            shapes=drafts.shapes,
            tree_sizes=[
                n
                for n in whole_numbers(
                    drafts.trees, "--tree-nodes", least=0, most=MOST_DRAFT_TOKENS
                )
                if n
            ],
            seed=given["seed"],
        ),
        traffic,
    )


def _drafters(
    given: Mapping[str, Any], accepted: "AcceptanceOptions", drafts: DraftSources
) -> "tuple[DecodingConfiguration, Sequence[Source]]":
    """The question on one device and its drafters."""
    from app.questions.resolve.accepted import named_sources
    from app.questions.resolve.asked import asked
    from app.questions.resolve.unnamed import DEFAULT_TREES, beside_own, unnamed
    from hardware_profiles.errors import InputError

    for name in ("model", "engine"):
        if len(_names(given[name], f"--{name}")) > 1:
            raise InputError("one at a time with --search full", key=f"--{name}", value=given[name])
    one = {
        **given,
        "method": drafts.method,
        "device": _names(given["device"], "--device")[0],
        "dtype": None,
        "kv_dtype": None,
    }
    question = asked(None, one)
    sources = named_sources(
        accepted,
        drafts.trace,
        method=drafts.method,
        model=given["model"],
        lengths=drafts.lengths or (),
    )
    if not sources:
        needed = any(each.needs_recording for each in drafts.shapes or ())
        recorded = needed or drafts.trees not in (DEFAULT_TREES, "0")
        return unnamed(question, drafts.method, recorded=recorded, match_rate=accepted.match_rate)
    model = given["model"] or next((each.model for each in sources if each.trace is not None), "")
    if not model:
        raise InputError(
            "must be named: no trace says on which model it was recorded", key="--model"
        )
    question = replace(question, deployment=replace(question.deployment, model=model))
    return question, beside_own(question, sources, accepted.drafter)


def load_and_traffic(joint: JointOptions) -> "tuple[Load, Traffic]":
    """The load of the options, and the requests that simulations serve.

    Args:
        joint: options.

    Raises:
        InputError: lengths beside a file that has its own, or forms that are none.
    """
    import numpy as np

    from app.answers.joint.simulated import Traffic
    from costmodel.answers.workload import load_of_requests
    from costmodel.optimizers.joint.space import PROMPTS
    from hardware_profiles.errors import InputError
    from simulator.scenario.arrivals import drawn_lengths
    from traces.importers.formats import read_requests_any

    if joint.requests is not None and (joint.prompt_tokens or joint.output_tokens):
        raise InputError(
            "--requests has its own lengths; leave out --prompt-tokens and --output-tokens"
        )
    traffic = Traffic(
        requests=joint.requests,
        prompt_tokens=joint.prompt_tokens or PROMPT_TOKENS,
        output_tokens=joint.output_tokens or OUTPUT_TOKENS,
    )
    if joint.requests is not None:
        recorded = read_requests_any(joint.requests, None)
        load = load_of_requests(recorded, requests_per_s=joint.rate, prompts=PROMPTS)
        return load, replace(traffic, count=min(traffic.count, recorded.requests))
    drawn = drawn_lengths(
        traffic.prompt_tokens, traffic.output_tokens, _LOAD_REQUESTS, np.random.default_rng(0)
    )
    return load_of_requests(drawn, requests_per_s=joint.rate or 1.0, prompts=PROMPTS), traffic


def _layouts(joint: JointOptions, question: "DecodingConfiguration") -> "list[Layout]":
    from costmodel.optimizers.joint.space import layout_named, usual_layouts
    from costmodel.optimizers.layouts import Layout

    if joint.layouts:
        return [layout_named(text.strip()) for text in joint.layouts.split(",")]
    where = question.deployment
    stated = Layout(
        where.tensor_parallel, where.data_parallel, where.expert_parallel, where.pipeline_parallel
    )
    return [stated] if stated != Layout() else usual_layouts(where.model, joint.devices)


def _names(text: str, option: str) -> list[str]:
    from app.answers.cells import names_of

    return names_of(text, option)


def _formats(given: Mapping[str, Any], name: str) -> list[str | None]:
    """Formats separated by commas; None for the usual one."""
    return [None] if given[name] is None else [*_names(given[name], f"--{name.replace('_', '-')}")]


def _write(body: Mapping[str, Any], entries: "list[Deployable]", folder: Path) -> None:
    from app.answers.deployables import write_all
    from app.questions.places import plots_available
    from app.render.html.joint_page import write_joint_page

    write_all(entries, folder)
    if plots_available():
        write_joint_page(body, folder / "report.html")
