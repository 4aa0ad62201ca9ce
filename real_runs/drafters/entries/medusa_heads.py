"""Medusa: independent heads for the tokens after the next one."""

from __future__ import annotations

from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.heads.medusa_heads import MedusaHeads, MedusaReader, MedusaText
from real_runs.drafters.heads.state_heads_fit import fit_medusa_heads
from real_runs.drafters.node_drafters import TrainedHead

MEDUSA_HEADS: TrainedHead[MedusaHeads] = TrainedHead(
    method="medusa",
    title="Medusa heads",
    training=HeadTraining(steps=60, learning_rate=5e-4),
    blank=lambda model, options: MedusaHeads(model.config),
    size=lambda heads: {"heads": heads.heads},
    fit=fit_medusa_heads,
    levels=lambda heads: heads.heads,
    text=MedusaText,
    reader=MedusaReader,
    drafted_by=lambda heads: f"{heads.heads} independent heads over the target's last state",
    notes=lambda heads: (
        "all candidates of a step follow from the state before its last known token, so a node's"
        " depend on its depth alone."
    ),
)
DRAFTER = MEDUSA_HEADS.drafter()
