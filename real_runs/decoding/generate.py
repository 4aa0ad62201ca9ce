"""What does the target write by itself, one token a pass?

Plain decoding with an optional look at a layer's hidden states: the reference that speculative decoding
must equal, and the run that acceptance is recorded from. Leaves out drafting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.stopping import StopRule
from real_runs.models.llama import Llama


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One generated text.

    Attributes:
        tokens: output ids, the end-of-sequence token included.
        ended: "eos", "length" or "loop".
        hidden: per output position the captured layer's hidden state [n, width] that it was predicted from;
            None where none was asked for.
    """

    tokens: tuple[int, ...]
    ended: str
    hidden: torch.Tensor | None = None


def generate(
    model: Llama,
    prompt: Sequence[int],
    sampler: Sampler,
    *,
    max_new_tokens: int,
    capture_layer: int | None = None,
) -> Generation:
    """Decode one request.

    Args:
        model: the target.
        prompt: its ids, at least one.
        sampler: greedy or seeded sampling.
        max_new_tokens: length limit, >= 1.
        capture_layer: keep the hidden states after this many layers.

    Raises:
        InputError: an empty prompt, or one that leaves no room for the answer.
    """
    check_room(model, prompt, max_new_tokens)
    captured = () if capture_layer is None else (capture_layer,)
    cache, stop = (
        model.new_cache(len(prompt) + max_new_tokens),
        StopRule(model.config.eos_ids, max_new_tokens),
    )
    pending = list(prompt)
    output: list[int] = []
    hidden: list[torch.Tensor] = []
    ended = None
    while ended is None:
        result = model.forward(pending, cache, logits="last", capture=captured)
        cache.commit(len(pending))
        assert result.logits is not None
        pending = sampler.tokens(result.logits[0], len(output))
        output += pending
        if capture_layer is not None:
            hidden.append(result.hidden[capture_layer][0, -1:])
        ended = stop.after(output[-1])
    return Generation(tokens=tuple(output), ended=ended, hidden=torch.cat(hidden) if hidden else None)


def check_room(model: Llama, prompt: Sequence[int], max_new_tokens: int) -> None:
    """Insist on a prompt that exists and fits.

    Raises:
        InputError: it does not.
    """
    room = model.config.max_positions - max_new_tokens
    if max_new_tokens < 1 or not 1 <= len(prompt) <= room:
        raise InputError(
            f"prompt must have 1..{room} tokens beside {max_new_tokens} new ones",
            key="prompt",
            value=len(prompt),
        )
    if min(prompt) < 0 or max(prompt) >= model.config.vocabulary:
        raise InputError(f"ids must lie in 0..{model.config.vocabulary - 1}", key="prompt")
