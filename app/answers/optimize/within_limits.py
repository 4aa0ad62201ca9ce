"""How many users are served within the stated limits, and what would serve more?

`optimize` says it first wherever a limit of latency is stated. Leaves out what to run at the batches
that were asked about (`app.answers.optimize.choices`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from app.answers.answer import Column, Row
from app.answers.feasible import (
    FIELDS,
    MORE_DEVICES,
    change_words,
    fewer_bits,
)
from app.answers.numbers import digits
from app.answers.optimize.choices import compared
from app.answers.optimize.rows import run_words
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits
from costmodel.optimizers.recommend import ComparedDrafters
from costmodel.optimizers.within_limits import MostWithin, most_within, placed_as
from hardware_profiles.units import MILLI

_BINDS = {
    "limits": "one user more would miss the limit",
    "memory": "memory holds no user more",
    "tried": "more were not tried",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MoreUsers(Row):
    """A change of the deployment that serves more users within the same limits."""

    change: Annotated[Mapping[str, str | int], Column("What to ask instead, by option.")]
    users: Annotated[int, Column("Users that are served then.")]
    tokens_per_s: Annotated[float, Column("Of all of them.")]
    usd_per_million_tokens: Annotated[float | None, Column("Price.")] = None

    @property
    def words(self) -> str:
        """The change and what it serves."""
        usd = self.usd_per_million_tokens
        price = "" if usd is None else f", ${digits(usd)} per million tokens"
        return f"{self.users:,} with {change_words(self.change)}{price}"


@dataclass(frozen=True, kw_only=True, slots=True)
class UsersWithin(Row):
    """The most users within the limits at one context: something is allowed at every batch up to
    theirs.
    """

    model: Annotated[str, Column("Target model.")]
    device: Annotated[str, Column("Device.")]
    engine: Annotated[str, Column("Serving engine.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    tpot_limit_s: Annotated[float | None, Column("Limit of the time per output token.", unit="s")]
    ttft_limit_s: Annotated[float | None, Column("Limit of the time to first token.", unit="s")]
    users: Annotated[int, Column("Requests that decode together; 0: none is within the limits.")]
    binds: Annotated[str, Column("What one more misses: `limits`, `memory`; `tried`: nothing yet.")]
    drafter: Annotated[str | None, Column("What drafts at that batch.")] = None
    topology: Annotated[str | None, Column("Kind of its drafts.")] = None
    draft: Annotated[str | None, Column("Shape of its drafts, or the policy.")] = None
    draft_tokens: Annotated[int | None, Column("Draft tokens per request and step.")] = None
    tokens_per_step: Annotated[float | None, Column("Tokens emitted per step.")] = None
    tokens_per_s: Annotated[float | None, Column("Of all users.")] = None
    tpot_s: Annotated[float | None, Column("Mean time per output token.", unit="s")] = None
    ttft_s: Annotated[
        float | None, Column("To the first token of a prompt of the context's length.", unit="s")
    ] = None
    usd_per_million_tokens: Annotated[float | None, Column("Price.")] = None
    more: Annotated[Sequence[MoreUsers], Column("Changes that serve more users.")] = ()

    @property
    def limit_words(self) -> str:
        """The limits, as one says them: `within 20 ms a token`."""
        stated = ((self.tpot_limit_s, "a token"), (self.ttft_limit_s, "to the first token"))
        parts = [f"{limit / MILLI:g} ms {what}" for limit, what in stated if limit is not None]
        return f"within {' and '.join(parts)}"

    @property
    def served(self) -> str:
        """How many users are served within the limits, how fast and at what price."""
        where = f"{self.limit_words} at context {self.context:,}"
        if not self.users or self.tokens_per_s is None:
            return f"{where}: no user, whatever is run"
        most = served_words(self.users, self.tokens_per_s, self.usd_per_million_tokens)
        return f"{where}: {most}"

    @property
    def words(self) -> str:
        """The same, with what runs there and what one user more misses."""
        return f"{self.served}, {self.run_at_most}" if self.users else self.served

    @property
    def sentences(self) -> list[str]:
        """All that is said of the limits: what they allow, and what would serve more users."""
        return [part for part in (self.words, self.more_words) if part]

    @property
    def run_at_most(self) -> str:
        """What runs at the most users, and what one more misses; empty where none is served."""
        if not self.users:
            return ""
        run = run_words(self.drafter, str(self.topology), str(self.draft))
        drafted = "without drafting" if self.topology == "off" else f"with {run}"
        return (
            f"{drafted}; {_BINDS[self.binds]}. Prompts in between leave fewer: `rooftree capacity"
            " --users`"
        )

    @property
    def more_words(self) -> str:
        """What would serve more users; empty where nothing that was tried does."""
        where = "more users within the limits"
        return f"{where}: {'; '.join(change.words for change in self.more)}" if self.more else ""


def served_words(users: int, tokens_per_s: float, usd_per_million: float | None) -> str:
    """`up to 93 users decoding at once, 12,900 tokens/s, $0.09 per million tokens`.

    Args:
        users: that are served.
        tokens_per_s: of all of them.
        usd_per_million: dollars per million tokens; None: no price is known.

    Example:
        >>> served_words(1, 321.4, None)
        'up to 1 user decoding at once, 321 tokens/s'
    """
    usd = "" if usd_per_million is None else f", ${digits(usd_per_million)} per million tokens"
    who = f"up to {users:,} user{'s' * (users != 1)} decoding at once"
    return f"{who}, {digits(tokens_per_s)} tokens/s{usd}"


def users_within(
    drafters: ComparedDrafters,
    contexts: Sequence[int],
    limits: Limits,
    *,
    floor: float | None = None,
) -> list[UsersWithin]:
    """The most users within the limits at every context; none where no limit is stated.

    Args:
        drafters: that were compared on one model, device and engine.
        contexts: cached tokens per request.
        limits: of latency, on means.
        floor: least agreement of policies of masked blocks; None: there is none.
    """
    if not limits.limited:
        return []
    where = drafters.question.deployment
    rows = []
    for context in contexts:
        most = most_within(drafters.contenders, context=context, limits=limits, floor=floor)
        rows.append(
            UsersWithin(
                model=where.model,
                device=where.device,
                engine=where.engine,
                context=context,
                tpot_limit_s=limits.tpot_s,
                ttft_limit_s=limits.ttft_s,
                users=most.users,
                binds=most.binds,
                **_fastest(most, drafters),
                more=_more(drafters, most, context, limits, floor),
            )
        )
    return rows


def _fastest(most: MostWithin, drafters: ComparedDrafters) -> dict[str, Any]:
    """What a row says of the fastest at the most users; nothing where none is served."""
    if (fastest := most.fastest) is None:
        return {}
    plain = fastest.acceptance.topology == "off"
    return {
        **compared(fastest.acceptance, None if plain else drafters.names[fastest.contender.source]),
        "tokens_per_s": fastest.tokens_per_s,
        "tpot_s": fastest.tpot_s,
        "ttft_s": fastest.ttft_s,
        "usd_per_million_tokens": fastest.usd_per_million,
    }


def _more(
    drafters: ComparedDrafters,
    most: MostWithin,
    context: int,
    limits: Limits,
    floor: float | None,
) -> list[MoreUsers]:
    """The first change of cache, weights and devices, each alone, that serves more users."""
    first = drafters.contenders[0]
    formats = first.setting.deployment.precision
    devices = first.configuration.deployment.tensor_parallel
    rows = []
    for option, values in (
        ("--kv-dtype", fewer_bits(formats.kv, ("fp8",))),
        ("--dtype", fewer_bits(formats.weights, ("fp8", "int4"))),
        ("--tp", [devices * factor for factor in MORE_DEVICES]),
    ):
        for value in values:
            placed = placed_as(
                drafters.contenders,
                build_setting,
                **{FIELDS[option]: value},
            )
            if placed is None:
                continue
            then = most_within(placed, context=context, limits=limits, floor=floor)
            if then.users > most.users and then.fastest is not None:
                rows.append(
                    MoreUsers(
                        change={option: value},
                        users=then.users,
                        tokens_per_s=then.fastest.tokens_per_s,
                        usd_per_million_tokens=then.fastest.usd_per_million,
                    )
                )
                break
    return rows
