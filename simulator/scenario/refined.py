"""Which recorded blocks do requests walk along, where a scenario names a confidence trace?

The trace is replayed under the method's own policy or a stated one, block by block. Leaves out
stated passes of blocks (`simulator.scenario.block_laws`) and what a pass costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.answers.settings import stated_method
from costmodel.laws.refined_method import method_policy, refined_method
from costmodel.method_library import load_method, require_priced
from hardware_profiles.errors import InputError
from simulator.loop.block_options import RecordedBlocks
from simulator.loop.options import SchedulerOptions
from simulator.scenario.file import ScenarioFile
from simulator.scenario.sections import SpeculationSection
from traces.kinds.refine_policy import RefinePolicy, policy_of
from traces.library import trace_file, trace_name

if TYPE_CHECKING:
    from traces.replay.confidence.walk import RefineReplay

_OWN = ("trace", "method", "refine", "canvas_tokens", "ragged")
"""Keys of the section that mean something where nothing is drafted."""
_WHOLE_PASSES: dict[str, Any] = {"numbered_slots": False, "pass_tokens": 0, "equal_passes": False}
"""Fields of `SchedulerOptions` under which every iteration is one pass."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Refined:
    """Recorded blocks of a scenario, and what has to be said of them.

    Args:
        blocks: that requests walk along.
        notes: what the replay rests on.
    """

    blocks: RecordedBlocks
    notes: tuple[str, ...]

    @property
    def policy(self) -> RefinePolicy:
        """By which the blocks are refined."""
        return self.blocks.walked.replay.policy


def refined(written: ScenarioFile) -> Refined | None:
    """The blocks of the confidence trace that a scenario names; None where it names none.

    Args:
        written: the scenario.

    Raises:
        InputError: keys that belong to drafts, a method that the trace cannot answer for, or parts
            that passes over masked blocks are not timed with.
    """
    section = written.speculation
    if section is None or (section.trace is None and section.refine is None):
        return None
    from traces.library import is_confidence
    from traces.replay.confidence.block_passes import block_passes
    from traces.storage.confidence_file import read_confidence

    path = trace_file(section.trace or "")
    if not is_confidence(path):
        if section.refine is not None or section.canvas_tokens is not None:
            rule = (
                "is for masked blocks, which requests walk along a confidence trace"
                " (`speculation.trace`)"
            )
            raise InputError(
                rule,
                key=f"speculation.{'refine' if section.refine is not None else 'canvas_tokens'}",
            )
        if (
            section.method
            and load_method(stated_method(section.method, key="speculation.method")).refine
            is not None
        ):
            rule = "refines masked blocks, which requests walk along a confidence trace"
            raise InputError(rule, file=path, key="speculation.method", value=section.method)
        return None
    _check_keys(section)
    _check_parts(written)
    if not section.method:
        rule = "a confidence trace needs the method that is asked about"
        raise InputError(rule, file=path, key="speculation.method")
    entry = load_method(stated_method(section.method, key="speculation.method"))
    require_priced(entry)
    policy, trace = written_policy(section.refine, method_policy(entry)), read_confidence(path)
    method = refined_method(
        entry, policy, canvas_tokens=section.canvas_tokens or trace.canvas_tokens
    )
    if section.ragged is not None:
        method = replace(method, batch=replace(method.batch, ragged=section.ragged))
    walked = block_passes(trace, policy)
    blocks = RecordedBlocks(method=method, walked=walked)
    _check_prompts(written, blocks)
    notes = [_words(walked.replay, path)]
    if trace.provenance.model != written.deployment.model:
        notes.append(
            "confidence borrowed: the trace was recorded on"
            f" {trace.provenance.model or 'an unnamed model'}"
        )
    if method.batch.ragged != "split":
        notes.append(
            "all requests begin a block together, and those who are done wait for the others"
        )
    return Refined(blocks=blocks, notes=tuple(notes))


def refining(options: SchedulerOptions, walked: Refined | None) -> SchedulerOptions:
    """The scheduler of such a scenario: an iteration is one pass, and prompts that no pass reads
    alone share nothing.

    Args:
        options: of the engine, and as written.
        walked: what requests walk along; None: the options stay.
    """
    if walked is None:
        return options
    changes = (
        _WHOLE_PASSES if walked.blocks.reads_prompts else _WHOLE_PASSES | {"prefix_cache": False}
    )
    return replace(options, **changes)


def _check_keys(section: SpeculationSection) -> None:
    for key in section.model_fields_set - set(_OWN):
        value = getattr(section, key)
        if value is not None and value != ():
            rule = "is for drafts; masked blocks of a confidence trace have none"
            raise InputError(rule, key=f"speculation.{key}", value=value)
    if section.ragged == "regroup":
        rule = "must be split (each request's own steps) or pad (shared steps) with masked blocks"
        raise InputError(rule, key="speculation.ragged", value=section.ragged)


def _check_parts(written: ScenarioFile) -> None:
    parts = {
        "profile": written.profile,
        "feed_forward": written.feed_forward,
        "disaggregation": written.disaggregation,
        "deployment": written.deployment if written.deployment.is_planned else None,
    }
    for key, value in parts.items():
        if value is not None:
            rule = (
                "passes over masked blocks are timed by the cost model on one tensor-parallel"
                " group; leave it out"
            )
            raise InputError(rule, key=key)
    for name, off in _WHOLE_PASSES.items():
        if getattr(written.scheduler, name):
            raise InputError(
                f"must be {off} with masked blocks",
                key=f"scheduler.{name}",
                value=getattr(written.scheduler, name),
            )


def _check_prompts(written: ScenarioFile, blocks: RecordedBlocks) -> None:
    """Refuse shared prefixes where every block computes the prompt anew."""
    if blocks.reads_prompts:
        return
    rule = (
        f"must be off: {blocks.method.slug} computes prompt and canvas together, which no two"
        " requests share"
    )
    if written.scheduler.prefix_cache:
        raise InputError(rule, key="scheduler.prefix_cache", value=True)
    if written.deployment.shared_prefix_tokens:
        raise InputError(
            rule,
            key="deployment.shared_prefix_tokens",
            value=written.deployment.shared_prefix_tokens,
        )


def written_policy(written: Mapping[Any, Any] | None, own: RefinePolicy) -> RefinePolicy:
    """The policy as a scenario writes it; what is left open is the method's own.

    Args:
        written: of the key `refine`; None: nothing is.
        own: of the method.

    Raises:
        InputError: an unknown rule or threshold, or a value out of range.
    """
    if written is None:
        return own
    at = {} if written.get("commit", own.commit) != own.commit else dict(own.at)
    stated = written.get("at", {})
    try:
        return policy_of(
            {
                **own.as_json(),
                **written,
                "at": {**at, **stated} if isinstance(stated, dict) else stated,
            }
        )
    except InputError as error:
        under = "" if error.key in (None, "policy") else f".{error.key}"
        raise InputError(
            error.message, key=f"speculation.refine{under}", value=error.value
        ) from None


def _words(replay: RefineReplay, path: Path) -> str:
    """What the policy does on the prompts, and what that rests on."""
    words = f"{replay.tokens_per_step:.3g} tokens per pass by {replay.policy.name} ({replay.how})"
    if replay.is_beyond_anchors:
        words += f", beyond the boldest recorded policy ({replay.boldest:.3g})"
    if agreement := replay.agreement.words:
        words += f", {agreement}"
    return f"{words}: {trace_name(path)}"
