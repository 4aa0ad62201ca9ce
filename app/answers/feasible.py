"""Does a configuration fit where it is asked to run, and which nearest change would?

Every change that is named has been tried and holds. Leaves out speed: among changes that hold, none
is preferred.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np

from costmodel.answers.estimate import Setting, footprint_of
from costmodel.answers.fit import fits, require_fit
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import Acceptance
from costmodel.passes.ops import Number
from costmodel.passes.precision import bytes_per_value
from hardware_profiles.errors import InputError

MORE_DEVICES = (2, 4, 8, 16, 32)  # times the tensor devices that are asked about

_AT_ONCE = 31  # numbers that are tried together where they cost about what one does
Change = Mapping[str, str | int]  # what to ask instead, by option of the command line
Holds = Callable[[DecodingConfiguration, Setting, int, int], bool]
Settings = Callable[[DeploymentNames], Setting]

FIELDS = {"--tp": "tensor_parallel", "--kv-dtype": "kv_dtype", "--dtype": "dtype"}
_WORDS = {
    "--batch": "batch {:,}",
    "--context": "context {:,}",
    "--tp": "tp {}",
    "--kv-dtype": "{} cache",
    "--dtype": "{} weights",
}


def require_cell(
    configuration: DecodingConfiguration,
    setting: Setting,
    acceptance: Acceptance,
    *,
    batch: int,
    context: int,
) -> None:
    """Check that a configuration fits at a batch and context.

    Args:
        configuration: whose deployment may spread the model by a plan.
        setting: of the configuration.
        acceptance: what it drafts.
        batch: requests.
        context: cached tokens per request.

    Raises:
        InfeasibleError: naming what it needs and what there is.
    """
    d = configuration.deployment
    sizes = {
        "tp": d.tensor_parallel,
        "pp": d.pipeline_parallel,
        "ep": d.expert_parallel,
        "dp": d.data_parallel,
        "cp": d.context_parallel,
    }
    what = f"batch {batch}, context {context}, {acceptance.draft_tokens} draft tokens"
    if setting.plan is not None:
        what += "".join(f", --{name} {size}" for name, size in sizes.items() if size > 1)
    require_fit(setting, footprint_of(setting, acceptance, batch=batch, context=context), what)


def settings_of(configuration: DecodingConfiguration) -> Settings:
    """What builds the setting of a configuration that is placed elsewhere, every deployment once.

    Args:
        configuration: the configuration.
    """
    return lru_cache(
        lambda deployment: build_setting(replace(configuration, deployment=deployment))
    )


def nearest_changes(
    configuration: DecodingConfiguration,
    acceptance: Acceptance,
    *,
    batch: int,
    context: int,
    holds: Holds | None = None,
    settings: Settings | None = None,
) -> list[Change]:
    """The nearest changes after which a configuration fits, or holds otherwise.

    A smaller batch, a shorter context, more tensor devices, a cache or weights of fewer bits, each
    alone; where none of them suffices, fewer bits and more devices together.

    Example:
        >>> from costmodel.configuration import DeploymentNames
        >>> from costmodel.laws.acceptance import geometric
        >>> asked = DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b", device="l4"))
        >>> [change_words(each) for each in nearest_changes(asked, geometric(0.0, 0), batch=64, context=1024)]
        ['batch 37', 'context 591', 'tp 2', 'fp8 cache', 'fp8 weights']

    Args:
        configuration: the configuration that does not hold.
        acceptance: what it drafts.
        batch: requests.
        context: cached tokens per request.
        holds: what is wanted of a configuration, its setting, a batch and a context; None: that it
            fits.
        settings: of `settings_of`, which several cells of one configuration share; None: this
            cell's own.

    Returns:
        Changes, each of which was tried and holds; none where nothing does.
    """
    test = holds or (
        lambda _, setting, b, c: bool(np.all(fits(setting, acceptance, batch=b, context=c)))
    )
    setting_of = settings or settings_of(configuration)

    def tried(change: Change) -> bool:
        names = {FIELDS[option]: value for option, value in change.items() if option in FIELDS}
        at = int(change.get("--batch", batch)), int(change.get("--context", context))
        try:
            changed = configuration
            if names:
                placed = replace(configuration.deployment, **names)  # type: ignore[arg-type]
                changed = replace(configuration, deployment=placed)
            return test(changed, setting_of(changed.deployment), *at)
        except InputError:
            return False  # a format that the device lacks, heads that do not divide

    setting_now = setting_of(configuration.deployment)
    # masked blocks cannot be tried together: their widest pass would be that of all contexts
    together = holds is None and setting_now.drafter.method.refine is None

    def largest(option: str, below: int) -> list[Change]:
        if not together:
            return _largest(
                option, below, lambda tries: [tried({option: size}) for size in tries], at_once=1
            )

        def fitting(tries: Sequence[int]) -> list[bool]:
            sizes: dict[str, Number] = {
                "batch": batch,
                "context": context,
                option[2:]: np.array(tries),
            }
            return [bool(does_fit) for does_fit in fits(setting_now, acceptance, **sizes)]

        return _largest(option, below, fitting, at_once=_AT_ONCE)

    formats = setting_now.deployment.precision
    devices: list[Change] = [
        {"--tp": configuration.deployment.tensor_parallel * more} for more in MORE_DEVICES
    ]
    cache: list[Change] = [{"--kv-dtype": name} for name in fewer_bits(formats.kv, ("fp8",))]
    weights: list[Change] = [
        {"--dtype": name} for name in fewer_bits(formats.weights, ("fp8", "int4"))
    ]
    groups = (largest("--batch", batch), largest("--context", context), devices, cache, weights)
    changes = [change for group in groups if (change := next(filter(tried, group), None))]
    both = ({**bits, **more} for more, bits in product(devices, weights))
    return changes or [change for change in [next(filter(tried, both), None)] if change]


def change_words(change: Change) -> str:
    """A change as one says it: `batch 12`, or `tp 2 with fp8 weights`."""
    return " with ".join(_WORDS[option].format(value) for option, value in change.items())


def _largest(
    option: str, below: int, holds: Callable[[Sequence[int]], Sequence[bool]], *, at_once: int
) -> list[Change]:
    """The largest whole number from 1 up to `below`, excluded, that holds, where less of it is
    easier.
    """
    low, high = 0, below
    while high - low > 1:
        tries = sorted(
            {low + (high - low) * part // (at_once + 1) for part in range(1, at_once + 1)} - {low}
        )
        failing = [size for size, holding in zip(tries, holds(tries), strict=True) if not holding]
        high = min([*failing, high])
        low = max([low, *(size for size in tries if size < high)])
    return [{option: low}] if low else []


def fewer_bits(dtype: str, formats: Sequence[str]) -> list[str]:
    """Those of some formats that take fewer bytes a value than the present one.

    Args:
        dtype: the present one.
        formats: names of others.
    """
    return [name for name in formats if bytes_per_value(name) < bytes_per_value(dtype)]
