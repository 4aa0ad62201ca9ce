"""What does the cost model say of a masked model's rows: forwards over a canvas, over what lies behind, over a block?

Tokens per forward and the kind of forward come from the row; the pass is priced by `costmodel.answers.refine_step`.
Rows of the same tables that decode one token after another go to `prediction`. Leaves out when a policy commits which
token.
"""

import re
from dataclasses import replace

from costmodel.answers.estimate import estimate
from costmodel.answers.setting import Setting
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.refining import refined
from costmodel.method import Method, Refine, Shape
from costmodel.method_library import load_method
from costmodel.published.answer import Prediction, in_unit, plain_reason
from costmodel.published.deployed import batch_of, device_of, dtype_of
from costmodel.published.reading.amounts import number, token_count
from costmodel.published.reading.names import context_of, engine_of, model_of
from costmodel.published.reading.table import PublishedRow
from hardware_profiles.errors import InputError

_DRAFTING = re.compile(r"^(HASS|EAGLE|DEER|CLLM|Lookahead|Jacobi Forcing)", re.IGNORECASE)
_TPF = re.compile(r"(?:TPF|tau|S=?)\s*=?\s*(\d+(?:\.\d+)?)")
_SUFFIX = re.compile(r"prefix ?cache", re.IGNORECASE)
_DUAL = re.compile(r"dual ?cache", re.IGNORECASE)
_SEVERAL = re.compile(r"\bD2F\b|multi-block|pipelined|\bAPD\b", re.IGNORECASE)
_EXACT_CACHE = re.compile(r"SDAR|TraDo|TDAR|Fast-dLLM.v2|LLaDA-?2\.0|DMax|Hierarchical|dInfer", re.IGNORECASE)
_UNTIL_END = re.compile(r"counts tokens until EOS", re.IGNORECASE)
_UNPRICED = re.compile(r"dKV-Cache|Sparse-dLLM|dLLM-Cache|LPD|ARPG|LocalLeap|NAP", re.IGNORECASE)


def drafts(row: PublishedRow) -> bool:
    """Whether a row of a refining table decodes by drafting: one pass verifies a window or a draft."""
    return _DRAFTING.match(row.system) is not None


