"""What does `optimize` choose for a cell of prompts, context and batch?

Asks the product's own front door with the calibrated device and the recordings of the cell's
prompts. Lengths that loop costs are fitted on are not offered. Leaves out running the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.recommend import recommend
from costmodel.passes.deployment import Deployment
from real_runs.drafters.registry import load_drafter
from real_runs.trials.trials import PromptCell
from real_runs.validation.configurations import FITTED_CHAINS, Configuration
from real_runs.validation.own_loop.recordings import Recordings, cell_traces

OFFERED_CHAINS = tuple(k for k in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16) if k not in FITTED_CHAINS)
OFFERED_TREES = (4, 8, 16)


def chosen_configuration(
    recordings: Recordings,
    cell: PromptCell,
    drafters: Sequence[str],
    *,
    deployment: Deployment,
    profile: str,
    model: str,
    folder: Path,
    seed: int,
) -> Configuration:
    """The configuration that `optimize` names for a cell.

    Args:
        recordings: of the cell's prompts.
        cell: prompts, batch and context.
        drafters: that may run here; token recycling is left out, for it replays at its own trees
            alone.
        deployment: precision and fidelity.
        profile: device, by name or file.
        model: shipped name of the target.
        folder: for the cell's traces.
        seed: of the search.
    """
    able = [
        name
        for name in drafters
        if load_drafter(name).any_shape and (cell.batch == 1 or load_drafter(name).serves_batches)
    ]
    files = cell_traces(recordings, cell, able, folder)
    trace = next(iter(recordings.traces.values()))
    places = [trace.request_ids.index(prompt) for prompt in cell.prompts]
    middle = float(np.mean(trace.prompt_tokens[places] + trace.output_tokens[places] / 2))
    weights = deployment.precision.label
    question = DecodingConfiguration(
        deployment=DeploymentNames(
            model=model,
            device=profile,
            engine="none",
            dtype=weights,
            kv_dtype=weights,
            fidelity=deployment.fidelity,
            split_verify=deployment.split_verify,
        )
    )
    batched = len(cell.prompts) >= 2
    recommendation = recommend(
        question,
        list(files.values()),
        batches=[cell.batch],
        contexts=[round(middle)],
        draft_tokens=OFFERED_CHAINS,
        tree_sizes=OFFERED_TREES if batched else (),
        seed=seed,
    )
    best = recommendation.winners[0]
    if best.topology == "off":
        return Configuration()
    drafter = list(files)[best.contender.source]
    return Configuration(
        drafter=drafter, draft_tokens=best.acceptance.draft_tokens, tree=best.acceptance.tree
    )
