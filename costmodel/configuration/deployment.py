"""Which model runs on which device, under which engine, in which number formats: by name, before
any file is read.

The settings that these names stand for are made by `costmodel.answers`. Leaves out how the model
decodes (`costmodel.configuration.decoding`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from costmodel.typed import require_types
from hardware_profiles.errors import InputError

MOST_DEVICES = 1 << 16
MOST_CACHE_TOKENS = 1 << 40
MOST_TEXT = 4096
MOST_NAMES = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class DeploymentNames:
    """What a person names to say where a model runs.

    Args:
        model: shipped name, or path of a config.json; empty where it follows from a recording.
        device: shipped name, or path of a TOML file.
        engine: engine whose overheads and kernels apply; `none` for passes alone.
        dtype: weight format or recipe; None takes the published checkpoint's.
        kv_dtype: format of the KV cache; None takes 16 bits (32 with 32-bit weights).
        draft_dtype: weight format of a draft model or head; None: the 16 bits that the target's
            unquantised parts have, or the format of the drafter's own published checkpoint.
        tensor_parallel: devices that share every layer.
        pipeline_parallel: stages of consecutive layers.
        expert_parallel: devices that share the routed experts, each expert whole.
        data_parallel: copies of the other layers within one engine.
        context_parallel: devices that share the tokens of every request.
        fidelity: how passes are costed.
        split_verify: attention splits the cache in verify passes; None looks it up by engine and
            device.
        transforms: names of compression and skipping presets, in order.
        shared_prefix_tokens: cached tokens at the beginning of every request that are the same for
            all and read once.
        host_weights_ratio: share of the layers' weights that stays in the host's memory, 0 to 1.
        max_loras: low-rank adapters that are resident, of which every request uses one; 0: none.
        max_lora_rank: of their matrices.
        cache_tokens: that the cache of the running engine holds, as it said itself; None: they
            follow from the memory.
        overrides: `device.KEY=VALUE` settings of the device.

    Raises:
        InputError: a value of another type, a number of devices below 1, an unprintable name.
    """

    model: str
    device: str = "h100-sxm"
    engine: str = "vllm"
    dtype: str | None = None
    kv_dtype: str | None = None
    draft_dtype: str | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1
    context_parallel: int = 1
    fidelity: Literal["datasheet", "calibrated", "measured"] = "calibrated"
    split_verify: bool | None = None
    transforms: tuple[str, ...] = ()
    shared_prefix_tokens: int = 0
    host_weights_ratio: float = 0.0
    max_loras: int = 0
    max_lora_rank: int = 16
    cache_tokens: int | None = None
    overrides: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("transforms", "overrides"):
            values = getattr(self, name)
            object.__setattr__(self, name, tuple(values) if isinstance(values, list) else values)
        require_types(self, under="deployment")
        for name in ("tensor", "pipeline", "expert", "data", "context"):
            devices = getattr(self, f"{name}_parallel")
            if not 1 <= devices <= MOST_DEVICES:
                rule = f"must lie in 1..{MOST_DEVICES} (--{name[0]}p on the command line)"
                raise InputError(rule, key=f"deployment.{name}_parallel", value=devices)
        if self.cache_tokens is not None and not 1 <= self.cache_tokens <= MOST_CACHE_TOKENS:
            rule = f"must lie in 1..{MOST_CACHE_TOKENS}"
            raise InputError(rule, key="deployment.cache_tokens", value=self.cache_tokens)
        for name in ("model", "device", "engine", "dtype", "kv_dtype", "draft_dtype"):
            require_name(getattr(self, name), f"deployment.{name}")
        for name in ("dtype", "kv_dtype", "draft_dtype"):
            if (form := getattr(self, name)) is not None:
                object.__setattr__(self, name, form.casefold())
        for name in ("transforms", "overrides"):
            if len(getattr(self, name)) > MOST_NAMES:
                raise InputError(
                    f"must hold at most {MOST_NAMES} entries", key=f"deployment.{name}"
                )
            for item in getattr(self, name):
                require_name(item, f"deployment.{name}")


def require_name(name: str | None, key: str) -> None:
    """Refuse a name that could not stand on a command line; None and an empty one are no name.

    Args:
        name: what a user wrote.
        key: for messages.

    Raises:
        InputError: unprintable signs, a leading dash, or more than 4,096 characters.
    """
    if name and (name.startswith("-") or not name.isprintable() or len(name) > MOST_TEXT):
        rule = f"must be printable, of at most {MOST_TEXT} characters, and not begin with a dash"
        raise InputError(rule, key=key, value=name)
