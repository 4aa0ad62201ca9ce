"""What do sources of published numbers say of all their rows: which engine ran them, and as what
are they priced?

Facts of `sources.toml`, stated where rows are read, so that no prediction looks at a reference.
Leaves out what the rows themselves say (`reading.table`).
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


def _entries(table: str, source: str) -> Iterator[Mapping[str, Any]]:
    """Entries of a table that speak of a source, in order."""
    reference = source.casefold()
    for entry in source_table()[table]:
        if any(word.casefold() in reference for word in entry["words"]):
            yield entry
