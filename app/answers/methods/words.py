"""What does the catalogue say of a published method: in words, field by field, and as BibTeX?

Sentences follow from the fields of an entry, so they cannot differ from what a prediction does.
Leaves out predictions, and which systems they cover (`app.answers.methods.coverage`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from costmodel.citation import Reported
from costmodel.laws.refining import blocks_in_flight
from costmodel.method import LABELS, WEIGHING, Draft, Method, Shape
from costmodel.method_file import method_document
from costmodel.method_library import priced_alike
from costmodel.pace import EXACT_COMMITS, Advance, Refine
from costmodel.transforms.declared import (
    CacheTransform,
    ContextTransform,
    EncoderSplit,
    FusedFeedForward,
    LayerSchedule,
    SparseAttention,
    SparseFeedForward,
    WeightTransform,
)

_BY = {
    "lookup": "text on the host that is looked up",
    "model": "a draft model",
    "target": "the target itself",
    "head": "layers on the target's features",
    "heads": "output heads on the target's features",
    "rows": "query tokens that ride on the verify pass",
}
_SHAPES = {
    "chain": "a chain",
    "static_tree": "a tree that is fixed beforehand",
    "dynamic_tree": "a tree that is chosen anew at every step",
    "state_trees": "one tree per number of prompt tokens left by the step before, each",
    "window": "n-grams beside a window",
}
_CHANGES = {
    WeightTransform: "weights are stored in fewer bytes (costmodel/passes/precision.py)",
    CacheTransform: (
        "cached keys and values are stored in fewer bytes"
        " (costmodel/passes/transformed_operations.py)"
    ),
    SparseAttention: (
        "attention reads a part of the tokens (costmodel/passes/transformed_operations.py)"
    ),
    ContextTransform: "fewer vectors stand for a text (costmodel/passes/forward.py)",
    SparseFeedForward: (
        "tokens use parts of the feed-forward layers (costmodel/passes/calibrated.py)"
    ),
    LayerSchedule: "tokens run some of the layers (costmodel/passes/calibrated.py)",
    EncoderSplit: (
        "some layers read the prompt and the others write (costmodel/architectures/rearranged.py)"
    ),
    FusedFeedForward: (
        "feed-forward layers run side by side as one (costmodel/architectures/rearranged.py)"
    ),
}
_ADVANCE = "costmodel/answers/steps/advance_step.py"
_FORWARDS = {
    "full": "whole canvas",
    "canvas": "canvas over the prompt's cache",
    "suffix": "canvas from the block on",
    "block": "block",
    "group": "tokens that it commits",
}
_TEXTS = {
    "bit_exact": "the text stays, bit for bit",
    "distribution": "the text is drawn as the target draws it",
    "own_weights": "the text is that of a target trained for the method",
    "lossy": "the text changes",
}
_LOSSY_RULES = {
    "typical": "draft tokens stay that the target finds likely enough",
    "near_match": "draft tokens stay that are nearly as likely as the target's likeliest",
}
_LOSSY_CHANGES = {
    WeightTransform: "weights are rounded or left out",
    CacheTransform: "cached keys and values are rounded or left out",
    SparseAttention: "attention leaves tokens out",
    ContextTransform: "fewer vectors stand for a text",
    SparseFeedForward: "feed-forward layers leave neurons out",
    LayerSchedule: "tokens leave layers out",
    EncoderSplit: "layers read or write where all did both",
    FusedFeedForward: (
        "layers have lost their attention, and feed-forward layers no longer see each other's work"
    ),
}
_PROBABILITIES = (
    "token_rejection",
    "with_replacement",
    "without_replacement",
    "block",
    "multi_path_block",
    "typical",
    "near_match",
)


def explained(method: Method) -> list[str]:
    """An entry in sentences: who drafts, what is verified, what stays, what it costs, what it is
    replayed from.

    >>> from costmodel.method_library import load_method
    >>> print(explained(load_method("n-gram"))[0])
    Drafts: text on the host that is looked up, with no proposal in some steps (costmodel/drafters).
    """
    if method.refusal:
        return [f"Predictions refuse it: it {method.refusal}."]
    why = f": {'; '.join(changes(method))}" if method.exactness == "lossy" else ""
    text = f"Text: {_TEXTS[method.exactness]}{why}{_when(method)}."
    sentences = [*_drafting(method), *_own_pace(method), *_changed(method), text]
    level = trace_level(method)
    if level:
        sentences.append(f"Acceptance is replayed from recordings of level {level} up, or stated.")
    first = priced_alike()[method.slug]
    if first != method.slug:
        sentences.append(f"Apart from stated numbers a prediction for it is that for {first}.")
    return sentences


def engine_needs(method: Method, engine: str) -> str:
    """What an engine that runs a method would have to have, and how the method's file names it.

    >>> from costmodel.method_library import load_method
    >>> engine_needs(load_method("n-gram"), "vllm").partition(", verifies")[0]
    'an engine that runs n-gram drafts by text on the host that is looked up, with no proposal in some steps'
    """
    drafts = "; for that ".join(_stage(stage) for stage in method.stages)
    needs = [f"an engine that runs {method.slug} drafts by {drafts or 'nothing'}"]
    if method.drafts:
        needs.append(f"verifies {_SHAPES[method.shape.kind]}{_sizes(method.shape)}")
        needs.append(f"keeps what {method.verify.rule} keeps")
    needs += [_CHANGES[type(transform)].partition(" (")[0] for transform in method.target]
    name = json.dumps(engine)
    return f"{', '.join(needs)}; where {engine} has that, name it: [engines] {name} = NAME"


def described(method: Method) -> Iterator[str]:
    """An entry in words and in fields: what it is, its citation, its sentences, every field that it
    sets as a file of one's own would, and what was assumed, reported and reproduced.
    """
    read = "its abstract alone" if method.read == "abstract" else f"the {method.read}"
    yield f"{method.title} ({method.slug}), listed under {method.group}; read from {read}"
    c = method.citation
    citation = (c.authors, c.title, str(c.year or ""), f"arXiv:{c.arxiv}" if c.arxiv else c.url)
    yield " ".join(f"{part.rstrip('.')}." for part in citation if part)
    for line in explained(method):
        yield f"  {line}"
    for name, engines in _engine_names(method).items():
        yield f"  Engines: {name} in {', '.join(engines)}."
    yield f"fields, as in a file of your own (rooftree methods new NAME --like {method.slug})"
    for key, value in method_document(method).items():
        if key not in (*LABELS, "engines"):
            yield from _field_lines(key, value)
    if method.assumed:
        yield "assumed, since what was read does not say it"
        yield from (f"  {line}" for line in method.assumed)
    if method.reported:
        yield "published"
        yield from (f"  {_reported_words(reported)}" for reported in method.reported)
    if method.reproduced:
        yield "held against what was published by"
        yield from (f"  {test}" for test in method.reproduced)


def _engine_names(method: Method) -> Mapping[str, list[str]]:
    """Engines by what they call a method."""
    engines: dict[str, list[str]] = {}
    for engine, name in method.engines.items():
        engines.setdefault(name, []).append(engine)
    return engines


def _field_lines(path: str, value: Any) -> Iterator[str]:
    """A line for every plain value within one of a method's document."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _field_lines(f"{path}.{key}", part)
    elif isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
        for index, part in enumerate(value):
            yield from _field_lines(f"{path}[{index}]" if len(value) > 1 else path, part)
    else:
        yield f"  {path} = {json.dumps(value)}"


