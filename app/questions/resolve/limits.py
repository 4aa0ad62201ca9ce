"""Which limits of latency do options state?"""

from collections.abc import Mapping

from app.questions.groups import LimitOptions
from app.questions.values import Limit
from costmodel.answers.workload import Limits
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI

_OPTIONS = {"ttft": "--slo-ttft", "tpot": "--slo-tpot", "e2e": "--slo-e2e"}


def asked_limits(question: LimitOptions, *, good_share: float | None = None) -> Limits:
    """Limits as options state them.

    Args:
        question: whose limits.
        good_share: share of the requests that must be within all of them.

    Raises:
        InputError: a percentile beside a share, or a share outside its range.
    """
    percentiles = {
        f"{name}_percentile": None if limit is None else limit.percentile
        for name, limit in _stated(question).items()
    }
    return Limits(**limit_seconds(question), **percentiles, share_ratio=good_share)


def limit_seconds(question: LimitOptions) -> dict[str, float | None]:
    """The most seconds of every time, by attribute of `Limits`; None where there is no limit."""
    return {
        f"{name}_s": None if limit is None else limit.seconds
        for name, limit in _stated(question).items()
    }


def refuse_percentiles(question: LimitOptions, rule: str) -> None:
    """Refuse percentiles where only other limits have a meaning.

    Args:
        question: whose limits.
        rule: why, and what answers them.

    Raises:
        InputError: a limit is that of a percentile.
    """
    for name, limit in _stated(question).items():
        if limit is not None and limit.percentile is not None:
            raise InputError(rule, key=_OPTIONS[name], value=f"p{limit.percentile:g}")


def refuse_whole_requests(question: LimitOptions) -> None:
    """Refuse a limit on whole requests where a batch and a context are all that is known of them.

    Raises:
        InputError: it is stated.
    """
    if question.slo_e2e is not None:
        rule = (
            "needs the tokens of an answer, of which --batch and --context say nothing: `rooftree"
            " capacity`, `rooftree simulate` and `rooftree optimize --search full` take"
            " --output-tokens"
        )
        raise InputError(rule, key=_OPTIONS["e2e"], value=f"{question.slo_e2e.seconds / MILLI:g}")


def _stated(question: LimitOptions) -> Mapping[str, Limit | None]:
    """The limits of a question, by the time that they hold for."""
    return {"ttft": question.slo_ttft, "tpot": question.slo_tpot, "e2e": question.slo_e2e}
