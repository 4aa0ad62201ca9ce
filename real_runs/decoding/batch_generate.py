"""What do several requests write when their tokens share passes?

Plain decoding of prompts of different lengths in one batch, each with its own sampler; the same
tokens as `generate` one by one, rounding aside. Prompts are padded on the right and read in one
pass. Leaves out requests that arrive later and drafting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from real_runs.decoding.generate import Generation, limits_of_batch
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.stopping import StopRule
from real_runs.models.llama import Llama


@dataclass(kw_only=True, slots=True, eq=False)
class _Row:
    request: int
    sampler: Sampler
    stop: StopRule
    output: list[int] = field(default_factory=list)


def generate_batch(
    model: Llama,
    prompts: Sequence[Sequence[int]],
    samplers: Sequence[Sampler],
    *,
    max_new_tokens: int | Sequence[int],
) -> list[Generation]:
    """Decode several requests together.

    A request that ends leaves the batch: the last row's keys and values move into its place once,
    which costs one copy of that row, whereas a dead row would be read again in every later pass.

    Args:
        model: the target.
        prompts: ids of every request, at least one id each.
        samplers: one per request.
        max_new_tokens: length limit of all requests or of each, >= 1.

    Returns:
        One generation per request, in their order.

    Raises:
        InputError: no prompts, a number of samplers or limits that differs from theirs, an empty
            prompt, or one that leaves no room for the answer.
    """
    limits = limits_of_batch(model, prompts, samplers, max_new_tokens)
    rows = [
        _Row(request=request, sampler=sampler, stop=StopRule(model.config.eos_ids, limit))
        for request, (sampler, limit) in enumerate(zip(samplers, limits, strict=True))
    ]
    lengths, longest = [len(prompt) for prompt in prompts], max(map(len, prompts))
    cache = model.new_cache(longest + max(limits), batch=len(rows))
    padded = [[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts]
    result = model.forward(padded, cache, at=[length - 1 for length in lengths])
    cache.commit(lengths)
    finished: dict[int, Generation] = {}
    while True:
        assert result.logits is not None
        ended: list[int] = []
        for place, row in enumerate(rows):
            row.output += row.sampler.tokens(result.logits[place], len(row.output))
            ending = row.stop.after(row.output[-1])
            if ending is not None:
                finished[row.request] = Generation(tokens=tuple(row.output), ended=ending)
                ended.append(place)
        for place in reversed(ended):  # from the end, so that a row moved down has been looked at
            cache.release(place)
            rows[place] = rows[-1]
            rows.pop()
        if not rows:
            return [finished[request] for request in range(len(prompts))]
        result = model.forward([row.output[-1:] for row in rows], cache)
        cache.commit(1)
