"""How far were predictions of questions like this one off? The sentence that every page which
predicts says of it.
"""

from dataclasses import replace
from urllib.parse import urlencode

from app.answers.scores import PUBLISHED, score_like
from app.answers.scoring.published import most_like
from app.dashboard.state import State, address
from hardware_profiles.loader import load_device

MORE = "How far off predictions are"


def badge_link(state: State) -> str | None:
    """Where more is said of it, relative to the page; None on pages that predict nothing."""
    if state.page in ("validation", "trace"):
        return None
    return f"validation?{urlencode(address(replace(state, page='validation')))}"


def badge_words(state: State) -> str:
    """How far predictions of questions like this one were off: all that a page says of it,
    whichever page it is.
    """
    device = load_device(state.device)
    # a trained head is among the drafters that compete where the method is left open
    speedups = score_like(device, state.engine, state.method or "eagle-3")
    if device.kind == "cpu":
        return _sentence(speedups.words)
    errors = most_like(state.engine, state.device)
    assert errors.tpot is not None
    where = (
        " on ".join(part for part in (errors.engine, errors.device) if part)
        or "all GPUs and engines"
    )
    other = (
        ""
        if errors.device
        else f" (none of {state.device})"
        if where != "all GPUs and engines"
        else ""
    )
    words = (
        f"On {errors.tpot['runs']:,} published runs of {where}{other}, times per output token are "
        f"{100 * errors.tpot['median']:.1f} % off in the median, "
        f"{100 * errors.tpot['p90']:.0f} % at the ninetieth percentile."
    )
    return words if speedups is PUBLISHED else f"{words} {_sentence(speedups.words)}"


def _sentence(text: str) -> str:
    """Words as a sentence."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
