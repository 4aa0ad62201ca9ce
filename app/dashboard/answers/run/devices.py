"""On which device would the drafter of the page's answer be cheapest? Leaves out load
(`answers.hardware`).
"""

from collections.abc import Sequence
from functools import lru_cache

from app.dashboard.answer import Change, Row, setting_of
from app.dashboard.device_numbers import DEVICE_NUMBERS
from app.dashboard.question import limits_of
from app.dashboard.state import State, sold_devices
from app.render.charts.charts import digits
from costmodel.draft_shape import shape_of
from costmodel.optimizers.device_choices import DeviceChoice, device_choices
from costmodel.optimizers.recommend import Recommendation
from hardware_profiles.loader import load_device
from hardware_profiles.units import MILLI


def cheapest(recommendation: Recommendation, state: State) -> tuple[list[Row], str, list[Change]]:
    """Every device at its cheapest layout within the limits, a sentence, and the question about the
    cheapest.

    Args:
        recommendation: the recommendation at the state's batch.
        state: the page's question.
    """
    contender = recommendation.winners[0].contender
    drafter = recommendation.names[contender.source]
    choices = device_choices(
        [contender],
        _priced(),
        batch=state.batch,
        context=state.context,
        limits=limits_of(state),
        setting_of=setting_of,
    )
    rows = [_row(choice, drafter, state.batch) for choice in choices]
    best = choices[0]
    if best.usd_per_million is None:  # nothing is allowed anywhere
        return rows, "", []
    limits = " within the limits" if state.slo_tpot or state.slo_ttft else ""
    where = f"{best.tensor_parallel} × {best.device}"
    note = (
        f"Cheapest{limits}: {where}, ${digits(best.usd_per_million)} per million tokens at this"
        " batch and context"
    )
    own = next((choice for choice in choices if choice.device == state.device), None)
    same = (best.device, best.tensor_parallel) == (state.device, state.tp)
    if own is not None and own is not best and own.usd_per_million is not None:
        note += f"; {own.tensor_parallel} × {own.device} costs ${digits(own.usd_per_million)}"
    values: dict[str, str | int | float] = {"device": best.device, "tp": best.tensor_parallel}
    if best.device != state.device:  # it was priced as it is sold
        values |= dict.fromkeys(DEVICE_NUMBERS, 0.0)
    change = Change(label=f"Ask about {where}", values=values)
    return rows, f"{note}.", [] if same else [change]


@lru_cache(maxsize=1)
def _priced() -> Sequence[str]:
    return [name for name in sold_devices() if load_device(name).price_usd_per_hour is not None]


def _row(choice: DeviceChoice, drafter: str, batch: int) -> Row:
    if choice.reason or choice.acceptance is None or choice.contender is None:
        return {
            "device": choice.device,
            "devices": choice.tensor_parallel,
            "drafts": "–",
            "tokens/s": None,
            "time per token (ms)": None,
            "$ per million tokens": None,
            "remark": choice.reason,
        }
    drafts, price = choice.acceptance.draft_tokens > 0, choice.usd_per_million
    token_ms = batch / choice.tokens_per_s / MILLI
    return {
        "device": choice.device,
        "devices": choice.tensor_parallel,
        "drafts": f"{drafter}, {shape_of(choice.acceptance)}" if drafts else "off",
        "tokens/s": round(choice.tokens_per_s, 1),
        "time per token (ms)": round(token_ms, 2),
        "$ per million tokens": None if price is None else round(price, 3),
        "remark": "",
    }
