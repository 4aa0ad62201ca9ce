"""Feature head: one layer over the target's states, as EAGLE trains it."""

from __future__ import annotations

from collections.abc import Sequence

from real_runs.drafters.early_exit import DRAFT_DEPTH
from real_runs.drafters.heads.feature_head import FeatureHead, FeatureHeadReader, FeatureHeadText
from real_runs.drafters.heads.feature_head_fit import (
    FeatureHeadTraining,
    default_capture,
    fit_feature_head,
)
from real_runs.drafters.node_drafters import TrainedHead


def _listed(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers[:-1])) + (" and " if len(layers) > 1 else "") + str(layers[-1])


FEATURE_HEAD: TrainedHead[FeatureHead] = TrainedHead(
    method="eagle-3",
    title="feature head",
    training=FeatureHeadTraining(steps=85, learning_rate=1e-3),
    blank=lambda model, options: FeatureHead(
        model.config, capture=default_capture(model.config.layers)
    ),
    size=lambda head: {"capture": list(head.capture)},
    fit=fit_feature_head,
    levels=lambda head: DRAFT_DEPTH,
    text=FeatureHeadText,
    reader=FeatureHeadReader,
    drafted_by=lambda head: (
        f"one-layer head over the target's states after {_listed(head.capture)} layers"
    ),
    notes=lambda head: (
        "the first level reads the target's states, deeper ones the head's own. Ranks come from"
        " passes over the whole text, where a step reads a few tokens at a time: a near tie may"
        " round the other way."
    ),
)
DRAFTER = FEATURE_HEAD.drafter()
