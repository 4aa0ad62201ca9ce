"""Which constants does an operation have when it computes in fewer than 16 bits?

Kernels of 8 and 4 bits are other kernels: a profile may hold fitted constants of theirs beside
those of 16 bits, which stand in where it has none. Formats of weights alone have shares of the
16-bit peak. Leaves out how they are fitted.
"""

from dataclasses import dataclass

from hardware_profiles.fitted.constants import OperationConstants
from hardware_profiles.fitted.corrections import Correction
from hardware_profiles.fitted.residuals import Regime

# blocks of integers with their scales, as GGUF files hold weights: devices compute on them, but
# have no peak in them
WEIGHT_FORMATS = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k")
# number formats that may have constants of their own
FORMATS = ("fp8", "int8", "fp4", *WEIGHT_FORMATS)
FORMAT_OPERATIONS = ("gemm", "mla", "moe", "prefill")  # what differs in them


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatGroup:
    """The constants of one operation in one number format.

    Attributes:
        constants: the operation's record.
        residual_ratio: half width of the 80 % interval of measured / predicted - 1.
        regimes: intervals of parts of the range.
        correction: what measurements leave of the form; None without a table.
    """

    constants: OperationConstants
    residual_ratio: float
    regimes: tuple[Regime, ...] = ()
    correction: Correction | None = None
