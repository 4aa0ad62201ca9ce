"""Which configuration should be run? One search over what the question leaves open.

What competes is drafters with their drafts, or policies of masked blocks
(`app.answers.optimize.candidates`, `app.answers.optimize.masked`). It is evaluated and chosen at every
batch and context (`app.answers.optimize.points`), or on every placement under a load
(`app.answers.optimize.load`).
"""

from dataclasses import fields

from app.answers.optimize.masked import masked_policies
from app.answers.optimize.points import search_points
from app.answers.optimize.recommended import Recommended, RecommendedCells
from app.questions.field import stated_words
from app.questions.groups import JointOptions
from app.questions.optimize import OptimizeQuestion
from hardware_profiles.errors import InputError


def answer(question: OptimizeQuestion) -> Recommended | RecommendedCells:
    """Search drafters and their drafts, or policies of masked blocks, and with `--search full` where
    and within which limits they run.

    Raises:
        InputError: options that go with another search, or a value that makes no sense.
    """
    masked = masked_policies(question)
    if _is_full(question):
        # its simulations are compiled code, which a search of drafts need not load
        from app.answers.optimize.load import search_load

        return search_load(question, masked)
    return search_points(question, masked)


def _is_full(question: OptimizeQuestion) -> bool:
    """Whether whole deployments are searched.

    Raises:
        InputError: options that go with the other search.
    """
    full = question.search == "full"
    for part in () if full else fields(JointOptions):
        if (value := getattr(question, part.name)) != part.default:
            raise InputError(
                f"goes with --search full, which plans whole deployments under a load: add"
                f" --search full --devices {max(question.devices, question.tp)}",
                key=f"--{part.name.replace('_', '-')}",
                value=",".join(stated_words(value)),
            )
    of_drafts = {
        "--stop": question.stop,
        "--metrics": question.metrics or question.after,
        "--by-context": question.by_context,
        "--by-kind": question.by_kind,
    }
    for option, value in of_drafts.items():
        if full and value:
            raise InputError("goes with --search drafts", key=option, value=str(value))
    return full
