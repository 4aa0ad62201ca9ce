"""How sure is an answer: was a configuration like it measured, is it borrowed from what was, or does
nobody know?

One sentence with the nearest runs and their sources, the same in text, JSON and on pages. Leaves out
the interval of one prediction (`costmodel.answers.uncertainty`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row
from app.answers.numbers import plain
from app.answers.scoring.names import shape
from app.answers.scoring.nearest import (
    MeasuredRuns,
    drafts_of_target,
    nearest_drafts,
    nearest_steps,
)
from app.answers.sentences import folded
from costmodel.configuration import DeploymentNames
from costmodel.drafters.checkpoint import lacking_layers
from costmodel.optimizers.drafters.sources import Source
from costmodel.passes.precision import precision

MEASURED, BORROWED, UNKNOWN = "measured", "borrowed", "nobody knows"
VERDICTS = (MEASURED, BORROWED, UNKNOWN)
OWN_RUNS = "our own runs"  # as sources say it
MOST_LINES = 3  # of text
MOST_GROUPS = 2  # of runs that are said
MOST_DIFFERING = 2  # parts of four, beyond which runs say little of a question
# Cached tokens to which measured runs reach: prompts of 8,192 tokens with answers as long
# (InferenceX), and data sets of drafts, whose prompts and answers have some hundreds of tokens up to
# 4,096 (MT-Bench, GSM8K, ShareGPT, summaries of news)
LONGEST_STEPS_TOKENS, LONGEST_DRAFTS_TOKENS = 16_384, 4_096
LONG_PROMPTS = (
    "trained heads keep fewer drafts of long contexts than the published ones (an EAGLE-3 head of"
    " Qwen3-8B: 2.3 tokens a step at 2k, 1.7 at 8k, 1.1 at 16k; vllm-project/speculators pull"
    " request 684), so measure yours"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Certainty(Row):
    """How sure an answer is."""

    about: Annotated[str, Column("What was asked: method, model, device and engine.")]
    verdict: Annotated[str, Column("`measured`, `borrowed` or `nobody knows`.")]
    sentence: Annotated[str, Column("Why, with the nearest runs and their sources.")]
    nearest: Annotated[Sequence[MeasuredRuns], Column("The nearest measured runs.")]
    caution: Annotated[
        str,
        Column("Why it cannot be had, or is likely another, than as published; empty: nothing."),
    ] = ""

    @property
    def words(self) -> Annotated[str, Column("As a line.")]:
        """The verdict and why."""
        return f"how sure: {self.verdict}; {self.sentence}"

    @property
    def brief(self) -> str:
        """The verdict and the nearest runs alone: all of them where they are of what was asked."""
        if self.verdict == MEASURED:
            return f"{self.verdict}; {_counts(self.nearest)}"
        which = "nearest are" if self.verdict == BORROWED else "of all there are"
        near = f"{which} {self.nearest[0].words}"
        return "; ".join(filter(None, (self.verdict, self.caution, near)))


def how_sure(
    where: DeploymentNames, source: Source | None, *, context_tokens: float = 0.0
) -> Certainty:
    """How sure an answer about a configuration is.

    Args:
        where: it runs.
        source: of the acceptance of what drafts; None: nothing does.
        context_tokens: cached tokens of a request, at most.
    """
    names = {
        "engine": where.engine,
        "device": where.device,
        "model": where.model,
        "method": "" if source is None else source.method,
    }
    engine = "" if where.engine == "none" else f" in {where.engine}"
    unlike = _unlike(where, context_tokens, drafts=source is not None)
    changed = bool(where.overrides or unlike)
    modified = ", modified" if where.overrides else ""
    shown = f"{where.model} on {where.device}{modified}{engine}{''.join(unlike)}"
    steps = nearest_steps(names)
    known = _of_steps(steps, changed=changed)
    if source is None:
        return _certainty(known, shown, [steps])
    drafts = nearest_drafts(names)[:MOST_GROUPS]
    differing = drafts[0].differing(names)
    if not differing and not changed:
        known, runs = MEASURED, drafts
    elif len(differing) <= MOST_DIFFERING:
        own = [group for group in drafts_of_target(names)[:1] if group not in drafts[:1]]
        known, runs = BORROWED, [*drafts[:1], *own, steps]
    else:
        known, runs = max(known, BORROWED, key=VERDICTS.index), [steps]
    if source.borrowed:
        known = max(known, BORROWED, key=VERDICTS.index)
    brought = source.own is not None or source.draft_model is not None
    lacking = lacking_layers(source.method, where.model, brought=brought)
    if lacking:
        known = max(known, BORROWED, key=VERDICTS.index)
    is_long = context_tokens > LONGEST_DRAFTS_TOKENS and _is_published_head(source)
    return _certainty(
        known,
        f"{source.method} on {shown}",
        runs,
        f"acceptance {source.label}",
        caution=lacking or (LONG_PROMPTS if is_long else ""),
    )


def certainty_lines(sure: Sequence[Certainty], *, explain: bool) -> Iterator[str]:
    """What text says beside its tables: a line an answer; of many how many are how sure.

    Args:
        sure: of every answer.
        explain: name all runs, and where acceptance comes from.
    """
    if explain or len(sure) <= MOST_LINES:
        for one in sure:
            whose = f" of {one.about}" if len(sure) > 1 else ""
            yield folded(one.words if explain else f"how sure{whose}: {one.brief}")
        return
    counts = Counter(one.verdict for one in sure)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    yield f"how sure: {parts}; --explain says why"


def _unlike(where: DeploymentNames, context_tokens: float, *, drafts: bool) -> list[str]:
    """In what a question goes beyond every measured run, in words that follow the device.

    Runs with drafts are of releases in their published format; those without are of several.
    """
    model, unlike = shape(where.model), []
    if drafts and model is not None and where.dtype is not None:
        asked, published = (precision(name, model=model) for name in (where.dtype, model.dtype))
        if (asked.weights, asked.experts) != (published.weights, published.experts):
            unlike.append(f" with {where.dtype} weights")
    if context_tokens > (LONGEST_DRAFTS_TOKENS if drafts else LONGEST_STEPS_TOKENS):
        unlike.append(f" at {plain(context_tokens)} cached tokens")
    parts = {
        "skipped or compressed parts": where.transforms,
        "adapters": where.max_loras,
        "weights in the host's memory": where.host_weights_ratio,
    }
    return unlike + [f" with {name}" for name, is_there in parts.items() if is_there]


def _is_published_head(source: Source) -> bool:
    """Whether a head that was trained beside the target drafts, as others measured it."""
    entry = source.entry
    is_head = any(stage.by == "head" for stage in entry.stages)
    return source.kind == "published" and is_head and not entry.drafts_with_target_layers


def _of_steps(group: MeasuredRuns, *, changed: bool) -> str:
    if not group.named:
        return UNKNOWN
    is_whole = bool(group.engine and group.device and group.model)
    return MEASURED if is_whole and not changed else BORROWED


def _counts(runs: Sequence[MeasuredRuns]) -> str:
    """How many runs of the question itself there are, and how far off predictions were on them."""
    return "; ".join(f"{group.runs:,} runs{group.error_words}" for group in runs)


def _certainty(
    verdict: str,
    shown: str,
    runs: Sequence[MeasuredRuns],
    acceptance: str = "",
    *,
    caution: str = "",
) -> Certainty:
    words = "; ".join(group.words for group in runs)
    if verdict == MEASURED:
        by = "" if any(group.source == OWN_RUNS for group in runs) else " by others"
        sentence = f"{shown} was measured{by}: {_counts(runs)}"
    elif verdict == BORROWED:
        sentence = f"nearest to {shown}: {words}"
    else:
        sentence = f"nothing like {shown} was measured; of all there are {words}"
    return Certainty(
        about=shown,
        verdict=verdict,
        sentence="; ".join(filter(None, (caution, sentence, acceptance))),
        nearest=runs,
        caution=caution,
    )
