"""How far apart are two sources that measured the same thing?

Plain decoding of one model on one device under one engine, and the speedup that a token more per
step brings to one system on one model and device. No prediction of both can be nearer to them than
half of what lies between. Leaves out what one source measured twice.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hardware_profiles.errors import InputError
from real_runs.published_numbers.deployed import batch_of, device_of
from real_runs.published_numbers.reading.names import (
    context_of,
    engine_of,
    method_of_system,
    model_of,
)
from real_runs.published_numbers.reading.stated import stated_acceptance
from real_runs.published_numbers.reading.table import PublishedRow

LONG_TOKENS = (
    2048  # contexts beyond which the cache's length, which differs between sources, counts
)
_ARXIV = re.compile(r"(\d{4}\.\d{4,5})")
_OWNER = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+")
_Key = tuple[str, str, str, str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """One thing that several sources measured.

    Attributes:
        what: plain decoding, in milliseconds per token, or a system's speedup per emitted token.
        target: shipped model.
        device: profile.
        engine: that ran it.
        batch: requests.
        sources: how many.
        lowest: of the sources' medians.
        highest: of them.
    """

    what: str
    target: str
    device: str
    engine: str
    batch: int
    sources: int
    lowest: float
    highest: float

    @property
    def ratio(self) -> float:
        """Highest over lowest, minus one."""
        return self.highest / self.lowest - 1.0


def noise_floor(rows: Iterable[PublishedRow]) -> list[Spread]:
    """What at least two sources measured, widest first.

    Args:
        rows: of one or several tables.
    """
    by_quantity: dict[_Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.problem or row.kind != "drafting":
            continue
        try:
            for key, value in _measured(row):
                by_quantity[key][source_of(row)].append(value)
        except InputError:
            continue
    spreads = []
    for (what, target, device, engine, batch), by_source in by_quantity.items():
        medians = sorted(sorted(values)[len(values) // 2] for values in by_source.values())
        if len(medians) > 1:
            spreads.append(
                Spread(
                    what=what,
                    target=target,
                    device=device,
                    engine=engine,
                    batch=batch,
                    sources=len(medians),
                    lowest=medians[0],
                    highest=medians[-1],
                )
            )
    return sorted(spreads, key=lambda spread: -spread.ratio)


def source_of(row: PublishedRow) -> str:
    """The publication of a row, without tables and pages: its arXiv number, else the repository or
    the first word.
    """
    number = _ARXIV.search(row.source)
    if number:
        return number[1]
    owner = _OWNER.search(row.source)
    return owner[0].casefold() if owner else row.source


def _measured(row: PublishedRow) -> Iterator[tuple[_Key, float]]:
    """What a row measured that another source may have measured too.

    Raises:
        InputError: no known system, model, device or batch.
    """
    method, remark = method_of_system(row.system)
    long = context_of(row, 0)[0] > LONG_TOKENS
    if long or "offload" in f"{row.hardware} {row.baseline_unit}".casefold():
        return
    device, count, _ = device_of(row)
    place = (
        model_of(row.target).name,
        f"{count} x {device}" if count > 1 else device,
        engine_of(row).name,
        batch_of(row),
    )
    plain = _milliseconds(row.baseline, row.baseline_unit)
    if not method.drafts:
        plain = _milliseconds(row.value, row.unit)
    if plain is not None:
        yield ("plain decoding, ms per token", *place), plain
    tokens = stated_acceptance(row.acceptance, row.own_facts).tokens_per_step
    if method.drafts and not remark and tokens is not None and row.speedup is not None:
        yield (f"{method.title}, speedup per emitted token", *place), row.speedup / tokens


def _milliseconds(value: float | None, unit: str) -> float | None:
    """A speed of one request in milliseconds per token; None for other units."""
    words = unit.partition("(")[0].casefold().split()
    if value is None or not words:
        return None
    if words[0] == "tok/s":
        return 1e3 / value
    return {"ms/token": value, "s/token": 1e3 * value}.get(words[0])
