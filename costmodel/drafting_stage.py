"""Who proposes tokens: one stage of drafting, as data.

A `Method` holds one or several of them. Leaves out the networks that they stand for
(`costmodel.drafters`).
"""

from dataclasses import dataclass
from typing import Literal

from costmodel.transforms.declared import Transform

Proposer = Literal["lookup", "model", "target", "head", "heads", "rows"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """One stage of drafting. Stages nest: each one is drafted for by the next (TriForce).

    Args:
        by: who proposes. `lookup`: text on the host; `model`: a draft model; `target`: the target
            itself, up to `layers` or under `transforms`; `head`: layers on the target's features;
            `heads`: output heads without layers; `rows`: query tokens that ride on the verify pass.
        layers: layers of a pass: a count, a share of the target's (below 1), or None for all of the
            model's own.
        first_layers: its layers are the target's first ones; False: they are spread over it (Draft
            & Verify).
        dense_layers: the layers of a head have one dense feed-forward even where the target's have
            experts.
        inputs: vectors of the hidden width that a matrix fuses into one before the first layer of
            every pass; 1: no such matrix.
        features: vectors of the hidden width, of layers of the target, that a matrix fuses into one
            once a step for the tokens that were verified; 1: no such matrix. Later passes take the
            drafter's own.
        attention_inputs: vectors of the hidden width that the first layer's queries, keys and
            values read.
        vocab: tokens of the drafter's own output head, at most the target's; None: it shares the
            target's.
        matrices: (outputs, inputs) of further matrices, in hidden widths; one set per depth if
            `heads`.
        heads: output heads that are held, of a stage by `heads`; each drafts one level.
        depths_per_pass: levels that one pass drafts: 1 for serial drafting, 0 for all of them at
            once.
        serial_depths: levels drafted one by one before the rest comes in one pass; None: all levels
            alike.
        passes: passes of a step whatever its length (denoising steps); 0: they follow from the
            depth.
        context_tokens: cached tokens that a pass reads at most; None: no such budget.
        context_ratio: cached tokens and prompt tokens that a pass reads, over the target's
            (retrieved text, images that were summarised).
        transforms: of the draft passes alone (sparse attention, skipped layers, 4-bit weights).
        rereads: the first pass of a step runs over the tokens of the last verify pass.
        own_cache: it holds keys and values beside the target's; False: it shares them or has none.
        host_s: seconds of work on the host per step.
        may_propose_nothing: in some steps it has no proposal, and the step takes one token.
        tokens: of a stage that drafts for another: its draft tokens per inner step.
        acceptance: of such a stage: share of its tokens that the stage it drafts for keeps, if
            those before were.
    """

    by: Proposer
    layers: float | None = None
    first_layers: bool = True
    dense_layers: bool = True
    inputs: int = 1
    features: int = 1
    attention_inputs: int = 1
    vocab: int | None = None
    matrices: tuple[tuple[float, float], ...] = ()
    heads: int = 0
    depths_per_pass: int = 1
    serial_depths: int | None = None
    passes: int = 0
    context_tokens: int | None = None
    context_ratio: float = 1.0
    transforms: tuple[Transform, ...] = ()
    rereads: bool = False
    own_cache: bool = True
    host_s: float = 0.0
    may_propose_nothing: bool = False
    tokens: int = 0
    acceptance: float = 0.0
