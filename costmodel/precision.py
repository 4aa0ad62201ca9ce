"""How wide are weights, activations and cached keys and values?

Answers bytes per value and which peak rate applies. Leaves out on-the-fly quantisation and scale factors of
block formats beyond their average width.
"""

from dataclasses import dataclass

from hardware_profiles.errors import UnknownNameError

BYTES_PER_VALUE = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5 + 2 / 64,  # one 16-bit scale per 64 values
    "fp4": 0.5 + 1 / 16,  # one 8-bit scale per 16 values (NVFP4)
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """Formats of a model while it runs.

    Args:
        weights: format of the weights in memory.
        activations: format that matrix units compute in.
        kv: format of cached keys and values.

    Raises:
        UnknownNameError: a format that is not in `BYTES_PER_VALUE`.
    """

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"

    def __post_init__(self) -> None:
        for name in (self.weights, self.activations, self.kv):
            if name not in BYTES_PER_VALUE:
                raise UnknownNameError("number format", name, list(BYTES_PER_VALUE))

    @property
    def weight_bytes(self) -> float:
        """Bytes of one weight."""
        return BYTES_PER_VALUE[self.weights]

    @property
    def activation_bytes(self) -> float:
        """Bytes of one activation."""
        return BYTES_PER_VALUE[self.activations]

    @property
    def kv_bytes(self) -> float:
        """Bytes of one cached value."""
        return BYTES_PER_VALUE[self.kv]


def precision(weights: str, kv: str | None = None) -> Precision:
    """Precision named by its weight format: `bf16`, `fp8` (fp8 arithmetic), `int4` (16-bit arithmetic), ...

    Args:
        weights: weight format.
        kv: format of the KV cache; None takes 16 bits, or 32 where the weights have 32.

    Raises:
        UnknownNameError: an unknown format.

    >>> precision("int4").activations
    'bf16'
    """
    sixteen_bit = weights if weights in ("fp16", "fp32") else "bf16"
    activations = weights if weights in ("fp8", "int8", "fp32", "fp16") else sixteen_bit
    return Precision(weights=weights, activations=activations, kv=kv or sixteen_bit)
