"""What does a decoded token need and cost at the roofs: rows of Step-3's cost tables?

Bytes and FLOPs of attention per token, and dollars of attention and feed-forward layers on devices
whose prices and peaks the row states. Leaves out everything that keeps a device from its roofs.
"""

from dataclasses import replace

from costmodel.architectures.library import load_model
from costmodel.parallel.token_price import token_price, token_work
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from hardware_profiles.stated_names import stated_device
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.reading.amounts import token_count
from real_runs.published_numbers.reading.names import model_of
from real_runs.published_numbers.reading.table import PublishedRow

UNITS = ("bytes/token", "flops/token", "$/1m tokens")
_FP8 = Precision(weights="fp8", activations="fp8", kv="fp8")
_MIXED = "llama-4-maverick"  # 16-bit caches in its unchunked layers there (section 4.1)


def answers(row: PublishedRow) -> bool:
    """Whether a row asks for the work or the price of a token on one kind of device."""
    return row.unit.casefold().startswith(UNITS) and "total" not in row.unit


def predict(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> Prediction:
    """The work or the price that a row asks for.

    Args:
        row: for which `answers` holds.
        beside: rows of the same source.

    Raises:
        InputError: a model, device or price that is not known.

    Reference: Wang et al., "Step-3 is Large yet Affordable" (arXiv:2507.19427), section 4.2.
    """
    model = model_of(row.target)
    feed_forward = "FFN" in row.prompt
    context = token_count(row.prompt)
    if context is None and not feed_forward:
        raise InputError("states no context", key="prompt_len", value=row.prompt)
    mixed = model.name == _MIXED
    whole = row.facts.whole_latent
    work = token_work(
        load_model(model.name),
        replace(_FP8, kv="bf16") if mixed else _FP8,
        float(context or 0),
        windowed_kv="fp8" if mixed else None,
        whole_latent=whole,
    )
    remarks = [
        "8-bit caches and products",
        "as the source counts latent attention" if whole else "",
        model.remark,
    ]
    unit = row.unit.casefold()
    if unit.startswith("bytes"):
        predicted = float(work.cache_bytes)
    elif unit.startswith("flops"):
        predicted = float(work.attention_flops)
    else:
        price = token_price(work, _priced(row), "fp8")
        predicted = 1e6 * float(price.feed_forward_usd if feed_forward else price.attention_usd)
    return Prediction(
        row=row,
        predicted=predicted,
        remarks=tuple(remark for remark in remarks if remark),
        computed=True,
    )


def _priced(row: PublishedRow) -> Device:
    """The row's device with the price, peak and bandwidth that its source reckons with.

    Raises:
        InputError: they are not known.
    """
    priced = row.own_facts.priced
    if priced is None:
        raise InputError(
            "states no price, peak and bandwidth of the device", key="hardware", value=row.hardware
        )
    return load_device(
        stated_device(row.hardware).profile,
        [
            f"device.price_usd_per_hour={priced.usd_per_hour}",
            f"device.peak_flops_per_s.fp8={priced.fp8_flops_per_s}",
            f"device.bandwidth_bytes_per_s={priced.bytes_per_s}",
        ],
    )
