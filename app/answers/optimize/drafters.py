"""Which drafters, and which shapes of their drafts, does `optimize` compare?"""

from collections.abc import Sequence

from app.questions.optimize import DEFAULT_TREES, OptimizeQuestion
from app.questions.resolve.accepted import named_sources
from app.questions.resolve.configurations import named_shapes
from app.questions.resolve.unnamed import beside_own, unnamed
from costmodel.configuration import DecodingConfiguration
from costmodel.draft_shape import DraftShape
from costmodel.optimizers.drafters.sources import Source


def asked_drafters(
    question: OptimizeQuestion,
    configuration: DecodingConfiguration,
    shapes: Sequence[DraftShape] | None,
) -> tuple[DecodingConfiguration, list[Source]]:
    """The drafters that a question names, or the usual ones of what it leaves open, and what is
    asked of them.

    Args:
        question: what is asked.
        configuration: of one model, device and engine.
        shapes: of drafts; None: they are open.

    Raises:
        InputError: options that contradict each other, or drafters of which nothing is known.
    """
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
        or any(shape.needs_recording for shape in shapes or ())
        or question.tree_nodes not in (DEFAULT_TREES, (0,))
    )
    return unnamed(
        configuration, question.method, recorded=recorded, match_rate=question.match_rate
    )


def draft_shapes(question: OptimizeQuestion, *others: str) -> list[DraftShape] | None:
    """The only shapes that are compared; None where options leave them open.

    Args:
        question: whose `--shape` is read.
        others: further fields that say what is drafted, which do not go with it.
    """
    stated = {f"--{name.replace('_', '-')}": getattr(question, name) for name in others}
    trees = () if question.tree_nodes == DEFAULT_TREES else question.tree_nodes
    return named_shapes(question.shape, {**stated, "--tree-nodes": trees})
