"""What does a step take by requests and verified tokens, in the form that SGLang loads?

SGLang adds seconds by requests to seconds by tokens of the verify pass; the sums nearest to our own
model are found by least squares over relative errors. Leaves out the flags that name the file
(`sglang`).

Reference: SGLang 0.5.23, srt/speculative/dspark_components/dspark_sps.py (`SpsAdditiveCostTable`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.answers.settings import build_setting
from costmodel.answers.verify_widths import verify_seconds
from costmodel.configuration import DecodingConfiguration

_STEP = 1.25  # of the numbers of tokens, from each to the next


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTable:
    """Seconds of a step: `bias_seconds`, what requests add, and what tokens add.

    Args:
        bias_seconds: > 0.
        bs_probes: requests, rising.
        alpha_seconds: that so many requests add.
        m_probes: tokens of the verify pass, the known ones counted, rising.
        theta_seconds: that so many tokens add.
        worst_ratio: largest error of a step against our own model.
    """

    bias_seconds: float
    bs_probes: tuple[int, ...]
    alpha_seconds: tuple[float, ...]
    m_probes: tuple[int, ...]
    theta_seconds: tuple[float, ...]
    worst_ratio: float

    def file(self) -> dict[str, float | list[int] | list[float]]:
        """The keys that SGLang reads."""
        return {
            "bias_seconds": self.bias_seconds,
            "bs_probes": list(self.bs_probes),
            "alpha_seconds": list(self.alpha_seconds),
            "m_probes": list(self.m_probes),
            "theta_seconds": list(self.theta_seconds),
        }

    def seconds(self, requests: int, tokens: int) -> float:
        """Of a step, as SGLang reads the table: interpolated, and flat beyond its ends."""
        by_requests = np.interp(requests, self.bs_probes, self.alpha_seconds)
        by_tokens = np.interp(tokens, self.m_probes, self.theta_seconds)
        return float(self.bias_seconds + by_requests + by_tokens)


def step_table(chosen: DecodingConfiguration, *, most_requests: int, context: int) -> StepTable:
    """The table of a configuration whose chains are verified as far as that pays.

    Args:
        chosen: with a device.
        most_requests: that decode together, >= 1.
        context: cached tokens of a request.

    Raises:
        InputError: a configuration that cannot be priced.
    """
    setting, longest = build_setting(chosen), chosen.draft_tokens
    requests = sorted(
        {min(1 << power, most_requests) for power in range(most_requests.bit_length() + 1)}
    )
    tokens = _tokens(most_requests * (longest + 1))
    cells, seconds = [], []
    for row, number in enumerate(requests):
        curve = verify_seconds(setting, longest, batch=number, context=float(context))
        for column, total in enumerate(tokens):
            # a pass over known tokens alone runs other kernels, which are no part of such sums
            if number < total <= number * (longest + 1) or number == total == 1:
                cells.append((row, column))
                seconds.append(float(curve[total - number]))
    taken, places = np.array(seconds), np.arange(len(seconds))
    rows, columns = np.array(cells).T
    sums = np.zeros((len(seconds), 1 + len(requests) + len(tokens)))
    sums[:, 0] = 1.0
    sums[places, 1 + rows] = 1.0
    sums[places, 1 + len(requests) + columns] = 1.0
    # the least of all solutions; then what every request and every token adds is put into the bias
    found = np.linalg.lstsq(sums / taken[:, None], np.ones(len(seconds)), rcond=None)[0]
    alpha, theta = found[1 : 1 + len(requests)], found[1 + len(requests) :]
    error = sums @ found / taken - 1.0
    return StepTable(
        bias_seconds=float(found[0] + alpha[0] + theta[0]),
        bs_probes=tuple(requests),
        alpha_seconds=tuple((alpha - alpha[0]).tolist()),
        m_probes=tuple(tokens),
        theta_seconds=tuple((theta - theta[0]).tolist()),
        worst_ratio=float(np.abs(error).max()),
    )


def _tokens(most: int) -> list[int]:
    """Numbers of tokens from 1 to `most`: about a quarter more at a time, and both sides of powers of
    two, at which kernels take another tile.
    """
    tokens = [1]
    while tokens[-1] < most:
        tokens.append(max(tokens[-1] + 1, round(tokens[-1] * _STEP)))
    edges = [1 << power for power in range(most.bit_length())]
    return sorted({t for t in (*tokens, *edges, *(e + 1 for e in edges)) if t < most} | {most})
