"""What does a machine need for a pass, when other work on it held up some of the times?

The faster half of the rounds of every shape, as rows of a kernel trace: whole steps under the mask
"causal", prompts under the mask "prompt". A step's row holds all that lies between two tokens of a
stream: pass, sampling, drafting by lookup, detokenising and sending one token. So the engine's own
overheads are 0 beside such rows, but for what prompts take beyond their pass (`prompt_intake_s`)
and further tokens of a step add (`accepted_token_s`): nothing counts twice. Leaves out what the
passes are made of (`fit`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.measured import PROMPT
from costmodel.passes.precision import main_format
from real_runs.calibration.server.shapes import TimedSample
from traces.storage.kernels import KernelRow


def faster_half(seconds: Sequence[float]) -> list[float]:
    """The faster half of repeats, rounded up, ascending: what was held up by other work is always
    slower.
    """
    return sorted(seconds)[: -(-len(seconds) // 2)]


def prompt_intake_s(samples: Sequence[TimedSample]) -> float:
    """What a prompt takes beyond its pass: parsing, choosing a slot, sampling and sending the first
    token.

    The time to the first token of a prompt that is cached but for one token, less a step of one
    request there; 0 where no such prompt was seen.
    """
    one_step: dict[int, list[float]] = defaultdict(list)
    cached: list[tuple[int, float]] = []
    for sample in samples:
        if (sample.part, sample.requests, sample.query_tokens) == ("causal", 1, 1):
            one_step[sample.context].append(sample.seconds)
        elif sample.part == "intake":
            cached.append((sample.context, sample.seconds))
    if not cached or not one_step:
        return 0.0
    steps = {context: median(faster_half(seconds)) for context, seconds in one_step.items()}
    beyond = [
        seconds - steps[min(steps, key=lambda measured: abs(measured - context))]
        for context, seconds in cached
    ]
    return max(0.0, median(faster_half(beyond)))


def accepted_token_s(samples: Sequence[TimedSample]) -> float:
    """What an accepted draft token takes beside its place in the pass: sampling, detokenising and
    sending it.

    The step of one request whose drafts are all accepted, less the same step whose drafts are not,
    by draft token; 0 where either was not seen.
    """
    accepted = [sample for sample in samples if sample.part == "accepted"]
    if not accepted:
        return 0.0
    shape = accepted[0]
    rejected: dict[int, list[float]] = defaultdict(list)
    for sample in samples:
        if (sample.part, sample.requests, sample.query_tokens) == ("causal", 1, shape.query_tokens):
            rejected[sample.context].append(sample.seconds)
    if not rejected:
        return 0.0
    contexts = sorted(rejected)
    alike = np.interp(
        shape.context, contexts, [median(faster_half(rejected[sample])) for sample in contexts]
    )
    beyond = median(faster_half([sample.seconds for sample in accepted])) - float(alike)
    return max(0.0, beyond / (shape.query_tokens - 1))


def rows_of(
    samples: Sequence[TimedSample], deployment: Deployment, *, intake_s: float
) -> list[KernelRow]:
    """Rows of a kernel trace, one per shape.

    Args:
        samples: of all rounds.
        deployment: model and formats; the device does not matter.
        intake_s: taken off every prompt.
    """
    times: dict[tuple[str, int, int, int], list[float]] = defaultdict(list)
    for sample in samples:
        if sample.part in ("causal", "prompt"):
            beyond = intake_s if sample.part == "prompt" else 0.0
            times[sample.part, sample.requests, sample.query_tokens, sample.context].append(
                sample.seconds - beyond
            )
    rows = []
    for (part, requests, tokens, context), seconds in sorted(times.items()):
        positive = [sample for sample in faster_half(seconds) if sample > 0.0]
        if positive:
            mask = PROMPT if part == "prompt" else "causal"
            rows.append(_row(deployment, mask, requests, tokens, context, positive, len(seconds)))
    return rows


def _row(
    deployment: Deployment,
    mask: str,
    requests: int,
    tokens: int,
    context: int,
    seconds: list[float],
    measured: int,
) -> KernelRow:
    a: Architecture = deployment.architecture
    prompt = mask == PROMPT
    cost = pass_cost(
        deployment,
        batch=requests,
        query_tokens=tokens,
        context=context,
        prefill=prompt,
        logits="last" if prompt else "all",
    )
    layer = max(a.blocks, key=lambda pair: pair[1])[0].attention
    return KernelRow(
        job="server",
        operation="step",
        implementation="server",
        dtype=main_format(deployment.precision.weights),
        mask=mask,
        requests=requests,
        query_tokens=tokens,
        context=context,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        head_dim=layer.head_dim,
        rows=requests * tokens,
        outputs=a.vocab,
        inputs=a.hidden,
        model=a.name,
        layers=a.layers,
        median_s=median(seconds),
        low_s=min(seconds),
        high_s=max(seconds),
        repeats=len(seconds),
        discarded=measured - len(seconds),
        cold=True,
        graph=False,
        flops=float(cost.flops),
        bytes=float(cost.bytes),
    )
