"""Which output head reads the state of an early layer best?

The bridge of the early exit, from one layer's state to the last one's, times the model's own norm
and head: one matrix, which a draft model that is cut there carries in place of both. The bridge's
constant is left out, since a head of the Llama family adds none. Leaves out the file (`cut_draft`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from real_runs.models.loading.weights import LoadedWeights

RIDGE = 1e-3
_HELP_CHARACTERS = 24_000


def fitted_head(model: Path, layers: int) -> NDArray[np.float32]:
    """A head for the model's first layers, fitted on help topics of the Python standard library.

    Args:
        model: a GGUF file or a folder.
        layers: that are run before it, fewer than all.

    Returns:
        float32 [vocabulary, width], for states divided by their root mean square; right up to a
        factor, which greedy drafts do not see.

    Raises:
        InputError: no such model, or as many layers as it has.
    """
    # these load torch, which `models` needs for a fitted head alone
    from real_runs.drafters.heads.fit_data import FitData
    from real_runs.models.llama import Llama
    from real_runs.models.loading.tokenizer import Tokenizer
    from real_runs.models.loading.weights import find_model, load_weights

    source = find_model(model)
    weights = load_weights(source)
    text = FitData(questions=(), answers=0, help_characters=_HELP_CHARACTERS, seed=0)
    return head_after(weights, text.sequences(Llama(weights), Tokenizer(source.path)), layers)


def head_after(
    weights: LoadedWeights, sequences: Sequence[Sequence[int]], layers: int
) -> NDArray[np.float32]:
    """The head that is fitted on some text.

    Args:
        weights: of the whole model.
        sequences: token ids, each of two or more.
        layers: that are run before the head.

    Raises:
        InputError: as many layers as the model has, or no text.
    """
    from real_runs.drafters.bridge_fit import fit_bridge
    from real_runs.models.llama import Llama

    bridge = fit_bridge(Llama(weights), sequences, exit_layer=layers, ridge=RIDGE)
    name = "model.embed_tokens.weight" if weights.config.tied_head else "lm_head.weight"
    head = weights.tensors[name] * weights.tensors["model.norm.weight"]
    return np.asarray((head @ bridge.weight).numpy(), dtype=np.float32)
