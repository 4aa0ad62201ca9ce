"""How long until a prompt's first token, once there is a place for it beside requests that decode?

For what is left of the running iteration, for those that the engine has composed already, for the
prompts received with it, and for its own iterations. Leaves out waiting for a place (`loads`) and
what a prompt takes (`replicas`).
"""

from dataclasses import dataclass, replace

import numpy as np

from costmodel.answers.estimate import Setting, prefill_s
from costmodel.passes.ops import Array, Number

_MOST_SHARE = 0.999  # of the time that prompts take, so that no sum over iterations is infinite


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Prompts:
    """What prompts take of a replica; arrays that broadcast with its batches.

    Args:
        mean_s: mean time that a prompt adds, all its chunks together.
        square: mean of its square, s^2.
        iterations: that it is spread over, on average, >= 1.
        filled: iterations whose room it fills, on average; below 1 where several prompts share one.
        alone_s: mean time of a prompt that nobody decodes beside.
    """

    mean_s: Array
    square: Array
    iterations: Array
    filled: Array
    alone_s: Array

    def slower(self, ratio: Array) -> "Prompts":
        """The same where everything takes `ratio` times as long."""
        return replace(
            self,
            mean_s=self.mean_s * ratio,
            square=self.square * ratio**2,
            alone_s=self.alone_s * ratio,
        )


def first_token_s(
    prompts: Prompts, step_s: Array, *, arrivals: Array, composed: int, residual_ratio: float
) -> Array:
    """Mean time to first token among requests that decode, once there is a place.

    An iteration takes a decode step and the prompts of all who arrived while another one ran. A
    request waits for what is left of the running iteration, for those that are composed already,
    and then runs in iterations of its own, beside the prompts that arrived with it. Where prompts
    together are more than the iterations' room, they queue.

    Args:
        prompts: what prompts take beside decoding requests.
        step_s: of a decode step.
        arrivals: requests per second whose prompts wait for each other.
        composed: iterations that are composed already.
        residual_ratio: 0.5 where requests arrive at any time, 0 where they arrive when an iteration
            ends.

    Reference: iterations as gated service, whose mean square follows from that of the prompts
    (Takagi 1986, "Analysis of Polling Systems"); Pollaczek-Khinchine for M/G/1 where room is short.
    """
    share = np.minimum(arrivals * prompts.mean_s, _MOST_SHARE)
    iteration = step_s / (1.0 - share)
    seen = iteration + arrivals * prompts.square / (
        1.0 - share**2
    )  # mean square over mean: as an arrival sees it
    lasting = (
        prompts.mean_s + prompts.filled * step_s
    )  # a prompt, in iterations without room for more
    full = np.minimum(arrivals * lasting, _MOST_SHARE)
    longer = (lasting / np.maximum(prompts.mean_s, 1e-12)) ** 2 - 1.0
    queue = arrivals * prompts.square * longer / (2.0 * (1.0 - full))
    own = prompts.mean_s + prompts.iterations * step_s
    return np.asarray(residual_ratio * seen + composed * iteration + share * seen + queue + own)


def unloaded_first_token_s(
    setting: Setting, *, prompt_tokens: Number, batch: Array, step_s: Array, drafts: bool
) -> Array:
    """Time to first token of a prompt that joins a batch which decodes, and to which nobody else
    comes.

    Args:
        setting: target, device, drafter and engine.
        prompt_tokens: length of the prompt; broadcasts with the rest.
        batch: requests in flight, the prompt's own among them.
        step_s: of their decode step.
        drafts: the drafter processes prompts too.
    """
    alone = np.asarray(prefill_s(setting, prompt_tokens=prompt_tokens, drafts=drafts))
    waits = np.where(batch > 1.0, (1.0 + composed_iterations(setting)) * step_s, 0.0)
    return np.asarray(alone + waits)


def composed_iterations(setting: Setting) -> int:
    """Iterations that an engine has composed already, beside the one that runs, when a request
    arrives.
    """
    scheduler = setting.engine.scheduler
    return int(scheduler is not None and scheduler.overlapped_scheduling)
