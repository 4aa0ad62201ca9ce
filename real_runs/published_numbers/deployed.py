"""What does a row say that a system ran on: which model, devices, engine and formats, at which
batch?

Every guess is a remark; what is not stated or not known is refused. Leaves out drafts and
acceptance (`question`).
"""

import re
from dataclasses import replace

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.setting import Setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.drafter import build_drafter
from costmodel.engine_library import load_engine
from costmodel.method import Draft, Method
from hardware_profiles.errors import InputError
from hardware_profiles.stated_names import stated_device
from real_runs.published_numbers.reading.names import ReadName, engine_of, model_of
from real_runs.published_numbers.reading.stated import StatedDraftCost
from real_runs.published_numbers.reading.table import PublishedRow

_LIKELY = re.compile(r"\(([\w -]+?) likely\)|likely ([A-Z]+\d+)")
_UNSTATED = r"\(?(un|not )stated|n\.a\.|\(?hardware-free|1 gpu"
_HOST_LINK = re.compile(r"(\d+(?:\.\d+)?) GB/s host", re.IGNORECASE)
_SPREAD = re.compile(r"(\d+)-way TP", re.IGNORECASE)


def batch_of(row: PublishedRow) -> int:
    """Requests of a row.

    Raises:
        InputError: none stated, or words that are no whole number.
    """
    if re.fullmatch(r"[1-9]\d{0,8}", row.batch):
        return int(row.batch)
    raise InputError(
        "states no batch" if not row.batch else "states no single batch",
        key="batch",
        value=row.batch or None,
    )


def settings_of(
    row: PublishedRow, method: Method, drafting: StatedDraftCost
) -> tuple[Setting, Setting, list[str]]:
    """The deployment, drafter and engine of a row, those of what it is compared with, and what was
    assumed of them.

    Drafting is compared with plain steps of the same target, and a target that is changed with the
    one that is not.

    Args:
        row: the row.
        method: whose draft it is.
        drafting: what drafting takes, where that is stated; no draft model is needed then.

    Raises:
        InputError: hardware or models that are not stated or not known.
    """
    model, engine, (device, count, device_remark) = (
        model_of(row.target),
        engine_of(row),
        device_of(row),
    )
    remarks = [model.remark, engine.remark, device_remark]
    stated = drafting.seconds(1, 1.0) is not None
    draft = None
    if method.needs_draft_model and not stated:
        if not row.draft:
            raise InputError("names no draft model", key="draft")
        draft_name = model_of(row.draft)
        draft = draft_name.name
        remarks.append(draft_name.remark)
    names, more = _names(row, model.name, engine, device, count)
    if method.needs_draft_model and stated:
        method = replace(method, draft=(Draft(by="lookup"),))
        setting = build_setting(DecodingConfiguration(deployment=names))
        setting = replace(setting, drafter=build_drafter(method, setting.target))
    else:
        setting = build_setting(
            DecodingConfiguration(deployment=names, method=method.slug, draft_model=draft)
        )
    plain = setting if method.drafts else build_setting(DecodingConfiguration(deployment=names))
    if "kv offload" in row.hardware.casefold():
        offloaded = row.facts.offloaded.get(count)
        if offloaded is None:
            raise InputError(
                "does not state how much of the cache lies in the host's memory",
                key="hardware",
                value=row.hardware,
            )
        remarks.append(offloaded.remark)
        setting = _fetching(setting, offloaded.row)
        plain = _fetching(
            plain, offloaded.row if offloaded.baseline is None else offloaded.baseline
        )
    return setting, plain, [*remarks, *more]


def _fetching(setting: Setting, share: float) -> Setting:
    """A setting that keeps a share of the cache in the host's memory."""
    return replace(setting, deployment=replace(setting.deployment, host_cache_ratio=share))


def device_of(row: PublishedRow) -> tuple[str, int, str]:
    """Profile and number of a row's devices, and how they were read.

    Raises:
        InputError: not stated, not known, or more than one.
    """
    unstated = not row.hardware or re.match(_UNSTATED, row.hardware, re.IGNORECASE) is not None
    said = _LIKELY.search(row.hardware)
    likely = said[1] or said[2] if said else row.own_facts.likely_device if unstated else ""
    words = likely or row.hardware
    if unstated and not likely:
        raise InputError("names no hardware", key="hardware", value=row.hardware or None)
    device = stated_device(words)
    remark = (
        f"{row.hardware or 'no hardware'}: {device.profile} ASSUMED" if likely else device.remark
    )
    spread = _SPREAD.search(row.hardware)
    count_stated = re.fullmatch(r"\d{1,6}", row.devices)
    count = (
        int(spread[1]) if spread else (int(row.devices) if count_stated else device.devices or 1)
    )
    return device.profile, max(count, 1), remark


def _names(
    row: PublishedRow, model: str, engine: ReadName, device: str, count: int
) -> tuple[DeploymentNames, list[str]]:
    """The deployment by names."""
    remarks, overrides = [], []
    offloads = "cpu offload" in row.hardware.casefold()
    if link := _HOST_LINK.search(row.hardware):
        overrides.append(f"device.host_link_bytes_per_s={float(link[1]) * 1e9}")
    name = "none" if offloads else engine.name
    devices = count
    if name == "transformers" and count > 1:
        devices = 1
        remarks.append(f"layers lie on {count} devices and run one after another")
    transforms = ("dfloat11",) if row.precision.casefold().startswith("df11") else ()
    return DeploymentNames(
        model=model,
        device=device,
        engine=load_engine(name).name,
        dtype=dtype_of(row),
        tensor_parallel=devices,
        transforms=transforms,
        host_weights_ratio=1.0 if offloads else 0.0,
        overrides=tuple(overrides),
    ), remarks


def dtype_of(row: PublishedRow) -> str | None:
    """Format of a row's weights; None: the checkpoint's.

    Raises:
        InputError: a format that no kernel is known of.
    """
    words = row.precision.casefold()
    if "nf4" in words or "int4" in words:
        raise InputError(
            "is a format of weights that is not priced", key="precision", value=row.precision
        )
    form = next((name for name in ("bf16", "fp16", "fp8", "int8") if name in words), None)
    return None if words.startswith("df11") else form
