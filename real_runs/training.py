"""How is a network trained, stopped and gone on with, and how is it stored?

One optimiser and one schedule, a checkpoint from which training goes on bit for bit, and a
safetensors file that is used again only for the very same recipe. Leaves out losses and data:
whoever trains states them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from hardware_profiles.whole_file import whole_file

_WARMUP_RATIO = 0.05
_LARGEST_NORM = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """Where unfinished training is kept.

    Attributes:
        path: of the file; it is removed by whoever stored the trained network.
        recipe: everything that the network depends on; training goes on after the same recipe
            alone.
        every_steps: between two writes.
    """

    path: Path
    recipe: dict[str, str]
    every_steps: int = 100


def minimise(
    module: nn.Module,
    loss: Callable[[int, torch.Generator], torch.Tensor],
    *,
    steps: int,
    learning_rate: float,
    second_beta: float,
    seed: int,
    checkpoint: Checkpoint | None = None,
    report: Callable[[int, int, float], None] | None = None,
) -> None:
    """Train a network in place by AdamW: a linear rise of the learning rate, then half a cosine
    down to zero.

    Args:
        module: whose parameters change.
        loss: called with the step's number and the one source of randomness. With a checkpoint it
            must depend on these and the parameters alone.
        steps: of the optimiser.
        learning_rate: after the rise.
        second_beta: decay of the mean square of gradients; that of the mean is 0.9.
        seed: of the randomness.
        checkpoint: from which training goes on where there is one, and where it is kept. None:
            nowhere.
        report: called with (steps done, steps, loss).
    """
    generator = torch.Generator().manual_seed(seed)
    parameters = dict(module.named_parameters())
    optimiser = torch.optim.AdamW(
        parameters.values(), lr=learning_rate, betas=(0.9, second_beta), weight_decay=0.01
    )
    first = _resumed(parameters, optimiser, generator, checkpoint) if checkpoint else 0
    for step in range(first, steps):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * _warmed(step, steps)
        optimiser.zero_grad()
        value = loss(step, generator)
        value.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters.values(), _LARGEST_NORM)
        optimiser.step()
        if checkpoint and (step + 1) % checkpoint.every_steps == 0:
            _keep(parameters, optimiser, generator, checkpoint, step + 1)
        if report:
            report(step + 1, steps, float(value.detach()))


def save_module(module: nn.Module, recipe: dict[str, str], path: Path) -> None:
    """Write a network and its recipe as safetensors, whole or not at all."""
    _save({name: value.detach() for name, value in module.state_dict().items()}, recipe, path)


def load_module(module: nn.Module, recipe: dict[str, str], path: Path) -> bool:
    """Fill a network from a file that this very recipe made; False, and nothing changed, where
    there is none.
    """
    tensors = _load({name: value.shape for name, value in module.state_dict().items()}, path)
    if tensors is None or tensors[1] != recipe:
        return False
    module.load_state_dict(tensors[0])
    return True


def module_sha256(module: nn.Module) -> str:
    """Digest of the values."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode() + value.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _warmed(step: int, steps: int) -> float:
    """Share of the learning rate."""
    warmup = max(1, round(_WARMUP_RATIO * steps))
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


_MOMENTS = ("exp_avg", "exp_avg_sq")


def _keep(
    parameters: dict[str, nn.Parameter],
    optimiser: torch.optim.Optimizer,
    generator: torch.Generator,
    checkpoint: Checkpoint,
    done: int,
) -> None:
    tensors = {"generator": generator.get_state()}
    for name, value in parameters.items():
        tensors[f"weights/{name}"] = value.detach()
        tensors |= {f"{moment}/{name}": optimiser.state[value][moment] for moment in _MOMENTS}
    _save(tensors, checkpoint.recipe | {"done": str(done)}, checkpoint.path)


def _resumed(
    parameters: dict[str, nn.Parameter],
    optimiser: torch.optim.Optimizer,
    generator: torch.Generator,
    checkpoint: Checkpoint,
) -> int:
    """Steps that a checkpoint of this recipe holds, and all state set to it; 0, and nothing, where
    there is none.
    """
    shapes = {
        f"{kind}/{name}": value.shape
        for name, value in parameters.items()
        for kind in ("weights", *_MOMENTS)
    }
    stored = _load(shapes | {"generator": generator.get_state().shape}, checkpoint.path)
    if stored is None:
        return 0
    tensors, recipe = stored
    done = recipe.pop("done", "")
    if recipe != checkpoint.recipe or not done.isdecimal():
        return 0
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(tensors[f"weights/{name}"])
            moments: dict[str, Any] = {
                moment: tensors[f"{moment}/{name}"].clone() for moment in _MOMENTS
            }
            optimiser.state[value] = moments | {"step": torch.tensor(float(done))}
    generator.set_state(tensors["generator"])
    return int(done)


def _save(tensors: dict[str, torch.Tensor], recipe: dict[str, str], path: Path) -> None:
    with whole_file(path) as part:
        part.write_bytes(
            save({name: value.contiguous() for name, value in tensors.items()}, recipe)
        )


def _load(
    shapes: dict[str, torch.Size], path: Path
) -> tuple[dict[str, torch.Tensor], dict[str, str]] | None:
    """Tensors of just these names and shapes, and the recipe beside them; None for every other
    file.
    """
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as stored:
            if set(stored.keys()) != set(shapes):
                return None
            tensors = {name: stored.get_tensor(name) for name in shapes}
            recipe = dict(stored.metadata() or {})
    except (SafetensorError, OSError, ValueError):
        return None
    return (
        (tensors, recipe)
        if all(tensors[name].shape == shape for name, shape in shapes.items())
        else None
    )
