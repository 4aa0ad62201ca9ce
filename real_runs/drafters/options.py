"""Which options do drafters have?

Plain data, checked when made. Leaves out what is recorded (`real_runs.recording.options`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hardware_profiles.errors import InputError

DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True, slots=True)
class DrafterOptions:
    """How drafters are made, and what is kept of them.

    Attributes:
        level: 2: lengths and, where the drafter names candidates, ranks; 3: the probabilities of
            both models too, for drafters that have any.
        candidates: whose probabilities are kept per position at level 3, 1..8.
        expansion_nodes: draft tokens of the tree that is kept per position, for drafters that have
            probabilities; 0: none is.
        ngram_sizes: of prompt lookup, longest first.
        least_match: shortest suffix that the suffix automaton drafts from, in tokens.
        most_draft_tokens: longest proposal of prompt lookup and of the suffix automaton.
        exit_layer: layers before the early exit; None: a third of them.
        skipped_layers: first layer that the layer skip leaves out, and first one after them; None:
            from two fifths to two thirds.
        skip_bridge: whether a fitted bridge crosses the skipped layers.
        draft_model: of the drafter "draft-model": a `.gguf` file or a Hugging Face folder; None:
            one is made out of the target.
        recycling_nodes: nodes of token recycling's tree, root included.
        retrieval_nodes: most draft tokens of the tree that a store of texts drafts.
        lookahead: window, n-gram size and guesses of the lookahead pool; the window is that of
            `jacobi`, too.
        cascade_tokens: draft tokens of a step of the cascade, and the most that are proposed to its
            draft model.
        prompt_tokens: trained embeddings that are read behind the text.
        head_steps: training steps of heads and of a draft model; None: what each kind is known to
            need.
        head_rows: rows of text that the model writes for heads to be trained on.
        head_row_tokens: tokens of every such row.
        ridge: penalty of a bridge's fit, per token.
        fit_characters: help text that the bridge is fitted on.
        fit_answers: answers to each fit question that it is fitted on, too.
        seed: of sampling.
        dtype: number format of weights and activations.

    Raises:
        InputError: a value out of range.
    """

    level: int = 2
    candidates: int = 8
    expansion_nodes: int = 0
    ngram_sizes: tuple[int, ...] = (3, 2, 1)
    least_match: int = 2
    most_draft_tokens: int = 20
    exit_layer: int | None = None
    skipped_layers: tuple[int, int] | None = None
    skip_bridge: bool = True
    draft_model: Path | None = None
    recycling_nodes: int = 80
    retrieval_nodes: int = 64
    lookahead: tuple[int, int, int] = (7, 5, 7)
    cascade_tokens: tuple[int, int] = (5, 3)
    prompt_tokens: int = 3
    head_steps: int | None = None
    head_rows: int = 160
    head_row_tokens: int = 320
    ridge: float = 1e-3
    fit_characters: int = 80_000
    fit_answers: int = 16
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        require(
            self,
            {
                "least_match": 1 <= self.least_match <= 1000,
                "most_draft_tokens": 1 <= self.most_draft_tokens <= 1000,
                "level": self.level in (2, 3),
                "candidates": 1 <= self.candidates <= 8,
                "expansion_nodes": 0 <= self.expansion_nodes <= 4096,
                "recycling_nodes": 1 <= self.recycling_nodes <= 1024,
                "retrieval_nodes": 1 <= self.retrieval_nodes <= 128,
                "lookahead": _within(self.lookahead, (1, 64), (2, 64), (1, 64)),
                "cascade_tokens": _within(self.cascade_tokens, (1, 1000), (0, 1000)),
                "prompt_tokens": 1 <= self.prompt_tokens <= 16,
                "head_steps": self.head_steps is None or 1 <= self.head_steps <= 1_000_000,
                "head_rows": 1 <= self.head_rows <= 100_000,
                "head_row_tokens": 8 <= self.head_row_tokens <= 8192,
                "fit_characters": 0 <= self.fit_characters <= 10_000_000,
                "fit_answers": 0 <= self.fit_answers <= 256,
                "dtype": self.dtype in DTYPES,
            },
        )


def require(options: object, rules: Mapping[str, bool]) -> None:
    """Insist on rules of some options, by their names.

    Raises:
        InputError: a rule that does not hold.
    """
    for key, holds in rules.items():
        if not holds:
            raise InputError(
                "is out of range, empty or holds a value twice",
                key=key,
                value=getattr(options, key),
            )


def _within(values: Sequence[int], *limits: tuple[int, int]) -> bool:
    """Whether there is a value for each of the limits, within them."""
    return len(values) == len(limits) and all(
        low <= value <= high for value, (low, high) in zip(values, limits, strict=True)
    )
