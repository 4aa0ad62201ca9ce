"""How do names and options become a setting that can be costed?

Resolves model, device, method, engine and precision, applies defaults, and checks that they go together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.architecture import Architecture
from costmodel.backends import can_split_verify
from costmodel.drafter import Drafter, build_drafter, custom_drafter
from costmodel.estimate import Setting
from costmodel.forward import Deployment, Fidelity
from costmodel.method import Method
from costmodel.method_library import load_method, method_names
from costmodel.model_library import load_model
from costmodel.overheads import overhead
from costmodel.precision import BYTES_PER_VALUE, Precision, precision
from costmodel.transforms.compose import apply, named_transforms
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from traces.schema import AcceptanceTrace


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """What a person asks about, by name.

    Args:
        model: shipped name, or path of a config.json.
        device: shipped name, or path of a TOML file.
        method: slug of a method.
        engine: engine whose overheads and kernels apply; `none` for passes alone.
        dtype: weight format; None takes the checkpoint's, or the widest that the device computes in.
        kv_dtype: format of the KV cache; None takes 16 bits (32 with 32-bit weights).
        tensor_parallel: devices per replica.
        draft: draft model, by name or path.
        exit_layer: layers of an early-exit drafter; None takes a third.
        draft_passes: passes of an unpublished drafter, with `draft_bytes`.
        draft_bytes: bytes that one of its passes reads.
        overrides: `device.key=value` settings.
        fidelity: `datasheet` or `calibrated`.
        split_verify: None looks it up by engine and device.
        transforms: names of compression and skipping presets, in order.
    """

    model: str
    device: str
    method: str = "plain-decoding"
    engine: str = "vllm"
    dtype: str | None = None
    kv_dtype: str | None = None
    tensor_parallel: int = 1
    draft: str | None = None
    exit_layer: int | None = None
    draft_passes: int | None = None
    draft_bytes: float | None = None
    overrides: Sequence[str] = ()
    fidelity: Fidelity = "calibrated"
    split_verify: bool | None = None
    transforms: Sequence[str] = ()


def build_setting(scenario: Scenario) -> Setting:
    """The setting of a scenario.

    Args:
        scenario: names and options.

    Raises:
        InputError: an unknown name (the nearest are offered), or options that exclude each other.
    """
    target = load_model(scenario.model)
    device = load_device(scenario.device, scenario.overrides)
    method = load_method(scenario.method)
    split = can_split_verify(scenario.engine, device) if scenario.split_verify is None else scenario.split_verify
    deployment = Deployment(
        architecture=target,
        device=device,
        precision=_precision(scenario, target, device),
        tensor_parallel=scenario.tensor_parallel,
        fidelity=scenario.fidelity,
        split_verify=split,
        graphs=scenario.engine != "transformers",
    )
    deployment = apply(deployment, named_transforms(scenario.transforms))
    return Setting(
        deployment=deployment,
        drafter=_drafter(scenario, method, target, deployment.precision),
        overhead=overhead(scenario.engine, method.drafter),
        plain_overhead=overhead(scenario.engine, "none"),
    )


def method_of(trace_method: str) -> str:
    """The slug of a method that a trace names, by slug or by drafter kind (`eagle3`, `ngram`, ...).

    Raises:
        InputError: the trace names no method that is known; pass one explicitly.
    """
    name = trace_method.lower().replace("_", "-")
    if name in method_names():
        return name
    for slug in method_names():
        if load_method(slug).drafter.replace("_", "-") == name:
            return slug
    raise InputError(
        f"the trace names no known method; pass --method, one of {', '.join(method_names())}",
        key="method", value=trace_method or None,
    )  # fmt: skip


def with_match_rate(trace: AcceptanceTrace, method: str, match_rate: float | None) -> AcceptanceTrace:
    """A trace whose missing proposals are stood in for by a stated share of steps.

    Only drafters that may propose nothing (n-gram) rest; for the others a match rate means nothing and is left out.

    Args:
        trace: level 1 or more.
        method: slug of the method it recorded.
        match_rate: share of steps with a proposal; None changes nothing.
    """
    rests = load_method(method).drafter == "ngram"
    if match_rate is None or not rests or trace.drafted is not None:
        return trace
    return replace(trace, match_rate=match_rate)


def _precision(scenario: Scenario, target: Architecture, device: Device) -> Precision:
    weights = scenario.dtype or target.dtype
    if scenario.dtype is None and (weights not in BYTES_PER_VALUE or weights not in device.peak_flops_per_s):
        weights = next(name for name in ("bf16", "fp16", "fp32") if name in device.peak_flops_per_s)
    chosen = precision(weights, scenario.kv_dtype)
    device.peak(chosen.activations)
    return chosen


def _drafter(scenario: Scenario, method: Method, target: Architecture, formats: Precision) -> Drafter:
    if (scenario.draft_passes is None) != (scenario.draft_bytes is None):
        raise InputError("--draft-passes and --draft-bytes go together")
    if scenario.draft_passes is not None and scenario.draft_bytes is not None:
        return custom_drafter(
            target,
            passes=scenario.draft_passes,
            bytes_read=scenario.draft_bytes,
            weight_bytes=formats.weight_bytes,
        )
    if scenario.draft is not None and method.drafter != "draft_model":
        raise InputError(f"{method.slug} drafts without a model of its own", key="draft", value=scenario.draft)
    draft = load_model(scenario.draft) if scenario.draft else None
    return build_drafter(method.drafter, target, draft=draft, exit_layer=scenario.exit_layer)
