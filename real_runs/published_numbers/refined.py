"""What does the cost model say of a masked model's rows: forwards over a canvas, over what lies
behind, over blocks?

Tokens per forward come from the row, the kind of forward from the entry that its system stands for
(`forwards`); the pass is priced by `costmodel.answers.steps.refine_step`. Rows of the same tables
that decode one token after another go to `prediction`. Leaves out when a policy commits which
token.
"""

import re
from contextlib import suppress
from dataclasses import replace

import numpy as np

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.setting import Setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.refining import refined
from costmodel.method import Method
from costmodel.passes.ops import Array, Number
from hardware_profiles.errors import InputError
from real_runs.published_numbers.answer import Prediction, in_unit, plain_reason
from real_runs.published_numbers.deployed import batch_of, device_of, dtype_of
from real_runs.published_numbers.forwards import (
    canvas_method,
    method_of_row,
    plain_tokens,
    tokens_per_forward,
)
from real_runs.published_numbers.reading.amounts import number
from real_runs.published_numbers.reading.names import (
    ASSUMED_CONTEXT,
    context_of,
    engine_of,
    model_of,
)
from real_runs.published_numbers.reading.table import PublishedRow

_DRAFTING = re.compile(r"^(HASS|EAGLE|DEER|CLLM|Lookahead|Jacobi Forcing)", re.IGNORECASE)
_LONGEST_PROMPT = 8192


def drafts(row: PublishedRow) -> bool:
    """Whether a row of a refining table decodes by drafting: one pass verifies a window or a
    draft.
    """
    return _DRAFTING.match(row.system) is not None


def as_drafting(row: PublishedRow) -> PublishedRow:
    """A row of a refining table in the words of a drafting one."""
    window = number(row.shape.partition("n=")[2].partition(",")[0]) if "n=" in row.shape else None
    shape = f"block <= {round(window) - 1} chain" if window else row.shape
    words = row.acceptance
    with suppress(InputError):
        words = f"tau={tokens_per_forward(row)}"
    return replace(
        row,
        kind="drafting",
        acceptance=words,
        shape=shape,
        draft="0.5B dLLM" if "DEER" in row.system else "",
    )


def refined_prediction(row: PublishedRow) -> Prediction:
    """The prediction of a row of a masked model.

    Raises:
        InputError: something that a prediction needs is not stated, not known or not priced.
    """
    if row.value is None and _is_hardware_free(row):
        raise InputError("states tokens per forward alone, which are an input here", key="tps")
    if row.value is None and row.speedup is None:
        raise InputError("states no speed", key="tps")
    tokens = tokens_per_forward(row)
    method = method_of_row(row, tokens)
    speedup = _hardware_free_speedup(row, method, tokens)
    try:
        device, count, device_remark = device_of(row)
    except InputError as error:
        if speedup is None:
            raise
        remark = "every forward covers the whole canvas, on whatever hardware"
        predicted = speedup if row.value is None else None
        reason = "" if predicted is not None else plain_reason(error)
        return Prediction(
            row=row,
            predicted=predicted,
            speedup=speedup,
            reason=reason,
            remarks=(remark,),
            method=method.slug,
        )
    model, engine = model_of(row.target), engine_of(row)
    names = DeploymentNames(
        model=model.name,
        device=device,
        engine=engine.name,
        dtype=dtype_of(row),
        tensor_parallel=count,
    )
    setting = build_setting(DecodingConfiguration(deployment=names, method=method.slug))
    setting = replace(setting, drafter=replace(setting.drafter, method=method))
    static = _static(row, setting, method)
    prompt, by_baseline, assumed = _prompt(row, static)
    remarks = tuple(filter(None, (model.remark, engine.remark, device_remark, assumed)))
    prediction = _answered(row, setting, static, tokens, prompt, remarks)
    if row.value is not None and row.own_facts.counts_text_alone:
        reason = (
            "counts the tokens of the text alone, whose number the row does not state; the ratio"
            " stands beside"
        )
        return replace(prediction, predicted=None, baseline=None, reason=reason)
    return replace(prediction, baseline=None) if by_baseline else prediction


def _static(row: PublishedRow, setting: Setting, method: Method) -> Setting | None:
    """The same model with a static schedule, which a row's baseline is; None where it is another
    one.
    """
    tokens = plain_tokens(row)
    if tokens is None or method.refine is None:
        return None
    plain = canvas_method(method.refine.canvas_tokens, method.shape.nodes, tokens)
    return replace(setting, drafter=replace(setting.drafter, method=plain))


def _static_s(static: Setting, batch: int, prompt: Number) -> Array:
    """Seconds of a forward of a static schedule."""
    return estimate(
        static, refined(static.drafter.method), batch=float(batch), context=prompt
    ).step.total_s


def _prompt(row: PublishedRow, static: Setting | None) -> tuple[float, bool, str]:
    """Tokens of the prompt, whether the baseline implies them, and what was assumed.

    A static baseline computes prompt and canvas in every forward: its speed says how long they are
    together, where the row does not state the prompt.
    """
    stated, assumed = context_of(replace(row, prompt="" if "shot" in row.prompt else row.prompt), 0)
    can_imply = (
        static is not None and row.baseline is not None and not row.own_facts.counts_text_alone
    )
    if not can_imply or stated != ASSUMED_CONTEXT or not assumed:
        return float(stated), False, assumed
    assert static is not None and row.baseline is not None
    lengths = np.arange(0.0, _LONGEST_PROMPT + 1.0, 32.0)
    batch, tokens = batch_of(row), refined(static.drafter.method).tokens_per_step
    length = np.interp(
        batch * tokens / row.baseline,
        np.maximum.accumulate(_static_s(static, batch, lengths)),
        lengths,
    )
    return (
        float(length),
        True,
        f"a prompt of {length:.0f} tokens, with which the baseline is as fast as stated",
    )


def _answered(
    row: PublishedRow,
    setting: Setting,
    static: Setting | None,
    tokens: float,
    prompt: float,
    remarks: tuple[str, ...],
) -> Prediction:
    batch, method = batch_of(row), setting.drafter.method
    result = estimate(setting, refined(method), batch=float(batch), context=prompt)
    step_s = float(result.step.total_s)
    committed = refined(method).tokens_per_step
    unit = row.unit if row.value is not None else "tok/s"
    predicted = in_unit(unit, committed, step_s, batch)
    baseline = None
    if static is not None:
        plain = refined(static.drafter.method).tokens_per_step
        baseline = in_unit("tok/s", plain, float(_static_s(static, batch, prompt)), batch)
    speedup = predicted / baseline if baseline is not None else None
    if static is None and row.baseline is None and not row.baseline_unit:
        speedup = float(result.speedup)  # over plain decoding of the same model
    answer = predicted if row.value is not None else speedup
    if answer is None:
        raise InputError(
            "states a speedup over another model, whose passes the row does not describe",
            key="speedup",
        )
    return Prediction(
        row=row,
        predicted=answer,
        speedup=speedup,
        baseline=baseline,
        remarks=remarks,
        method=method.slug,
    )


def _hardware_free_speedup(row: PublishedRow, method: Method, tokens: float) -> float | None:
    """Ratio of forwards, where both sides compute the whole canvas in every one."""
    plain = plain_tokens(row)
    whole = method.refine is not None and method.refine.forward == "full"
    return tokens / plain if whole and plain is not None else None


def _is_hardware_free(row: PublishedRow) -> bool:
    return "hardware-free" in row.hardware
