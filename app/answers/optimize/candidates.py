"""What does `optimize` compare, whatever it searches: which drafters and shapes of their drafts, or
which policies of masked blocks?
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.answers.optimize.masked import MaskedPolicies
from app.questions.groups import DraftingOptions, StoredOptions, values_in
from app.questions.optimize import DEFAULT_TREES, OptimizeQuestion
from app.questions.resolve.accepted import named_sources
from app.questions.resolve.configurations import named_shapes
from app.questions.resolve.unnamed import beside_own, unnamed
from costmodel.configuration import DecodingConfiguration
from costmodel.draft_shape import read_stop
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.recommend import DraftAxes
from traces.kinds.refine_policy import RefinePolicy


def deployment_options(question: OptimizeQuestion) -> dict[str, Any]:
    """What a question says of model, placement and drafter, by parameter."""
    return {
        **values_in(StoredOptions, question),
        **values_in(DraftingOptions, question),
        **{
            name: getattr(question, name)
            for name in ("model", "method", "pp", "ep", "dp", "fidelity")
        },
    }


def draft_axes(
    question: OptimizeQuestion, policies: Sequence[RefinePolicy] | None = None
) -> DraftAxes:
    """What may be drafted.

    Args:
        question: what is asked.
        policies: of masked blocks, which compete in the place of drafts; None: drafts do.

    Raises:
        InputError: a stop rule or shapes that make no sense, or that contradict other options.
    """
    stated = {"--draft-tokens": question.draft_tokens, "--stop": question.stop}
    trees = () if question.tree_nodes == DEFAULT_TREES else question.tree_nodes
    return DraftAxes(
        draft_tokens=question.draft_tokens,
        tree_sizes=[size for size in question.tree_nodes if size],
        stop=read_stop(question.stop, key="--stop") if question.stop else None,
        shapes=named_shapes(question.shape, {**stated, "--tree-nodes": trees}),
        policies=policies,
        against=question.against,
        match_rate=question.match_rate,
        by_context=question.by_context,
    )


def asked_drafters(
    question: OptimizeQuestion,
    configuration: DecodingConfiguration,
    axes: DraftAxes,
    masked: MaskedPolicies | None = None,
) -> tuple[DecodingConfiguration, list[Source]]:
    """The drafters that a question names, or the usual ones of what it leaves open, and what is
    asked of them.

    Args:
        question: what is asked.
        configuration: of one model, device and engine.
        axes: what may be drafted.
        masked: policies of masked blocks, which compete in the place of drafts.

    Raises:
        InputError: options that contradict each other, or drafters of which nothing is known.
    """
    if masked is not None:
        return replace(configuration, canvas_tokens=masked.canvas_tokens), list(masked.sources)
    sources = named_sources(
        question,
        question.trace or (),
        method=question.method,
        model=configuration.deployment.model,
        lengths=question.draft_tokens or (),
    )
    if sources:
        return configuration, beside_own(configuration, sources, question.drafter)
    recorded = (
        bool(question.stop)
        or any(shape.needs_recording for shape in axes["shapes"] or ())
        or question.tree_nodes not in (DEFAULT_TREES, (0,))
    )
    return unnamed(
        configuration, question.method, recorded=recorded, match_rate=question.match_rate
    )
