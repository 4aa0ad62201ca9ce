"""How long do expert layers take whose kernels were measured, when their experts lie on several
devices?

Measured of one device that holds all experts: seconds by tokens and by how many different experts
they visit. A device with an N-th of the experts does the work of an N-th of the group's tokens, and
visits an N-th of the experts; but its kernels have room for every choice of every token, and write,
activate and add up zeros where an expert lies elsewhere. Leaves out that some experts are more
popular than others: every device has the mean load.

Reference: vLLM, vllm/model_executor/layers/fused_moe/fused_moe.py, `TritonExperts.apply` and
`write_zeros_to_output`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costmodel.architectures.architecture import FeedForward
from costmodel.engine_library import load_engine
from costmodel.parallel.experts import gathered_exchange
from costmodel.parallel.plan import Link
from costmodel.passes.ops import distinct_experts
from hardware_profiles.errors import InputError
from hardware_profiles.places import is_place
from simulator.timing.engine_settings import EngineSettings
from simulator.timing.profile_files import Floats, read_rows


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MeasuredExperts:
    """Expert layers of one pass, by what a group of devices computes.

    Args:
        layers: with experts.
        shape: of each of them.
        devices: among which the experts are divided.
        tokens: sorted sizes that were measured.
        visited: of each size, the sorted numbers of different experts.
        seconds: of one layer at those.
        elsewhere_s: of one layer, for every choice of a token whose expert lies on another device.
    """

    layers: int
    shape: FeedForward
    devices: int
    tokens: Floats
    visited: tuple[Floats, ...]
    seconds: tuple[Floats, ...]
    elsewhere_s: float = 0.0

    def seconds_of(self, rows: float, tokens: float) -> float:
        """Seconds of all layers.

        Between measured sizes along straight lines, beyond the largest as the last two go on; fewer
        experts than were measured with so many tokens take the least time measured.

        Args:
            rows: tokens that the group's kernels compute, padding included, >= 0.
            tokens: as many of them choose their experts independently of each other.
        """
        if rows <= 0.0:
            return 0.0
        shape, rows_per_device = self.shape, rows / self.devices
        experts = (
            float(distinct_experts(tokens, shape.experts, shape.experts_per_token)) / self.devices
        )
        high = int(np.clip(np.searchsorted(self.tokens, rows_per_device), 1, self.tokens.size - 1))
        low_s, high_s = (
            float(np.interp(experts, self.visited[at], self.seconds[at])) for at in (high - 1, high)
        )
        share = (rows_per_device - self.tokens[high - 1]) / (
            self.tokens[high] - self.tokens[high - 1]
        )
        elsewhere = rows * shape.experts_per_token * (1.0 - 1.0 / self.devices)
        return self.layers * (
            low_s + max(float(share), 0.0) * (high_s - low_s) + elsewhere * self.elsewhere_s
        )

    def table(self, size: int) -> NDArray[np.float64]:
        """Seconds by tokens 0..size - 1, none of them padding."""
        return np.array([self.seconds_of(float(tokens), float(tokens)) for tokens in range(size)])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ExpertsOfRanks:
    """Seconds that ranks with experts of each other spend together in a pass.

    Args:
        experts: of the whole group.
        ranks: that have tokens of their own.
        link: between them.
        token_bytes: of a token's vector on its way to the experts, and as many on its way back.
        graph_rows: passes of at most so many rows run from a graph, and then every rank computes as
            many as the fullest.
    """

    experts: MeasuredExperts
    ranks: int
    link: Link
    token_bytes: float
    graph_rows: int

    def __call__(self, rows: Sequence[int]) -> float:
        """Seconds of dispatch, experts and combination in all layers.

        Args:
            rows: tokens of every rank in this pass; one for a rank that has nothing to do.
        """
        fullest, tokens = max(rows), float(sum(rows))
        computed = float(self.ranks * fullest) if fullest <= self.graph_rows else tokens
        sent = gathered_exchange(
            self.link,
            tokens=float(fullest),
            token_bytes=self.token_bytes,
            ranks=self.ranks,
            choices=self.experts.shape.experts_per_token,
        )
        moved = self.experts.layers * float(sent.dispatch_s + sent.combine_s)
        return moved + self.experts.seconds_of(computed, tokens)


def read_experts(prefix: str | Path, engine: EngineSettings) -> MeasuredExperts | None:
    """Expert layers of a profile; None where it has none.

    Args:
        prefix: path of the files up to `_moe.parquet`.
        engine: as it ran.

    Raises:
        InputError: a broken file, or one of a model without experts; no such file of a model with
            experts.
    """
    file = f"{prefix}_moe.parquet"
    routed = [
        (block.feed_forward, n)
        for block, n in engine.architecture.blocks
        if block.feed_forward.experts > 1
    ]
    if not is_place(file):
        if routed:
            raise InputError(f"no such file; {engine.model} has experts", file=file)
        return None
    if not routed:
        raise InputError(f"{engine.model} has no experts", file=file, key="tokens")
    # on one device, whatever the others share
    rows = read_rows(prefix, "moe", ("tokens", "activated_experts"), 1)
    tokens = np.unique(rows["tokens"]).astype(np.float64)
    if tokens.size < 2:
        raise InputError(
            "must be measured at two sizes or more", file=file, key="tokens", value=tokens.size
        )
    visited, seconds = [], []
    for size in tokens:
        own = rows["tokens"] == size
        order = np.argsort(rows["activated_experts"][own], kind="stable")
        visited.append(rows["activated_experts"][own][order].astype(np.float64))
        seconds.append(rows["s"][own][order])
    return MeasuredExperts(
        layers=sum(count for _, count in routed),
        shape=routed[0][0],
        devices=engine.expert_devices,
        tokens=tokens,
        visited=tuple(visited),
        seconds=tuple(seconds),
        elsewhere_s=_elsewhere_s(engine, routed[0][0]),
    )


def _elsewhere_s(engine: EngineSettings, shape: FeedForward) -> float:
    """Seconds to write zeros after both products, to activate them and to add them up, at the
    memory's rate.
    """
    if not engine.expert_parallel or engine.memory_bytes_per_s <= 0.0:
        return 0.0
    inner = shape.width * (2 if shape.gated else 1)
    values = 2 * inner + shape.width + 2 * engine.architecture.hidden
    return values * engine.precision.activation_bytes / engine.memory_bytes_per_s


def experts_of_ranks(experts: MeasuredExperts, engine: EngineSettings) -> ExpertsOfRanks:
    """What the ranks of an engine spend together.

    Raises:
        InputError: no link between them is stated.
    """
    if engine.link_bytes_per_s <= 0.0:
        raise InputError(
            "must be stated for tokens that go to experts of another rank", key="sim_config.link_bw"
        )
    return ExpertsOfRanks(
        experts=experts,
        ranks=engine.replicas,
        link=Link(bytes_per_s=engine.link_bytes_per_s, latency_s=engine.link_latency_s),
        token_bytes=engine.architecture.hidden * engine.precision.residual_bytes,
        graph_rows=load_engine("vllm").kernels.graph_rows,
    )
