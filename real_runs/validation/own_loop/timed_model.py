"""Where does the time of a real decoding loop go, whichever loop it is?

A model that a loop runs as its target and that keeps the size and times of every pass, with a store
of prompts already read so that configurations that run beside each other read them once; and a
drafter that is timed. Leaves out the loops (`decoding`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from real_runs.decoding.drafting import learner_of
from real_runs.decoding.timed_pass import TimedPass
from real_runs.decoding.times import now
from real_runs.drafters.layer_skip import LayerSkip
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama, PassOutput

MOST_STORED_BYTES = 6 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """What reading prompts left: keys and values of all layers, lengths not yet committed, and the
    output.
    """

    keys: torch.Tensor
    values: torch.Tensor
    output: PassOutput

    @property
    def bytes(self) -> int:
        logits = 0 if self.output.logits is None else self.output.logits.nbytes
        return self.keys.nbytes + self.values.nbytes + logits


class TimedModel(Llama):
    """A target whose passes are timed and whose prompts are read once.

    A pass over an empty cache is the prefill: the first time it runs, later its keys and values are
    copied from the store. The clock of the loop starts when it is over.

    Args:
        model: the target; weights are shared.

    Attributes:
        passes: since `begin`.
        prefill_s: seconds of the prefill that ran since `begin`; 0 where the store had it.
    """

    def __init__(self, model: Llama) -> None:
        self.__dict__.update(model.__dict__)
        self.passes: list[TimedPass] = []
        self.prefill_s = 0.0
        self._stored: dict[tuple[Any, ...], _Read] = {}
        self._started: tuple[float, float] | None = None

    def begin(self) -> None:
        """Forget the passes of the run before."""
        self.passes, self._started, self.prefill_s = [], None, 0.0

    def since_prefill(self) -> tuple[float, float]:
        """Wall and process seconds since the last prefill was over."""
        wall, cpu = now(self.device)
        assert self._started is not None
        return wall - self._started[0], cpu - self._started[1]

    def forward(
        self,
        tokens: torch.Tensor | Sequence[int] | Sequence[Sequence[int]],
        cache: KVCache,
        **options: Any,
    ) -> PassOutput:
        """Run and time one pass; arguments and result are those of `Llama.forward`."""
        if (
            not any(cache.lengths)
            and options.get("start") is None
            and options.get("stop_after") is None
        ):
            outputs = {"logits": "all", "at": None, "capture": ()} | options
            return self._prefill(
                tokens, cache, **{name: outputs[name] for name in ("logits", "at", "capture")}
            )
        context, began = max(cache.lengths), now(self.device)[0]
        output = super().forward(tokens, cache, **options)
        wall = now(self.device)[0] - began
        count = len(tokens[0]) if isinstance(tokens[0], Sequence) else len(tokens)
        self.passes.append(
            TimedPass(requests=cache.batch, query_tokens=count, context=context, wall_s=wall)
        )
        return output

    def _prefill(
        self,
        tokens: Any,
        cache: KVCache,
        *,
        logits: Literal["all", "last", "none"],
        at: Sequence[int] | None,
        capture: Sequence[int],
    ) -> PassOutput:
        rows = torch.as_tensor(tokens).tolist()
        rows = rows if isinstance(rows[0], list) else [rows]
        prompts, count = tuple(map(tuple, rows)), len(rows[0])
        key = (prompts, logits, tuple(at or ()), tuple(capture))
        read = self._stored.get(key)
        if read is None:
            began = now(self.device)[0]
            output = super().forward(tokens, cache, logits=logits, at=at, capture=capture)
            self.prefill_s = now(self.device)[0] - began
            read = _Read(
                keys=cache.keys[:, :, :, :count].clone(),
                values=cache.values[:, :, :, :count].clone(),
                output=output,
            )
            self._keep(key, read)
        else:
            cache.keys[:, :, :, :count] = read.keys
            cache.values[:, :, :, :count] = read.values
        self._started = now(self.device)
        return read.output

    def _keep(self, key: tuple[Any, ...], read: _Read) -> None:
        """Store, and let the oldest go while there is too much."""
        self._stored[key] = read
        while (
            len(self._stored) > 1
            and sum(read.bytes for read in self._stored.values()) > MOST_STORED_BYTES
        ):
            self._stored.pop(next(iter(self._stored)))


class TimedDraft:
    """A drafter whose calls are timed; the time to read the prompt before its first draft is stored
    separately.

    Args:
        propose: any form of proposer.
        device: waited for at the borders of calls.

    Attributes:
        seconds: of drafting, and of learning from the target's answers.
        prompt_s: of reading the prompt.
        reader: of the proposer, for loops that show it states.
        learn: takes the target's answers, timed once decoding has begun; None where the proposer
            wants none.
    """

    def __init__(self, propose: Callable[..., Any], device: torch.device) -> None:
        self._propose, self._device = propose, device
        self.reader = getattr(propose, "reader", None)
        self._learner = learner_of(propose)
        self.learn = self._learn if self._learner else None
        self.seconds = self.prompt_s = self.prompt_cpu_s = 0.0
        self._begun = False

    def __call__(self, *arguments: Any) -> Any:
        """Propose, timed."""
        if not self._begun:
            self._read_prompt(*arguments)
        began = now(self._device)[0]
        proposal = self._propose(*arguments)
        self.seconds += now(self._device)[0] - began
        return proposal

    def _learn(self, tokens: Sequence[int], logits: torch.Tensor) -> None:
        assert self._learner is not None
        began = now(self._device)[0]
        self._learner(tokens, logits)
        if self._begun:
            self.seconds += now(self._device)[0] - began

    def _read_prompt(self, *arguments: Any) -> None:
        """A drafter with a cache of its own reads the prompt when it is first asked."""
        self._begun = True
        wall, cpu = now(self._device)
        for part in (self._propose, self.reader):
            if isinstance(part, LayerSkip):
                part.after_prefix(arguments[0][:-1], arguments[1])
        later = now(self._device)
        self.prompt_s, self.prompt_cpu_s = later[0] - wall, later[1] - cpu
