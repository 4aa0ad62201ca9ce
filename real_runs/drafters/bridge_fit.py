"""Which linear bridge carries an early exit to the last layer best?

Closed-form ridge regression from one layer's hidden states to the last one's, and a file that keeps
the result. Leaves out which text it is fitted on (`fit_data`) and training of any other kind.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file
from real_runs.models.bridge import Bridge, unit_rms
from real_runs.models.llama import Llama

_FORMAT = "1"


@dataclass(frozen=True, kw_only=True, slots=True)
class FitRecipe:
    """Everything a fitted bridge depends on.

    Attributes:
        model_sha256: digest of the weights.
        dtype: number format that the model runs in.
        exit_layer: layers before the exit.
        ridge: penalty per token.
        data: the fit data in words.
        data_sha256: its digest.
    """

    model_sha256: str
    dtype: str
    exit_layer: int
    ridge: float
    data: str
    data_sha256: str


def fit_bridge(
    model: Llama, sequences: Sequence[Sequence[int]], *, exit_layer: int, ridge: float
) -> Bridge:
    """Fit the bridge: minimise the mean of |y - W x - c|^2 plus ridge · (|W|^2 + |c|^2).

    Both sides have a root mean square of 1, since the norms after them undo any scale. The first
    token of every sequence, whose state is of another size altogether, is left out.

    Args:
        model: the target.
        sequences: token ids, each of two or more.
        exit_layer: layers before the exit, 1..layers-1.
        ridge: penalty per token, > 0.

    Raises:
        InputError: an exit outside the model, no penalty, or no data.
    """
    layers, width = model.config.layers, model.config.width
    if not 1 <= exit_layer < layers:
        raise InputError(f"must lie in 1..{layers - 1}", key="exit_layer", value=exit_layer)
    if not ridge > 0:
        raise InputError("must be > 0", key="ridge", value=ridge)
    gram = torch.zeros(width + 1, width + 1, dtype=torch.float64)
    cross = torch.zeros(width + 1, width, dtype=torch.float64)
    count = 0
    for sequence in sequences:
        if len(sequence) < 2:
            raise InputError("must have two tokens or more", key="sequences", value=len(sequence))
        cache = model.new_cache(len(sequence))
        states = model.forward(sequence, cache, logits="none", capture=(exit_layer, layers)).hidden
        x = unit_rms(states[exit_layer][0, 1:].double().cpu())
        y = unit_rms(states[layers][0, 1:].double().cpu())
        x = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], dim=1)
        gram += x.T @ x
        cross += x.T @ y
        count += len(x)
    if not count:
        raise InputError("must not be empty", key="sequences")
    solved = torch.linalg.solve(
        gram + ridge * count * torch.eye(width + 1, dtype=torch.float64), cross
    )
    weight, bias = solved[:-1].T.float().contiguous(), solved[-1].float().contiguous()
    return Bridge(exit_layer=exit_layer, weight=weight, bias=bias, fit_tokens=count)


def save_bridge(bridge: Bridge, recipe: FitRecipe, path: Path) -> None:
    """Write a bridge and its recipe as safetensors, whole or not at all."""
    with whole_file(path) as part:
        metadata = _metadata(recipe, bridge.fit_tokens)
        part.write_bytes(save({"weight": bridge.weight, "bias": bridge.bias}, metadata))


def load_bridge(path: Path, recipe: FitRecipe) -> Bridge | None:
    """Read a bridge if one fitted by exactly this recipe lies there; None otherwise."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as stored:
            metadata = stored.metadata() or {}
            tokens = int(metadata.get("tokens", "0"))
            if metadata != _metadata(recipe, tokens):
                return None
            weight, bias = stored.get_tensor("weight"), stored.get_tensor("bias")
    except (SafetensorError, OSError, ValueError):
        return None
    return Bridge(exit_layer=recipe.exit_layer, weight=weight, bias=bias, fit_tokens=tokens)


def bridge_sha256(bridge: Bridge) -> str:
    """Digest of the values; a file's bytes would not do, since the order of its header is not
    fixed.
    """
    digest = hashlib.sha256(bridge.weight.numpy().tobytes())
    digest.update(bridge.bias.numpy().tobytes())
    return digest.hexdigest()


def _metadata(recipe: FitRecipe, tokens: int) -> dict[str, str]:
    return {
        "format": _FORMAT,
        "tokens": str(tokens),
        "recipe": json.dumps(asdict(recipe), sort_keys=True),
    }
