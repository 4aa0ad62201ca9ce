"""What do sources of published numbers say of all their rows, or of some, beside what the columns
of a table hold?

Facts of `sources.toml`, stated where rows are read, so that no prediction looks at a reference or
at the remarks of a table. Leaves out what the columns themselves say (`reading.table`).
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

Service = Literal["", "shared-prefix", "context-parallel", "chunked-prompts"]
SERVICES: tuple[str, ...] = get_args(Service)


class Offloaded(NamedTuple):
    """Shares of the cache that lie in the host's memory: of a row, and of what it is compared with
    (None: unknown).
    """

    row: float
    baseline: float | None
    remark: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFacts:
    """What a source says of its rows; the defaults mean that nothing is known.

    Attributes:
        engine: that ran them; empty: not known.
        captured_drafts: draft passes are replayed from captured graphs while the target runs layer
            by layer.
        offloaded: by number of devices, what of the cache lies in the host's memory.
        service: the kind of service that a row describes, where it is none of drafting.
        whole_latent: both products of latent attention are counted over the whole cached vector.
    """

    engine: str = ""
    captured_drafts: bool = False
    offloaded: Mapping[int, Offloaded] = field(default_factory=dict)
    service: Service = ""
    whole_latent: bool = False


class PricedDevice(NamedTuple):
    """What a source reckons a device with: US dollars per hour, 8-bit FLOP/s, bytes/s."""

    usd_per_hour: float
    fp8_flops_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFacts:
    """What a source says of one row and no column holds; the defaults mean that it says nothing.

    Attributes:
        engine: that ran it.
        likely_device: on which it probably ran, where the row names none.
        step_ms: milliseconds of a forward at batch 1, where the columns hold another number.
        without_bonus: its tokens per step leave out the bonus token.
        siblings: probability that the k-th of a node's children is the accepted one.
        counts_text_alone: its tokens per second count what stands before the end of the text.
        parallel: parts that a context, and devices that a layer's weights, are shared out to.
        ring: what goes round between the parts of a context.
        nodes: with attention, and with feed-forward layers.
        priced: device that it is reckoned with.
    """

    engine: str = ""
    likely_device: str = ""
    step_ms: float | None = None
    without_bonus: bool = False
    siblings: tuple[float, ...] = ()
    counts_text_alone: bool = False
    parallel: tuple[int, int] = (1, 8)
    ring: Literal["pass_kv", "pass_q"] = "pass_kv"
    nodes: tuple[int, int] | None = None
    priced: PricedDevice | None = None


@cache
def source_table() -> dict[str, Any]:
    """Everything in `sources.toml`, by table."""
    return tomllib.loads(Path(__file__).with_name("sources.toml").read_text(encoding="utf-8"))


def facts_of(source: str) -> SourceFacts:
    """What is known of a source.

    Args:
        source: its reference, as a table writes it.

    >>> facts_of("arXiv:2308.16369 Table 2").service
    'chunked-prompts'
    """
    engines = list(_entries("engines", source))
    service: Mapping[str, Any] = next(_entries("services", source), {})
    offloaded: Mapping[str, Any] = next(_entries("offloaded_caches", source), {})
    return SourceFacts(
        engine=engines[0]["engine"] if engines else "",
        captured_drafts=any(entry.get("captured_drafts", False) for entry in engines),
        offloaded={
            int(devices): Offloaded(
                share, offloaded["baseline_by_devices"].get(devices), offloaded["because"]
            )
            for devices, share in offloaded.get("by_devices", {}).items()
        },
        service=service.get("service", ""),
        whole_latent=service.get("whole_latent", False),
    )


def row_facts_of(source: str, cells: Mapping[str, str]) -> RowFacts:
    """What is known of one row; of several entries that speak of it the later ones count.

    Args:
        source: its reference, as a table writes it.
        cells: of the row, by column.

    >>> row_facts_of("arXiv:2507.19427 Tables 2-9", {"n_gpus": "40"}).nodes
    (3, 2)
    """
    known: dict[str, Any] = {}
    for entry in _entries("rows", source):
        if all(cells.get(column, "") in those for column, those in entry.get("where", {}).items()):
            known |= entry["facts"]
    if "priced" in known:
        known["priced"] = PricedDevice(**known["priced"])
    lists = {key: tuple(value) for key, value in known.items() if isinstance(value, list)}
    return RowFacts(**(known | lists))


def _entries(table: str, source: str) -> Iterator[Mapping[str, Any]]:
    """Entries of a table that speak of a source, in order."""
    reference = source.casefold()
    for entry in source_table()[table]:
        if any(word.casefold() in reference for word in entry["words"]):
            yield entry
