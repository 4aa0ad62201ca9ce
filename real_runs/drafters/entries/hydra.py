"""Hydra: heads that read the tokens drafted before theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from real_runs.drafters.drafter import RecordedDrafter
from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.head_store import HeadStore
from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.heads.hydra_heads import HEADS, HydraHeads, HydraReader, HydraText
from real_runs.drafters.heads.state_heads_fit import fit_hydra_heads
from real_runs.drafters.node_drafters import trained_drafter
from real_runs.drafters.observed import by_depth_drafter
from real_runs.models.llama import Llama

TRAINING = HeadTraining(steps=60, learning_rate=5e-4)


def observed_hydra_heads(
    model: Llama,
    heads: HydraHeads,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """What the heads would have drafted."""
    return by_depth_drafter(
        HydraText(model, heads),
        limits,
        heads.heads,
        title=(
            f"{heads.heads} heads over the target's last state and the tokens drafted before theirs"
        ),
        parameters=parameters,
        notes=(
            "a node's candidates follow from the state before the step's last known token and from"
            " the node's whole path."
        ),
    )


def trained_hydra_heads(
    store: HeadStore, training: HeadTraining = TRAINING, *, heads: int = HEADS
) -> tuple[HydraHeads, dict[str, Any]]:
    """The heads and the parameters that tell them from others."""
    return store.trained(
        HydraHeads(store.model.config, heads=heads),
        "hydra-heads",
        training,
        fit_hydra_heads,
        shape={"heads": heads},
        title="Hydra heads",
    )


DRAFTER = trained_drafter(
    method="hydra",
    trained=lambda target: trained_hydra_heads(target.heads),
    observed=observed_hydra_heads,
    reader=HydraReader,
)