def as_drafting(row: PublishedRow) -> PublishedRow:
    """A row of a refining table in the words of a drafting one."""
    tokens = _TPF.search(row.acceptance)
    window = number(row.shape.partition("n=")[2].partition(",")[0]) if "n=" in row.shape else None
    shape = f"block <= {round(window) - 1} chain" if window else row.shape
    words = f"tau={tokens[1]}" if tokens else row.acceptance
    return replace(
        row, kind="drafting", acceptance=words, shape=shape, draft="0.5B dLLM" if "DEER" in row.system else ""
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
        told = "every forward covers the whole canvas, on whatever hardware"
        predicted = speedup if row.value is None else None
        reason = "" if predicted is not None else plain_reason(error)
        return Prediction(row=row, predicted=predicted, speedup=speedup, reason=reason, remarks=(told,),
                          method=method.slug)  # fmt: skip
    model, engine = model_of(row.target), engine_of(row)
    names = DeploymentNames(model=model.name, device=device, engine=engine.name, dtype=dtype_of(row),
                            tensor_parallel=count)  # fmt: skip
    setting = build_setting(DecodingConfiguration(deployment=names, method=method.slug))
    setting = replace(setting, drafter=replace(setting.drafter, method=method))
    prompt, assumed = context_of(replace(row, prompt="" if "shot" in row.prompt else row.prompt), 0)
    remarks = tuple(filter(None, (model.remark, engine.remark, device_remark, assumed)))
    found = _answered(row, setting, method, tokens, batch_of(row), prompt, remarks)
    if row.value is not None and _UNTIL_END.search(row.notes):
        reason = "counts the tokens of the text alone, whose number the row does not state; the ratio stands beside"
        return replace(found, predicted=None, baseline=None, reason=reason)
    return found


def _answered(
    row: PublishedRow, setting: Setting, method: Method, tokens: float, batch: int, prompt: int,
    remarks: tuple[str, ...],
) -> Prediction:  # fmt: skip
    a = refined(method, max(tokens, 1.0))
    step = estimate(setting, a, batch=float(batch), context=float(prompt)).step
    predicted = in_unit("tok/s", tokens, float(step.total_s), batch)
    baseline = None
    plain_tokens = _plain_tokens(row)
    if plain_tokens is not None:
        canvas = method.refine.canvas_tokens if method.refine is not None else 0
        static = _canvas_method(canvas, method.shape.nodes, plain_tokens)
        plain = replace(setting, drafter=replace(setting.drafter, method=static))
        own = estimate(plain, refined(static, plain_tokens), batch=float(batch), context=float(prompt)).step
        baseline = in_unit("tok/s", plain_tokens, float(own.total_s), batch)
    speedup = predicted / baseline if baseline is not None else None
    number_asked = predicted if row.value is not None else speedup
    if number_asked is None:
        raise InputError("states a speedup over another model, whose passes the row does not describe", key="speedup")
    return Prediction(row=row, predicted=number_asked, speedup=speedup, baseline=baseline, remarks=remarks,
                      method=method.slug)  # fmt: skip


def tokens_per_forward(row: PublishedRow) -> float:
    """Tokens that a forward commits on average.

    Raises:
        InputError: neither tokens per forward nor steps of a canvas of stated length.
    """
    stated = _TPF.search(row.acceptance)
    if stated:
        return float(stated[1])
    steps, canvas = number(row.acceptance), token_count(row.output)
    if steps and canvas:
        return canvas / steps
    each = re.search(r"(\d+) tok/step", row.system)
    if each:
        return float(each[1])
    raise InputError("states neither tokens per forward nor the number of forwards", key="steps")


def _plain_tokens(row: PublishedRow) -> float | None:
    """Tokens per forward of a baseline that is the same model with a static schedule; None for another one."""
    steps, canvas = number(row.plain_steps), token_count(row.output)
    return canvas / steps if steps and canvas and row.baseline is not None else None


def _hardware_free_speedup(row: PublishedRow, method: Method, tokens: float) -> float | None:
    """Ratio of forwards, where both sides compute the whole canvas in every one."""
    plain = _plain_tokens(row)
    whole = method.refine is not None and method.refine.forward == "full"
    return tokens / plain if whole and plain is not None else None


def _is_hardware_free(row: PublishedRow) -> bool:
    return "hardware-free" in row.hardware


def method_of_row(row: PublishedRow, tokens: float) -> Method:
    """The entry that a row's forwards are priced as, with its canvas and block.

    Raises:
        InputError: a system whose forwards no entry prices.
    """
    if _SEVERAL.search(row.system) and "FullAttn" not in row.system:
        raise InputError("keeps several blocks in flight, which is not priced", key="system", value=row.system)
    if _UNPRICED.search(row.system):
        raise InputError("has forwards that are not priced", key="system", value=row.system)
    canvas, block = token_count(row.output) or 256, token_count(row.shape) or 32
    block = min(block, canvas)
    if _EXACT_CACHE.search(row.system):
        return _block_method(load_method("sdar"), block, tokens)
    if _DUAL.search(row.system):
        return _cached_method("fast-dllm", canvas, block, tokens)
    if _SUFFIX.search(row.system):
        return _cached_method("fast-dllm-prefix", canvas, block, tokens)
    return _canvas_method(canvas, block, tokens)


def _canvas_method(canvas: int, block: int, tokens: float) -> Method:
    """Every forward over prompt and canvas."""
    refine = Refine(forward="full", commit="threshold", tokens_per_pass=tokens, canvas_tokens=canvas)
    return replace(load_method("llada"), shape=Shape(kind="block", nodes=block), refine=refine)


def _cached_method(slug: str, canvas: int, block: int, tokens: float) -> Method:
    own = load_method(slug)
    assert own.refine is not None
    refine = replace(own.refine, canvas_tokens=canvas, tokens_per_pass=tokens)
    return replace(own, shape=Shape(kind="block", nodes=block), refine=refine)


def _block_method(own: Method, block: int, tokens: float) -> Method:
    assert own.refine is not None
    refine = replace(own.refine, canvas_tokens=block, tokens_per_pass=tokens)
    return replace(own, shape=Shape(kind="block", nodes=block), refine=refine)
