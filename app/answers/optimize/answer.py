"""Which configuration should be run? The question goes to the search that it asks for."""

from dataclasses import fields

from app.answers.answer import Answer
from app.answers.optimize.drafts import search_drafts
from app.answers.optimize.masked import masked_policies
from app.questions.field import stated_words
from app.questions.groups import JointOptions
from app.questions.optimize import OptimizeQuestion
from hardware_profiles.errors import InputError


def answer(question: OptimizeQuestion) -> Answer:
    """Search drafters and their drafts, policies of masked blocks, or whole deployments.

    Raises:
        InputError: options that go with another search, or a value that makes no sense.
    """
    masked = masked_policies(question)
    if masked is None and _is_full(question):
        # its simulations are compiled code, which a search of drafts need not load
        from app.answers.optimize.joint.answer import answer as joint_answer

        return joint_answer(question)
    return search_drafts(question, masked)


def _is_full(question: OptimizeQuestion) -> bool:
    """Whether whole deployments are searched.

    Raises:
        InputError: options that go with the other search.
    """
    full = question.search == "full"
    for part in () if full else fields(JointOptions):
        if (value := getattr(question, part.name)) != part.default:
            raise InputError(
                "goes with --search full",
                key=f"--{part.name.replace('_', '-')}",
                value=",".join(stated_words(value)),
            )
    of_drafts = {
        "--stop": question.stop,
        "--metrics": question.metrics or question.after,
        "--explain": question.explain,
    }
    for option, value in of_drafts.items():
        if full and value:
            raise InputError("goes with --search drafts", key=option, value=str(value))
    return full
