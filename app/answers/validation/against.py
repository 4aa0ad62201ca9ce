"""What stands beside the runs of a validation, and in which number format they run?"""

from dataclasses import dataclass

from costmodel.configuration import DecodingConfiguration
from costmodel.passes.deployment import Fidelity
from hardware_profiles.errors import InputError

_DTYPES = {"fp32": "float32", "bf16": "bfloat16", None: "float32"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """What predicts.

    Attributes:
        profile: device profile, by name or TOML file.
        fidelity: of the predictions.
        chosen: configuration of a file that runs in place of what `optimize` chooses; None: there
            is none.
    """

    profile: str
    fidelity: Fidelity
    chosen: DecodingConfiguration | None


def torch_dtype(name: str | None) -> str:
    """The number format of our own loop and of Transformers as torch calls it.

    Raises:
        InputError: another one.
    """
    if name not in _DTYPES:
        raise InputError("must be one of fp32, bf16", key="--dtype", value=name)
    return _DTYPES[name]
