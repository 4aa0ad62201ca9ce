"""What stands beside the runs of a validation, and in which batches and number format do they run?"""

from dataclasses import dataclass

from app.questions.validate import ValidateQuestion
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


def batches_of(
    question: ValidateQuestion, *, usual: tuple[int, ...] = (1, 4), most: int
) -> tuple[int, ...]:
    """The batches that are run.

    Args:
        question: what is asked.
        usual: where it states none.
        most: largest that can be run.

    Raises:
        InputError: a larger one.
    """
    batches = question.batch or usual
    if batches[-1] > most:
        raise InputError(f"must be at most {most} here", key="--batch", value=batches[-1])
    return batches


def torch_dtype(name: str | None) -> str:
    """The number format of our own loop and of Transformers as torch calls it.

    Raises:
        InputError: another one.
    """
    if name not in _DTYPES:
        raise InputError("must be one of fp32, bf16", key="--dtype", value=name)
    return _DTYPES[name]
