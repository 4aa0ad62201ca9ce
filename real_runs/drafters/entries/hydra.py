"""Hydra: heads that read the tokens drafted before theirs."""

from __future__ import annotations

from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.heads.hydra_heads import HydraHeads, HydraReader, HydraText
from real_runs.drafters.heads.state_heads_fit import fit_hydra_heads
from real_runs.drafters.node_drafters import TrainedHead

HYDRA_HEADS: TrainedHead[HydraHeads] = TrainedHead(
    method="hydra",
    title="Hydra heads",
    training=HeadTraining(steps=60, learning_rate=5e-4),
    blank=lambda model, options: HydraHeads(model.config),
    size=lambda heads: {"heads": heads.heads},
    fit=fit_hydra_heads,
    levels=lambda heads: heads.heads,
    text=HydraText,
    reader=HydraReader,
    drafted_by=lambda heads: (
        f"{heads.heads} heads over the target's last state and the tokens drafted before theirs"
    ),
    notes=lambda heads: (
        "a node's candidates follow from the state before the step's last known token and from the"
        " node's whole path."
    ),
)
DRAFTER = HYDRA_HEADS.drafter()