def _reported_words(reported: Reported) -> str:
    """A published number with what it was measured on."""
    r = reported
    batch = f"batch {r.batch}" if r.batch else ""
    words = ", ".join(filter(None, (r.model, r.draft, r.device, batch, r.data, r.note)))
    return f"{r.quantity.replace('_', ' ')} {r.value:g}: {words} ({r.source})"


def changes(method: Method) -> list[str]:
    """What of an entry makes a text another one than the target's; empty where nothing does."""
    refine, verify = method.refine, method.verify
    reasons = [_LOSSY_RULES[verify.rule]] if verify.rule in _LOSSY_RULES else []
    if verify.relaxed:
        reasons.append("more of a draft stays than the rule alone would keep")
    if refine is not None and refine.commit not in EXACT_COMMITS:
        reasons.append("tokens are committed while others around them are unknown")
    for transform in method.target:
        if not (isinstance(transform, WeightTransform) and transform.is_exact):
            reasons.append(_LOSSY_CHANGES[type(transform)])
    if method.advance is not None:
        reasons.append(method.advance.text_changes)
    return reasons


def trace_level(method: Method) -> int:
    """Least level of a recording that tells what the method's own verifier keeps; 0: no recording
    does.
    """
    if not method.draft:
        return 0
    if method.shape.kind == "dynamic_tree" or method.verify.rule in _PROBABILITIES:
        return 3
    if method.stop.rule in ("probability", "product", "gain", "cost"):
        return 3
    return 2 if method.shape.kind in ("static_tree", "state_trees") else 1


def bibtex(method: Method) -> str:
    """The citation of an entry as BibTeX, with what is known of it."""
    c = method.citation
    lines = {
        "title": c.title,
        "author": " and ".join(re.sub(r" et al\.$", ", others", c.authors).split(", ")),
        "year": str(c.year or ""),
        "eprint": c.arxiv,
        "archivePrefix": "arXiv" if c.arxiv else "",
        "url": c.url,
    }
    body = ",\n".join(f"  {key} = {{{value}}}" for key, value in lines.items() if value)
    return f"@misc{{{method.slug},\n{body}\n}}"


def _when(method: Method) -> str:
    return f", {method.exact_when}" if method.exact_when else ""


