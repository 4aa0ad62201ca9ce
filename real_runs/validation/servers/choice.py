"""What does `optimize` choose for a server's cell?

The product's own front door is asked once for every length of n-gram that is looked up, and for the
draft model. Of its answers, and plain decoding, the one is chosen that is predicted fastest step by
step. Leaves out running it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.recommend import recommend
from real_runs.trials.trials import PromptCell
from real_runs.validation.servers.configurations import (
    DRAFT_TOKENS,
    NGRAM_FORMS,
    ServerConfiguration,
    drafted,
    looked_up,
    plain,
)
from real_runs.validation.servers.predict import Predict
from real_runs.validation.servers.recordings import KnownPrompts
from traces.storage.acceptance_file import write_acceptance


def chosen_for(
    cell: PromptCell,
    recorded: KnownPrompts,
    base: DecodingConfiguration,
    folder: Path,
    predict: Predict,
    *,
    draft: bool,
    seed: int,
) -> ServerConfiguration:
    """The fastest configuration by the product's own optimiser.

    Args:
        cell: prompts, slots and context.
        recorded: answers to these prompts among others.
        base: model, device and engine, with slots and length.
        folder: for the cell's traces.
        predict: what a configuration should take for prompts that are sent together.
        draft: the draft model may be chosen, too.
        seed: of the search.
    """
    folder.mkdir(parents=True, exist_ok=True)
    forms = defaultdict[int, list[int]](list)
    for size, draft_tokens in NGRAM_FORMS:
        forms[size].append(draft_tokens)
    drafters = [
        (
            replace(base, ngram_min=size, ngram_max=size),
            looked_up(base, size, max(lengths)),
            lengths,
        )
        for size, lengths in forms.items()
    ]
    if draft:
        drafters.append((base, drafted(base, max(DRAFT_TOKENS)), list(DRAFT_TOKENS)))
    configurations = [plain(base)]
    for number, (question, longest, lengths) in enumerate(drafters):
        trace = recorded.drafts(longest, cell.prompts)
        middle = round(float(np.mean(trace.prompt_tokens + trace.output_tokens / 2)))
        file = folder / f"{number}.parquet"
        write_acceptance(trace, file)
        best = recommend(
            question,
            [file],
            batches=[cell.batch],
            contexts=[middle],
            draft_tokens=lengths,
            tree_sizes=(),
            seed=seed,
        ).winners[0]
        if best.topology != "off":
            configurations.append(
                ServerConfiguration(
                    chosen=replace(longest.chosen, draft_tokens=best.acceptance.draft_tokens)
                )
            )

    def rate(served: ServerConfiguration) -> float:
        runs = [predict(served, group, ()).run for group in cell.groups]
        return sum(run.tokens for run in runs) / sum(run.decode_s for run in runs)

    return max(configurations, key=rate)
