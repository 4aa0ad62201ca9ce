"""What do a publication's words say of acceptance, and of what drafting takes?

Tokens per step (`tau=3.58 (tokens/step)`, `S=1.96`, `TPF 5.01`), rates (`alpha=0.75`, per-position
rates, `1-alpha .93, 4-alpha .90`), and costs (`0.5 ms/token`, `c=0.02`, `draft 8.91 ms`). Leaves
out the shape (`shapes`).
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from real_runs.published_numbers.reading.sources import RowFacts

_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)"
_TAU = re.compile(rf"(?:\btau|\bS|\bTPF)\s*=?\s*{_NUMBER}")
_RATE = re.compile(rf"(?<![\w-])alpha\s*=\s*{_NUMBER}\s*(%?)", re.IGNORECASE)
_POSITIONS = re.compile(
    r"per-position alpha(?:\s+[\d.]+)?\s*=\s*((?:\.\d+|\d+\.\d+)(?:\s+(?:\.\d+|\d+\.\d+))*)"
)
_FIRST = re.compile(rf"(?<!\d)(\d+)-alpha\s*{_NUMBER}")
_WITHOUT_BONUS = re.compile(r"excluding bonus|excl\. bonus|exclude the bonus", re.IGNORECASE)
_RATIO = re.compile(rf"\bc\s*[=~]\s*{_NUMBER}")
_PER_TOKEN = re.compile(rf"~?{_NUMBER}\s*ms/(?:token|step)|draft [\d.]+ s/\d+ tok = {_NUMBER} ms")
_VERIFYING = re.compile(rf"verify {_NUMBER} ms per round")
_NO_FACTS = RowFacts()
_PER_ROUND = re.compile(rf"~?{_NUMBER}(?:\s*-\s*{_NUMBER})?\s*ms/round|draft {_NUMBER} ms")


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedAcceptance:
    """What is stated of acceptance; None and empty where it is not.

    Attributes:
        tokens_per_step: emitted per step, the bonus token counted.
        rate: acceptance of each token given those before it.
        by_depth: unconditional rates of the first 1, 2, .. draft tokens.
        siblings: probability that the k-th of a node's children is the accepted one.
    """

    tokens_per_step: float | None = None
    rate: float | None = None
    by_depth: tuple[float, ...] = ()
    siblings: tuple[float, ...] = ()


def stated_acceptance(text: str, facts: RowFacts = _NO_FACTS) -> StatedAcceptance:
    """The acceptance that a cell states; a mean that leaves out the bonus token is one more here.

    Per-position rates are conditional there and unconditional here. `4-alpha` is the mean over the
    first four positions of a greedy chain, so that each of them has it.

    Args:
        text: the cell.
        facts: what is known of the row: whether the bonus token is left out where the cell does not
            say so, and rates of siblings where it is empty.

    >>> stated_acceptance("tau=2.98 EXCLUDING bonus (step yields 3.98)").tokens_per_step
    3.98
    >>> stated_acceptance("per-position alpha = .8 .5").by_depth
    (0.8, 0.4)
    """
    tau, rate = _TAU.search(text), _RATE.search(text)
    tokens = float(tau[1]) if tau else None
    if tokens is not None:
        without = facts.without_bonus or _WITHOUT_BONUS.search(text)
        tokens = round(tokens + (1.0 if without else 0.0), 9)
    depths: tuple[float, ...] = ()
    if positions := _POSITIONS.search(text):
        depths = _unconditional([float(rate) for rate in positions[1].split()])
    elif firsts := _FIRST.findall(text):
        depths = _unconditional(_spread({int(at): float(mean) for at, mean in firsts}))
    value = float(rate[1]) / (100.0 if rate[2] else 1.0) if rate and not depths else None
    return StatedAcceptance(
        tokens_per_step=tokens,
        rate=value if value is None or value <= 1.0 else None,
        by_depth=depths,
        siblings=() if text else facts.siblings,
    )


def _unconditional(rates: list[float]) -> tuple[float, ...]:
    """Products of conditional rates, never above 1."""
    products, reached = [], 1.0
    for rate in rates:
        reached = round(reached * min(rate, 1.0), 9)
        products.append(reached)
    return tuple(products)


def _spread(means: dict[int, float]) -> list[float]:
    """Rates by position whose means over the first n positions are those given; constant between
    known lengths.
    """
    rates: list[float] = []
    for before, after in pairwise([0, *sorted(means)]):
        total = means[after] * after - (means[before] * before if before else 0.0)
        rates += [min(max(total / (after - before), 0.0), 1.0)] * (after - before)
    return rates


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedDraftCost:
    """What a step takes beside the target's pass, as stated; at most one of drafting's times is
    known.

    Attributes:
        ratio: of a draft pass to a plain step.
        pass_s: seconds of a draft pass.
        step_s: seconds of all drafting of a step.
        verify_s: seconds of verifying a step's draft beside the target's pass: choosing the path,
            moving its cache.
    """

    ratio: float | None = None
    pass_s: float | None = None
    step_s: float | None = None
    verify_s: float = 0.0

    def seconds(self, passes: int, plain_s: float) -> float | None:
        """Seconds of drafting in a step of so many draft passes; None where nothing is stated."""
        if self.step_s is not None:
            return self.step_s
        pass_s = (
            self.pass_s
            if self.pass_s is not None
            else (None if self.ratio is None else self.ratio * plain_s)
        )
        return None if pass_s is None else passes * pass_s


def stated_draft_cost(text: str) -> StatedDraftCost:
    """What a cell states of the time that drafting, and verifying beside the pass, takes.

    >>> stated_draft_cost("0.5 ms/token").pass_s, stated_draft_cost("~8.9-9.3 ms/round on 7B").step_s
    (0.0005, 0.0091)
    """
    verifying = _VERIFYING.search(text)
    verify_s = round(1e-3 * float(verifying[1]), 12) if verifying else 0.0
    if whole := _PER_ROUND.search(text):
        ends = [float(end) for end in whole.groups() if end]
        return StatedDraftCost(step_s=round(1e-3 * sum(ends) / len(ends), 12), verify_s=verify_s)
    if per_token := _PER_TOKEN.search(text):
        return StatedDraftCost(pass_s=1e-3 * float(per_token[1] or per_token[2]), verify_s=verify_s)
    ratio = _RATIO.search(text)
    return StatedDraftCost(ratio=float(ratio[1]) if ratio else None, verify_s=verify_s)
