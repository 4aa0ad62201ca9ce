"""Text that a tiny target wrote, as heads are trained on it."""

import torch

from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.drafters.heads.head_data import HeadText


def written_text(model, rows=12, length=60):
    """Rows that the target wrote greedily: what it will decode is alike."""
    tokens, states, ids, chances = [], [], [], []
    for seed in range(1, rows + 1):
        sampler = Sampler(temperature=0.7, seed=seed, request="t", positions=length)
        made = generate(model, [seed, 5], sampler, max_new_tokens=length - 2).tokens
        row = [seed, 5, *made, *([1] * length)][:length]
        read = model.forward(row, model.new_cache(length), capture=(4,))
        best = torch.softmax(read.logits[0], dim=-1).topk(16)
        state = read.hidden[4][0]
        tokens.append(row)
        states.append((state * torch.rsqrt(state.square().mean(-1, keepdim=True))).half())
        ids.append(best.indices.int())
        chances.append(best.values.half())
    return HeadText(
        tokens=torch.tensor(tokens),
        states={4: torch.stack(states)},
        likeliest=torch.stack(ids),
        probabilities=torch.stack(chances),
    )
