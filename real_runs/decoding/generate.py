"""What does the target write by itself, one token a pass?

Plain decoding with an optional look at layers' hidden states and at the logits: the reference that
speculative decoding must equal, and the run that acceptance is recorded from. Leaves out drafting.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
        hidden: per output position the captured layer's hidden state [n, width] that it was
            predicted from; None where none was asked for.
        logits: per output position the logits that it was drawn from, float32 [n, vocabulary]; None
            where not asked for.
        seconds: times measured: "prefill_wall_s" and "prefill_cpu_s" up to the first token,
            "decode_wall_s" and "decode_cpu_s" after it; CPU seconds are those of all threads of the
            process.
    """

    tokens: tuple[int, ...]
    ended: str
    hidden: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


def generate(
    model: Llama,
    prompt: Sequence[int],
    sampler: Sampler,
    *,
    max_new_tokens: int,
    capture_layer: int | None = None,
    keep_logits: bool = False,
) -> Generation:
    """Decode one request.

    Args:
        model: the target.
        prompt: its ids, at least one.
        sampler: greedy or seeded sampling.
        max_new_tokens: length limit, >= 1.
        capture_layer: keep the hidden states after this many layers, as `hidden`.
        keep_logits: keep the logits that every token was drawn from.

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
    logits: list[torch.Tensor] = []
    ended = None
    clock = [_now()]
    while ended is None:
        result = model.forward(pending, cache, logits="last", capture=captured)
        cache.commit(len(pending))
        assert result.logits is not None
        pending = sampler.tokens(result.logits[0], len(output))
        output += pending
        hidden += [states[0, -1:] for states in result.hidden.values()]
        if keep_logits:
            logits.append(result.logits[0].float())
        if len(output) == 1:
            clock.append(_now())
        ended = stop.after(output[-1])
    clock.append(_now())
    return Generation(
        tokens=tuple(output),
        ended=ended,
        hidden=torch.cat(hidden) if hidden else None,
        logits=torch.cat(logits) if keep_logits else None,
        seconds={
            f"{phase}_{kind}_s": clock[step + 1][which] - clock[step][which]
            for step, phase in enumerate(("prefill", "decode"))
            for which, kind in enumerate(("wall", "cpu"))
        },
    )


def _now() -> tuple[float, float]:
    """Wall and CPU clocks; drawing a token has waited for the device."""
    return time.perf_counter(), time.process_time()


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


def limits_of_batch(
    model: Llama,
    prompts: Sequence[Sequence[int]],
    samplers: Sequence[Sampler],
    max_new_tokens: int | Sequence[int],
) -> list[int]:
    """The length limit of each of several requests, whose prompts fit.

    Raises:
        InputError: no prompts, a number of samplers or limits that differs from theirs, or as
            `check_room`.
    """
    limits = (
        [max_new_tokens] * len(prompts) if isinstance(max_new_tokens, int) else list(max_new_tokens)
    )
    for key, count in (("samplers", len(samplers)), ("max_new_tokens", len(limits))):
        if count != len(prompts) or not prompts:
            raise InputError(
                f"must be one for each of {len(prompts)} prompts", key=key, value=count
            )
    for prompt, limit in zip(prompts, limits, strict=True):
        check_room(model, prompt, limit)
    return limits
