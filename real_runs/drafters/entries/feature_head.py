"""Feature head: one layer over the target's states, as EAGLE trains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from real_runs.drafters.drafter import RecordedDrafter
from real_runs.drafters.early_exit import DRAFT_DEPTH
from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.feature_head import FeatureHead, FeatureHeadReader, FeatureHeadText
from real_runs.drafters.heads.feature_head_fit import (
    FeatureHeadTraining,
    default_capture,
    fit_feature_head,
)
from real_runs.drafters.heads.head_store import HeadStore
from real_runs.drafters.node_drafters import trained_drafter
from real_runs.drafters.observed import by_depth_drafter
from real_runs.models.llama import Llama

TRAINING = FeatureHeadTraining(steps=85, learning_rate=1e-3)


def observed_feature_head(
    model: Llama,
    head: FeatureHead,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """One layer over the target's states."""
    return by_depth_drafter(
        FeatureHeadText(model, head),
        limits,
        DRAFT_DEPTH,
        title=f"one-layer head over the target's states after {_listed(head.capture)} layers",
        parameters={**parameters, "capture": list(head.capture)},
        notes=(
            "the first level reads the target's states, deeper ones the head's own. Ranks come from"
            " passes over the whole text, where a step reads a few tokens at a time: a near tie may"
            " round the other way."
        ),
    )


def trained_feature_head(
    store: HeadStore, training: FeatureHeadTraining = TRAINING
) -> tuple[FeatureHead, dict[str, Any]]:
    """The head, which reads states of `default_capture`, and the parameters that tell it from
    others.
    """
    capture = tuple(default_capture(store.model.config.layers))
    return store.trained(
        FeatureHead(store.model.config, capture=capture),
        "feature-head",
        training,
        fit_feature_head,
        shape={"capture": list(capture)},
        options={"capture": capture},
        title="feature head",
        capture=capture,
    )


def _listed(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers[:-1])) + (" and " if len(layers) > 1 else "") + str(layers[-1])


DRAFTER = trained_drafter(
    method="eagle-3",
    trained=lambda target: trained_feature_head(target.heads),
    observed=observed_feature_head,
    reader=FeatureHeadReader,
)