def _drafting(method: Method) -> Iterator[str]:
    for place, stage in enumerate(method.draft):
        yield (
            f"{'Drafts' if not place else 'Drafts for that'}: {_stage(stage)} (costmodel/drafters)."
        )
    if not method.draft:
        return
    s, v = method.shape, method.verify
    law = "prompt_states" if s.kind == "state_trees" else "drafting"
    if method.stop.rule in ("ema", *WEIGHING):
        law = "controllers"
    yield (
        f"Shape: {_SHAPES[s.kind]}{_sizes(s)}; it ends by {method.stop.rule}"
        f" (costmodel/laws/{law}.py)."
    )
    layers = " behind the drafter's last layer" if v.remaining_layers else ""
    yield (
        f"Verify: one pass of the target{layers}, {v.rule}{' and more' * v.relaxed}"
        " (costmodel/laws/acceptance)."
    )
    if v.pruned_after < 1.0:
        yield (
            f"{1.0 - v.pruned_ratio:.0%} of the draft leaves the pass after {v.pruned_after:.0%} of"
            " the layers."
        )
    b = method.batch
    if b.fan_out:
        missed = "waits for a draft" if b.on_miss == "wait" else "has none"
        yield (
            f"Batch: drafts for {b.fan_out} tokens behind every accepted length are made during"
            f" verification; a step of another outcome {missed} (costmodel/laws/outcomes.py)."
        )
    elif b.drafts_during_verify or b.parts > 1:
        yield "Batch: drafting and verifying overlap (costmodel/laws/batching.py)."
    elif b != type(b)():
        yield f"Batch: slots {b.slots}, lengths {b.ragged} (simulator)."


def _stage(stage: Draft) -> str:
    words = [_BY[stage.by]]
    if stage.layers is not None:
        words.append(
            f"{stage.layers:.0%} of its layers"
            if stage.layers < 1
            else f"{stage.layers:g} layer{'s' * (stage.layers != 1)}"
        )
    if stage.by in ("model", "target", "head", "heads"):
        pace = {0: "all levels in one pass", 1: "one level a pass"}.get(
            stage.depths_per_pass, f"{stage.depths_per_pass} levels a pass"
        )
        words.append(f"{stage.passes} passes whatever the length" if stage.passes else pace)
    if stage.context_tokens is not None:
        words.append(f"over {stage.context_tokens:,} cached tokens")
    if stage.context_ratio < 1.0:
        words.append(f"over {stage.context_ratio:.0%} of the text")
    if stage.host_s:
        words.append(f"{1e3 * stage.host_s:g} ms on the host")
    if stage.may_propose_nothing:
        words.append("with no proposal in some steps")
    return ", ".join(words)


def _sizes(s: Shape) -> str:
    sizes = f" of {s.nodes} draft tokens" if s.nodes else ", of a size that is searched"
    sizes += f", {s.guesses} of them side by side" if s.guesses > 1 else ""
    sizes += (
        f", as long as one brings more than {s.cost_ratio:.2%} of a step's time"
        if s.cost_ratio
        else ""
    )
    return sizes + (f" with {s.riding} more query tokens in the pass" if s.riding else "")


def _own_pace(method: Method) -> Iterator[str]:
    match method.refine or method.advance:
        case Refine() as r:
            copies = f", of {r.copies} sequences a request" if r.copies > 1 else ""
            pace = f"{r.tokens_per_pass:g} committed a pass ({r.commit})"
            yield (
                f"Refines: blocks of {method.shape.nodes} tokens, {pace}"
                " (costmodel/laws/refining.py)."
            )
            part = "" if r.computed_ratio == 1.0 else f"{r.computed_ratio:.0%} of "
            yield (
                f"A pass computes {part}the {_FORWARDS[r.forward]}{copies}"
                " (costmodel/answers/steps/refine_step.py)."
            )
            if r.full_passes or r.closing_passes:
                stored = f" and {r.closing_passes} that only store it" if r.closing_passes else ""
                yield f"A block takes {r.full_passes} of prompt and canvas{stored}, among its passes."
            yield from _beside(method, r)
        case Advance() as advance:
            yield f"{advance.summary} ({_ADVANCE})."
            for stage in advance.writes_first:
                yield f"Written first: {_stage(stage)} (costmodel/drafters)."
        case None:
            return


def _beside(method: Method, r: Refine) -> Iterator[str]:
    """What else passes over masked blocks do, where they do."""
    if r.begin_ratio < 1.0:
        yield (
            f"A block begins at {r.begin_ratio:.0%} of the one before:"
            f" {blocks_in_flight(method):.1f} at once."
        )
    for every, whole in ((r.full_every, "prompt and canvas"), (r.canvas_every, "the canvas")):
        if every:
            yield f"One in {every} of the other passes renews {whole}."
    if r.stores_along:
        yield "What was committed is computed once more within a later pass, which stores it."
    if r.auxiliary:
        yield f"{r.auxiliary} reads the same tokens in every pass."
    if r.vocab_state_bytes:
        yield f"{r.vocab_state_bytes:g} bytes are kept per open token and entry of the vocabulary."
    if method.batch.ragged == "pad":
        yield "Requests of a batch begin blocks together: each waits for the slowest."


def _changed(method: Method) -> Iterator[str]:
    for transform in method.target:
        yield f"Target: {_CHANGES[type(transform)]}."
    for key, value in method.deployment.items():
        yield (
            f"Deployment: {key} = {value}, unless the question states it"
            " (costmodel/answers/settings.py)."
        )
    if method.host_s:
        yield f"Host: {1e3 * method.host_s:g} ms of every step."
