"""How is a pass run without launching its kernels one by one?

Passes of fixed shape: so many rows, tokens and slots, whose inputs lie in buffers that stay where
they are. On CUDA such a pass is captured once and replayed; elsewhere the same function runs as it
is. It asks the device nothing and depends on no number of the host that changes: what a row sees
follows from its length, on the device. Leaves out which layers can be captured: experts one by one
cannot, since the host must know which were hit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hardware_profiles.errors import InputError
from real_runs.models.attention import VisibleSlots, stacked, visible_slots, within_window
from real_runs.models.cache import KVCache, Slots
from real_runs.models.llama import Llama
from real_runs.models.prefix_attention import runs_flash, tail_bias

BUCKET_SLOTS = 256
_WARM_UPS = 2


class StaticPass:
    """One pass of fixed shape over the rows of a cache.

    Attention looks at `slots` slots of every row and masks what a row does not have. The
    memory-efficient kernel of torch takes such a mask on CUDA, aligned where `slots` is a multiple
    of 8, but one block of it reads a whole cache. Where all rows start at slots - tokens that start
    can be stated, and kernels that split a long cache are used, in the models and number formats
    that they serve.

    Args:
        model: the model.
        cache: its rows stay the batch; the pass writes them and commits nothing.
        tokens: tokens per row.
        slots: slots that attention looks at, at most the cache's capacity.
        settled: whether every run starts all rows at slots - tokens.
        chain: whether every run lets a token see those before it and itself, and no `among` is
            given.

    Raises:
        InputError: slots that the cache does not have, or rotary frequencies that change within
            them.
    """

    def __init__(
        self,
        model: Llama,
        cache: KVCache,
        *,
        tokens: int,
        slots: int,
        settled: bool = False,
        chain: bool = False,
    ) -> None:
        if not tokens <= slots <= cache.capacity:
            raise InputError(f"must lie in {tokens}..{cache.capacity}", key="slots", value=slots)
        self.model, self.cache, self.slots = model, cache, slots
        self.settled, self.chain = slots - tokens if settled else 0, chain
        device, batch = model.device, cache.batch
        self._ids = torch.zeros(batch, tokens, dtype=torch.int64, device=device)
        self._starts = torch.zeros(batch, dtype=torch.int64, device=device)
        self._positions = torch.zeros(batch, tokens, dtype=torch.int64, device=device)
        self._among = torch.zeros(batch, tokens, tokens, dtype=torch.bool, device=device)
        self._causal = torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril()
        self._steps = torch.arange(tokens, device=device)
        self._cos, self._sin = model._rotary.table(slots)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits = torch.empty(0)

    @torch.inference_mode()
    def run(
        self,
        tokens: torch.Tensor | Sequence[Sequence[int]],
        *,
        starts: Sequence[int] | None = None,
        positions: torch.Tensor | None = None,
        among: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Load the inputs and run the pass.

        Args:
            tokens: ids [B, T].
            starts: first slot to write in every row; the cache's lengths by default.
            positions: position of every token [T] or [B, T]; slots by default.
            among: bool [T, T] or [B, T, T], which tokens of the pass a token sees; those before it
                and itself by default. What is committed is seen by all.

        Returns:
            float32 logits [B, T, vocabulary]; the next run overwrites them.

        Raises:
            InputError: rows that reach past the pass's slots, or other rows than those stated.
        """
        self.load(tokens, starts=starts, positions=positions, among=among)
        return self.replay()

    def load(
        self,
        tokens: torch.Tensor | Sequence[Sequence[int]],
        *,
        starts: Sequence[int] | None = None,
        positions: torch.Tensor | None = None,
        among: torch.Tensor | None = None,
    ) -> None:
        """Put the inputs where the pass reads them; arguments and errors of `run`."""
        first = self.cache.lengths if starts is None else list(starts)
        if (
            len(first) != self._ids.shape[0]
            or min(first) < 0
            or max(first) + self._ids.shape[1] > self.slots
        ):
            rule = (
                f"must be {self._ids.shape[0]} rows whose {self._ids.shape[1]} tokens end within"
                f" {self.slots} slots"
            )
            raise InputError(rule, key="starts", value=first)
        if self.settled and set(first) != {self.settled}:
            raise InputError(f"must be {self.settled} in all rows", key="starts", value=first)
        if self.chain and among is not None:
            raise InputError("must not be given for a chain", key="among", value=tuple(among.shape))
        self._ids.copy_(torch.as_tensor(tokens))
        self._starts.copy_(torch.tensor(first))
        self._positions.copy_(
            self._starts[:, None] + self._steps if positions is None else positions
        )
        self._among.copy_(self._causal if among is None else among)

    @torch.inference_mode()
    def replay(self) -> torch.Tensor:
        """Run the pass over the inputs loaded last: one launch on CUDA, and nothing is copied."""
        if self.model.device.type != "cuda":
            return self._pass()
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()
        return self._logits

    def _pass(self) -> torch.Tensor:
        model, slots = self.model, self.slots
        place = Slots(index=self._starts[:, None] + self._steps, stop=slots)
        angles = self._cos[self._positions][:, :, None], self._sin[self._positions][:, :, None]
        visible = self._visible()
        x = model._embedded(self._ids, self._positions)
        for index in range(model.config.layers):
            x = model._layer(index, x, self.cache, start=place, rotation=angles, mask=visible)
        return model.head(x)

    def _visible(self) -> VisibleSlots:
        model, slots = self.model, self.slots
        group = model.config.heads // model.config.kv_heads
        if self.settled and runs_flash(model.device, model.dtype) and model.attends_plainly:
            if self.chain:
                return VisibleSlots(chain=True)
            return VisibleSlots(
                settled=self.settled, tail=tail_bias(self._among, group, model.dtype)
            )
        visible = visible_slots(self._starts, self._among, slots)
        windows: dict[int, torch.Tensor | None] = {
            window: stacked(
                visible & within_window(self._starts, self._positions, slots, window), group
            )
            for window in model.windows
        }
        return VisibleSlots(full=stacked(visible, group), windows=windows)

    def _capture(self) -> None:
        """Capture the pass; the warm-up before it writes the same slots with the same values."""
        stream = torch.cuda.Stream(self.model.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.model.device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self._pass()
        torch.cuda.current_stream(self.model.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._logits = self._pass()
        self._graph = graph
