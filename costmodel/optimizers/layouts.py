"""How fast is every user, and how much does every device bring, over the ways to spread a model?

Tensor groups, and for models of experts data copies that share them; every draft length and every
batch of a grid. Leaves out pipeline stages, context groups and prompts (`rooftree predict --pp
--cp`, `rooftree simulate`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from costmodel.answers.estimate import Setting
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.front import Front
from costmodel.optimizers.pricing import Evaluation, evaluate
from hardware_profiles.errors import InputError

TENSOR = (1, 2, 4, 8)
EXPERT = (8, 16, 32)  # data copies of attention, over which experts are spread
MOST_DEVICES = 1024
_NAMED = re.compile(r"(?:(tp|pp|dp|ep)([0-9]{1,4}))")
_TRIED = 16  # batches between two, of which one is found
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


class Layout(NamedTuple):
    """How one replica is spread over devices.

    Attributes:
        tensor: devices that share every layer.
        data: copies of attention, each with its own requests.
        expert: devices that hold the experts together.
        pipeline: stages.
    """

    tensor: int = 1
    data: int = 1
    expert: int = 1
    pipeline: int = 1

    @property
    def devices(self) -> int:
        """Of one replica."""
        return self.tensor * self.data * self.pipeline

    @property
    def name(self) -> str:
        """As one says it: `tp 4`, or `dp 8, ep 8`."""
        sizes = zip(("tp", "dp", "ep", "pp"), self, strict=True)
        return ", ".join(f"{name} {size}" for name, size in sizes if size > 1) or "tp 1"

    def __str__(self) -> str:
        sizes = zip(("dp", "ep", "pp"), self[1:], strict=True)
        return f"tp{self.tensor}" + "".join(f"{name}{size}" for name, size in sizes if size > 1)

    def on(self, configuration: DecodingConfiguration) -> DecodingConfiguration:
        """A configuration spread this way."""
        where = replace(
            configuration.deployment,
            tensor_parallel=self.tensor,
            data_parallel=self.data,
            expert_parallel=self.expert,
            pipeline_parallel=self.pipeline,
        )
        return replace(configuration, deployment=where)


def layout_of(configuration: DecodingConfiguration) -> Layout:
    """How a configuration is spread."""
    where = configuration.deployment
    return Layout(
        where.tensor_parallel, where.data_parallel, where.expert_parallel, where.pipeline_parallel
    )


def layout_named(text: str) -> Layout:
    """The layout that a text such as `tp2` or `tp2dp4ep8` names.

    Example:
        >>> layout_named("tp2dp4ep8").devices
        8

    Raises:
        InputError: anything else.
    """
    parts = _NAMED.findall(text)
    sizes = {name: int(size) for name, size in parts}
    if (
        "".join(name + size for name, size in parts) != text
        or len(sizes) != len(parts)
        or 0 in sizes.values()
    ):
        raise InputError("must be layouts such as tp2 or tp2dp4ep8", key="layouts", value=text)
    layout = Layout(sizes.get("tp", 1), sizes.get("dp", 1), sizes.get("ep", 1), sizes.get("pp", 1))
    if not text or layout.devices % layout.expert or layout.devices > MOST_DEVICES:
        raise InputError(
            "must spread experts over devices of the layout", key="layouts", value=text
        )
    return layout


def usual_layouts(model: str, most: int) -> list[Layout]:
    """Powers of two of tensor devices up to `most`; of a model with experts also spread experts and
    data copies.

    Args:
        model: target, by name or path.
        most: devices of a replica at most, >= 1.
    """
    powers = [2**n for n in range(most.bit_length())]
    layouts = [Layout(tensor) for tensor in powers]
    if not load_model(model).is_moe:
        return layouts
    spread = [Layout(tp, dp, tp * dp) for dp, tp in product(powers, powers) if 1 < tp * dp <= most]
    return [*layouts, *spread]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutPoint:
    """A layout at a batch that fits, with one draft length.

    Args:
        layout: the devices.
        batch: requests of the whole layout.
        draft_tokens: K; 0: no drafting.
        user_tokens_per_s: tokens per second of every request.
        device_tokens_per_s: tokens per second of all requests over the devices.
    """

    layout: Layout
    batch: int
    draft_tokens: int
    user_tokens_per_s: float
    device_tokens_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class MostUsers:
    """The largest batch of a layout whose users are fast enough.

    Args:
        point: that batch, with the fastest of its draft lengths.
        more_fit: whether one request more fits memory, so that the pace alone stops it.
    """

    point: LayoutPoint
    more_fit: bool


def layouts_of(model: str, tensor_parallel: int = 1) -> tuple[Layout, ...]:
    """The layouts that are compared for a model.

    Args:
        model: by name.
        tensor_parallel: devices of a tensor group that belong to the comparison whatever else does.

    Example:
        >>> [each.name for each in layouts_of("llama-3.1-8b")]
        ['tp 1', 'tp 2', 'tp 4', 'tp 8']
    """
    architecture = load_model(model)
    layouts = {Layout(tensor=size) for size in (*TENSOR, tensor_parallel)}
    if architecture.is_moe and architecture.encoder is None:
        layouts |= {Layout(data=size, expert=size) for size in EXPERT}
    return tuple(sorted(layouts, key=lambda layout: (layout.data, layout.tensor)))


def layout_points(
    configuration: DecodingConfiguration,
    chains: Sequence[Acceptance],
    *,
    context: int,
    layout: Layout,
    batches: Sequence[int],
) -> list[LayoutPoint]:
    """Plain decoding, and the best chain, at every batch that fits.

    Args:
        configuration: model, device, engine, method; its own numbers of devices do not matter.
        chains: what each draft length emits, K = 0 first.
        context: cached tokens per request.
        layout: the devices.
        batches: requests of the whole layout; those below its data copies are left out.

    Returns:
        At most two points a batch: K = 0, and the fastest of the others.

    Raises:
        InputError: a layout that does not divide the model.
    """
    question = layout.on(configuration)
    whole = tuple(batch for batch in batches if batch >= layout.data)
    if not whole:
        return []
    at = _evaluated(question, tuple(map(_shape, chains)), context, whole)
    rates = np.array(whole) * np.array([[a.tokens_per_step] for a in chains]) / at.step_s
    rates = np.where(at.fits, rates, -np.inf)
    points = []
    for place, batch in enumerate(whole):
        for first, among in ((0, rates[:1, place]), (1, rates[1:, place])):
            best = int(among.argmax()) if among.size else 0
            if among.size and np.isfinite(among[best]):
                rate = float(among[best])
                points.append(
                    LayoutPoint(
                        layout=layout,
                        batch=batch,
                        draft_tokens=chains[first + best].draft_tokens,
                        user_tokens_per_s=rate / batch,
                        device_tokens_per_s=rate / layout.devices,
                    )
                )
    return points


def most_users(
    configuration: DecodingConfiguration,
    chains: Sequence[Acceptance],
    points: Sequence[LayoutPoint],
    *,
    context: int,
    user_tokens_per_s: float,
) -> MostUsers | None:
    """The largest batch of a layout whose users are fast enough, to the request.

    Args:
        configuration: as for `layout_points`.
        chains: as for `layout_points`.
        points: of the layout alone, from which the search begins; at least one.
        context: cached tokens per request.
        user_tokens_per_s: least pace of a user.

    Returns:
        None where no point is fast enough.
    """
    kept = [point for point in points if point.user_tokens_per_s >= user_tokens_per_s]
    if not kept:
        return None
    best = max(kept, key=lambda point: (point.batch, point.user_tokens_per_s))
    above = [point.batch for point in points if point.batch > best.batch]
    high = min(above, default=2 * best.batch)
    fits = bool(above)
    while high - best.batch > 1:
        batches = np.unique(np.linspace(best.batch + 1, high - 1, _TRIED).round().astype(int))
        tried = layout_points(
            configuration,
            chains,
            context=context,
            layout=best.layout,
            batches=batches.tolist(),
        )
        fast = [point for point in tried if point.user_tokens_per_s >= user_tokens_per_s]
        best = max([best, *fast], key=lambda point: (point.batch, point.user_tokens_per_s))
        slow = [int(batch) for batch in batches if batch > best.batch]
        if slow:
            high = min(slow)
            fits = any(point.batch == high for point in tried)
    return MostUsers(point=best, more_fit=fits)


def every_point(
    configuration: DecodingConfiguration,
    chains: Sequence[Acceptance],
    *,
    context: int,
    batches: Sequence[int],
    fewest: bool = False,
) -> tuple[list[LayoutPoint], dict[Layout, str]]:
    """The points of all layouts of a model, and why layouts have none.

    Args:
        configuration: model, device, engine, method, and the tensor group that belongs to the
            comparison.
        chains: what each draft length emits, K = 0 first.
        context: cached tokens per request.
        batches: requests of the whole layout.
        fewest: stop at the first layout that holds something, those of fewer devices first.
    """
    points: list[LayoutPoint] = []
    left_out: dict[Layout, str] = {}
    layouts = layouts_of(configuration.deployment.model, configuration.deployment.tensor_parallel)
    for layout in sorted(layouts, key=lambda layout: layout.devices) if fewest else layouts:
        try:
            fitting_points = layout_points(
                configuration, chains, context=context, layout=layout, batches=batches
            )
        except InputError as error:
            left_out[layout] = error.message
            continue
        if not fitting_points:
            left_out[layout] = "not one request fits"
        points += fitting_points
        if fewest and points:
            break
    return points, left_out


def front_of(points: Iterable[LayoutPoint]) -> list[LayoutPoint]:
    """Those that no other beats in both speeds, the fastest for a user first.

    Example:
        >>> at = [LayoutPoint(layout=Layout(), batch=b, draft_tokens=0, user_tokens_per_s=u, device_tokens_per_s=d)
        ...       for b, u, d in ((1, 100, 100), (8, 90, 720), (9, 80, 700), (64, 50, 3200))]
        >>> [each.batch for each in front_of(at)]
        [1, 8, 64]
    """
    at = list(points)
    front: Front[LayoutPoint] = Front()
    front.add(
        np.array([point.user_tokens_per_s for point in at], dtype=np.float64),
        np.array([point.device_tokens_per_s for point in at], dtype=np.float64),
        at,
    )
    return front.names[::-1]


def most_per_device(points: Iterable[LayoutPoint], user_tokens_per_s: float) -> LayoutPoint | None:
    """The point with the most tokens per device of those whose users are at least so fast; None
    where none are.
    """
    able = (point for point in points if point.user_tokens_per_s >= user_tokens_per_s)
    return max(able, key=lambda point: point.device_tokens_per_s, default=None)


Shape = tuple[int, float, float, float]


def _shape(a: Acceptance) -> Shape:
    """What a chain's cost depends on, which no acceptance changes."""
    return a.draft_tokens, a.proposed_tokens, a.proposal_ratio, a.foreseen_ratio


@lru_cache(maxsize=128)
def _setting(configuration: DecodingConfiguration) -> Setting:
    return build_setting(configuration)


@lru_cache(maxsize=2048)
def _evaluated(
    configuration: DecodingConfiguration,
    shapes: tuple[Shape, ...],
    context: int,
    batches: tuple[int, ...],
) -> Evaluation:
    """Every chain at every batch, whatever is accepted of it."""
    chains = [
        Acceptance(
            draft_tokens=tokens,
            tokens_per_step=1.0,
            proposed_tokens=proposed,
            proposal_ratio=ratio,
            foreseen_ratio=foreseen,
        )
        for tokens, proposed, ratio, foreseen in shapes
    ]
    contender = Contender(
        configuration=configuration, setting=_setting(configuration), candidates=chains
    )
    return evaluate(contender, batch=np.array(batches), context=context)
