"""What does the cost model say of a published number, from the inputs that stand beside it?

One answer per row: the number predicted in the row's own unit, its speedup and baseline where they
are stated too, what was assumed, or why nothing can be said. Leaves out masked blocks (`refined`)
and whole services (`serving`), which answer in the same form, and how far off the answers are
(`app.answers.reproduction`).
"""

import re
from dataclasses import replace

from costmodel.answers.estimate import estimate, step_cost
from costmodel.laws.acceptance import geometric
from hardware_profiles.errors import UnknownNameError
from real_runs.published_numbers.answer import Prediction, in_unit
from real_runs.published_numbers.question import Question, question_of, tokens_of
from real_runs.published_numbers.reading.names import method_of_system
from real_runs.published_numbers.reading.shapes import stated_shape
from real_runs.published_numbers.reading.stated import stated_acceptance, stated_draft_cost
from real_runs.published_numbers.reading.table import PublishedRow

_SPEEDUP = re.compile(
    r"x\b(?!.*\b(bytes|passes|flops)\b)", re.IGNORECASE
)  # units of ratios of times


def drafting_prediction(row: PublishedRow) -> Prediction:
    """The prediction of a row of drafting or plain decoding.

    Raises:
        InputError: something that a prediction needs is not stated, not known or not priced.
    """
    if row.unit.startswith("tokens/step"):
        tokens, method, remarks = tokens_of(row)
        return Prediction(row=row, predicted=tokens, remarks=remarks, method=method.slug)
    try:
        question = question_of(row)
    except UnknownNameError as error:
        if error.kind != "model" or stated_draft_cost(row.draft_cost).ratio is None:
            raise
        return _by_theorem(row, str(error.name))
    return _answered(row, question)


def _answered(row: PublishedRow, question: Question) -> Prediction:
    setting, batch = question.setting, question.batch
    requests, context = float(batch), float(question.context)
    plain_s, step_s = (
        float(step_cost(variant, geometric(0.0, 0), batch=requests, context=context).total_s)
        for variant in (question.plain, setting)
    )
    if question.acceptance is None:
        tokens = 1.0
    else:
        tokens = question.acceptance.tokens_per_step
        step = estimate(setting, question.acceptance, batch=requests, context=context).step
        step_s = float(step.total_s)
        stated_s = question.drafting.seconds(question.levels, plain_s)
        if stated_s is None and question.captured_drafts:
            stated_s = _captured_draft_s(question)
        if stated_s is not None:
            step_s += stated_s - float(step.draft_s) - setting.overhead.draft_s
        step_s += question.drafting.verify_s
    other = (
        "offload" in row.baseline_unit.casefold()
    )  # a baseline that runs another way than the system itself
    speedup = None if other else tokens * plain_s / step_s
    baseline = (
        in_unit(row.baseline_unit, 1.0, plain_s, batch)
        if row.baseline is not None and not other
        else None
    )
    if _SPEEDUP.match(row.unit):
        predicted = speedup
    elif row.value is not None:
        predicted = in_unit(row.unit, tokens, step_s, batch)
    else:
        predicted = speedup if row.speedup is not None else baseline
    return Prediction(
        row=row,
        predicted=predicted,
        speedup=speedup,
        baseline=baseline,
        remarks=question.remarks,
        method=setting.drafter.method.slug,
    )


def _captured_draft_s(question: Question) -> float:
    """Seconds of drafting whose passes are replayed from captured graphs."""
    assert question.acceptance is not None
    captured = replace(
        question.setting,
        deployment=replace(
            question.setting.deployment, graphs=True, host_layer_s=0.0, host_pass_s=0.0
        ),
    )
    step = estimate(
        captured, question.acceptance, batch=float(question.batch), context=float(question.context)
    ).step
    return float(step.draft_s)


def _by_theorem(row: PublishedRow, target: str) -> Prediction:
    """Speedup from acceptance and cost ratio alone, where the target's own passes are not priced.

    Raises:
        InputError: no rate, or a unit other than a speedup.

    Reference: Leviathan et al. 2022 (arXiv:2211.17192), theorem 3.8.
    """
    method, _ = method_of_system(row.system)
    rate, cost = (
        stated_acceptance(row.acceptance, row.own_facts).rate,
        stated_draft_cost(row.draft_cost).ratio,
    )
    if rate is None or cost is None or not row.unit.startswith("x"):
        raise UnknownNameError("model", target, ())
    length = stated_shape(row.shape, method).levels
    tokens = geometric(rate, length).tokens_per_step
    speedup = tokens / (length * cost + 1.0)
    remark = (
        f"{target} is not priced: its pass over {length + 1} tokens is taken to cost what a plain"
        " one does"
    )
    return Prediction(
        row=row, predicted=speedup, speedup=speedup, remarks=(remark,), method=method.slug
    )
