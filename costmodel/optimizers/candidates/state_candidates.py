"""Which trees of candidates and prompt tokens does a source of acceptance let us compare?

The best trees of every size, at what is known of the candidates' ranks: recorded, counted by level
and rank, or rates by level under the law of siblings. Leaves out the search for the trees
(`costmodel.optimizers.trees.state_trees`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodel.laws.acceptance import (
    ASSUMED_SIBLINGS,
    Acceptance,
    DepthRates,
    geometric,
    sibling_rates,
)
from costmodel.laws.prompt_states import recorded_acceptance, state_acceptance, state_law
from costmodel.method import Method
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.trees.state_trees import best_state_trees
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.state_trees import StateTrees
from traces.replay.bootstrap import RequestDraws
from traces.replay.statistics import sibling_vectors

SIZES = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
WIDTH = 10  # candidates of a level that are looked at, as in the published code


def state_candidates(
    source: Source, sizes: Sequence[int], draws: RequestDraws | None = None
) -> list[Acceptance]:
    """Trees of the given sizes for a method whose shape is `state_trees`; size 0 is plain decoding.

    Trees of a recording are built from its ranks and replayed on all of it, as chains are.

    Args:
        source: where acceptance is known from.
        sizes: most candidates and prompt tokens behind them.
        draws: of the requests, for recordings; None: no samples.

    Raises:
        InputError: a size out of range, or nothing known of the candidates.
    """
    method = load_method(source.method)
    vectors, remark = known_vectors(source, method.shape.depth)
    candidates = []
    for size in sizes:
        if size == 0:
            candidates.append(geometric(0.0, 0))
            continue
        chosen = best_state_trees(vectors, size, method.shape.depth)
        if source.positions is None:
            acceptance = state_acceptance(chosen.states, chosen.law, method.shape, note=remark)
            candidates.append(
                replace(acceptance, samples=_samples(source, chosen.states, method.shape.depth))
            )
        else:
            candidates.append(
                recorded_acceptance(
                    source.positions, chosen.states, draws, method.shape, note=remark
                )
            )
    return candidates


def _samples(source: Source, states: StateTrees, levels: int) -> Array:
    """Tokens per step of trees over the ways in which stated acceptance may go on; empty where it
    is known.
    """
    counted = (
        source.trace is not None
        and source.trace.summary is not None
        and source.trace.summary.sibling_vectors
    )
    if source.rates is None or counted:
        return np.zeros(0)

    def emitted(case: DepthRates) -> float:
        return state_law(
            states, [np.asarray(row) for row in sibling_rates(case, levels, WIDTH)]
        ).tokens_per_step

    return source.rates.samples(levels, emitted)


def known_vectors(source: Source, levels: int) -> tuple[Sequence[Sequence[float]], str]:
    """Probability of every candidate by level and rank, and what was assumed of it; empty for
    nothing.

    Args:
        source: where acceptance is known from.
        levels: most levels of a tree.

    Raises:
        InputError: a recording of lengths alone, or stated tokens per step.
    """
    if source.positions is not None:
        return recorded_vectors(source.positions, levels), ""
    summary = source.trace.summary if source.trace is not None else None
    if summary is not None and summary.sibling_vectors:
        return [list(vector) for vector in summary.sibling_vectors], ""
    if source.rates is None:
        rule = (
            "are those of one size of tree; rates by position tell of others, or a recording with"
            " ranks"
        )
        raise InputError(rule, key="tokens_per_step", value=source.own_tokens_per_step)
    remark = "; ".join(part for part in (ASSUMED_SIBLINGS, source.rates.remark_at(levels)) if part)
    return sibling_rates(source.rates, levels, WIDTH), remark


def recorded_vectors(trace: AcceptanceTrace, levels: int) -> list[list[float]]:
    """Probability of every candidate by level and rank on a recording.

    Args:
        trace: level 2 or more.
        levels: most levels; fewer where fewer were recorded.

    Raises:
        InputError: no ranks.
    """
    trace.require(2, "trees of prompt tokens")
    depth = levels if trace.depth is None else min(levels, trace.depth)
    vectors: list[list[float]] = sibling_vectors(
        trace, min(WIDTH, trace.rank_width), depth
    ).tolist()
    return vectors


def recorded_trees(trace: AcceptanceTrace, method: Method, size: int) -> StateTrees:
    """The best trees of a size on a recording, for a method whose shape is `state_trees`.

    Args:
        trace: level 2 or more.
        method: the entry.
        size: most candidates and prompt tokens behind them.

    Raises:
        InputError: no ranks, or a size out of range.
    """
    levels = method.shape.depth
    return best_state_trees(recorded_vectors(trace, levels), size, levels).states
