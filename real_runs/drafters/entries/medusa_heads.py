"""Medusa: independent heads for the tokens after the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from real_runs.drafters.drafter import RecordedDrafter
from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.head_store import HeadStore
from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.heads.medusa_heads import HEADS, MedusaHeads, MedusaReader, MedusaText
from real_runs.drafters.heads.state_heads_fit import fit_medusa_heads
from real_runs.drafters.node_drafters import trained_drafter
from real_runs.drafters.observed import by_depth_drafter
from real_runs.models.llama import Llama

TRAINING = HeadTraining(steps=60, learning_rate=5e-4)


def observed_medusa_heads(
    model: Llama,
    heads: MedusaHeads,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """What the heads would have drafted."""
    return by_depth_drafter(
        MedusaText(model, heads),
        limits,
        heads.heads,
        title=f"{heads.heads} independent heads over the target's last state",
        parameters=parameters,
        notes=(
            "all candidates of a step follow from the state before its last known token, so a"
            " node's depend on its depth alone."
        ),
    )


def trained_medusa_heads(
    store: HeadStore, training: HeadTraining = TRAINING, *, heads: int = HEADS
) -> tuple[MedusaHeads, dict[str, Any]]:
    """The heads and the parameters that tell them from others."""
    return store.trained(
        MedusaHeads(store.model.config, heads=heads),
        "medusa-heads",
        training,
        fit_medusa_heads,
        shape={"heads": heads},
        title="Medusa heads",
    )


DRAFTER = trained_drafter(
    method="medusa",
    trained=lambda target: trained_medusa_heads(target.heads),
    observed=observed_medusa_heads,
    reader=MedusaReader,
)
