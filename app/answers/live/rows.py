"""What a live server did: who it is, how long its users waited, and what it accepted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from app.answers.answer import Column, Row, Table
from app.answers.counts import Counts, counts_of
from app.answers.numbers import fixed
from real_runs.servers.identify import Server
from traces.kinds.acceptance import AcceptanceTrace

LOAD_TIMES = {
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "itl_s": "ITL",
    "e2e_s": "whole answer",
    "queue_s": "queue",
}
STATED_TIMES = {**LOAD_TIMES, "prompt_s_per_token": "prompt token"}
_MOST_POSITIONS = 32
_MOST_BATCHES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRow(Row):
    """The server that was spoken to."""

    engine: Annotated[str, Column("Its engine.")]
    model: Annotated[str, Column("Model that requests name.")]
    slots: Annotated[int | None, Column("Requests that it decodes at a time.")]
    context: Annotated[int | None, Column("Tokens that one request may hold.")]

    @property
    def words(self) -> str:
        """Model and engine; of a model that is a file, the file's name."""
        return f"{self.model.rpartition('/')[2]} on {self.engine}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted(Counts):
    """What a server's counters say of its drafts."""

    level: Annotated[int, Column("Of the trace: 0, without positions.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait(Row):
    """How long users waited for something."""

    what: Annotated[str, Column("For what.", "wait")]
    mean: Annotated[float | None, Column("On average.", unit="s")]
    p50: Annotated[float | None, Column("Median.", unit="s")]
    p90: Annotated[float | None, Column("Ninetieth percentile.", unit="s")]
    p99: Annotated[float | None, Column("Ninety-ninth percentile.", unit="s")]


def server_row(server: Server) -> ServerRow:
    """The server as answers repeat it."""
    return ServerRow(
        engine=server.kind, model=server.model, slots=server.slots, context=server.context
    )


def accepted_of(trace: AcceptanceTrace | None) -> Accepted | None:
    """What was drafted and accepted; None where nothing was counted."""
    counts = None if trace is None else counts_of(trace)
    if trace is None or counts is None:
        return None
    return Accepted(level=trace.level, **asdict(counts))


def wait_table(
    title: str, times: Mapping[str, Mapping[str, Any]], names: Mapping[str, str], caption: str = ""
) -> Table:
    """Waits as a person is shown them.

    Args:
        title: above the table.
        times: mean and percentiles by key.
        names: what users waited for, by key.
        caption: below it.
    """
    return Table(
        title=title,
        rows=[
            Wait(
                what=names[key],
                mean=own["mean"],
                p50=own.get("p50"),
                p90=own.get("p90"),
                p99=own.get("p99"),
            )
            for key, own in times.items()
        ],
        columns=["what", "mean", "p50", "p90", "p99"],
        caption=caption,
    )


def acceptance_words(accepted: Accepted | None, file: Path | None) -> Iterator[str]:
    """What was drafted and accepted, where anything was.

    Args:
        accepted: by the server's counters.
        file: where their trace lies; None: nowhere.
    """
    if accepted is None:
        return
    drafted = f" of {accepted.draft_tokens:,} drafted" if accepted.draft_tokens else ""
    mean = "–" if accepted.tokens_per_step is None else fixed(accepted.tokens_per_step, 3)
    yield f"tokens per step {mean}: {accepted.accepted_tokens:,} accepted{drafted}"
    if accepted.acceptance_by_depth:
        yield f"accepted by position {_rates(accepted.acceptance_by_depth[:_MOST_POSITIONS])}"
    by_batch = accepted.tokens_per_step_by_batch
    if len(by_batch) > 1:
        yield "by running requests " + ", ".join(
            f"{batch:,}: {fixed(mean_tokens, 2)}" for batch, mean_tokens in by_batch[:_MOST_BATCHES]
        )
    if file is not None:
        yield f"{file}: level {accepted.level}; optimize --trace {file} chooses by it"


def _rates(rates: Sequence[float]) -> str:
    return ", ".join(fixed(rate, 3) for rate in rates)
