"""Which limits of latency do options state?"""

from collections.abc import Mapping

from app.questions.values import Limit
from costmodel.answers.workload import Limits
from hardware_profiles.errors import InputError


def asked_limits(
    ttft: Limit | None, tpot: Limit | None, *, good_share: float | None = None
) -> Limits:
    """Limits as options state them.

    Args:
        ttft: of the time to first token.
        tpot: of the time per output token.
        good_share: share of the requests that must be within both.

    Raises:
        InputError: a percentile beside a share, or a share outside its range.
    """
    return Limits(
        ttft_s=None if ttft is None else ttft.seconds,
        tpot_s=None if tpot is None else tpot.seconds,
        share_ratio=good_share,
        ttft_percentile=None if ttft is None else ttft.percentile,
        tpot_percentile=None if tpot is None else tpot.percentile,
    )


def refuse_percentiles(limits: Mapping[str, Limit | None], rule: str) -> None:
    """Refuse percentiles where only other limits have a meaning.

    Args:
        limits: by option.
        rule: why, and what answers them.

    Raises:
        InputError: a limit is that of a percentile.
    """
    for option, limit in limits.items():
        if limit is not None and limit.percentile is not None:
            raise InputError(rule, key=option, value=f"p{limit.percentile:g}")
