"""What do tokens cost in decode-only, prefill-only and mixed passes: rows of SARATHI?

A decode token that rides on a chunk of a prompt costs what it adds to the pass. Leaves out whole traces of requests,
which the simulator answers.
"""

import re

from costmodel.answers.estimate import mixed_prefill_s, prefill_s, step_cost
from costmodel.answers.setting import Setting
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.published.answer import Prediction
from costmodel.published.deployed import batch_of, device_of, dtype_of
from costmodel.published.reading.amounts import token_count
from costmodel.published.reading.names import model_of
from costmodel.published.reading.table import PublishedRow
from hardware_profiles.errors import InputError

_MIXED = re.compile(r"chunk (\d+) \+ (\d+) decodes")


def answers(row: PublishedRow) -> bool:
    """Whether a row is one of SARATHI's."""
    return "2308.16369" in row.source


def predict(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> Prediction:
    """Milliseconds per token of the pass that a row describes.

    Args:
        row: for which `answers` holds.
        beside: rows of the same source.

    Raises:
        InputError: a model, batch or length that the row does not state.

    Reference: Agrawal et al., "SARATHI" (arXiv:2308.16369), section 3 and table 2.
    """
    if not row.unit.startswith("ms/token"):
        raise InputError("asks for schedules of whole traces, which the simulator answers and a step does not")
    model, (device, count, remark) = model_of(row.target), device_of(row)
    names = DeploymentNames(model=model.name, device=device, engine="transformers", dtype=dtype_of(row),
                            tensor_parallel=count)  # fmt: skip
    setting = build_setting(DecodingConfiguration(deployment=names))
    context = token_count(row.prompt)
    if context is None:
        raise InputError("states no length of the requests", key="prompt_len", value=row.prompt)
    told = tuple(filter(None, (model.remark, remark, "run layer by layer, as the source's own system")))
    return Prediction(row=row, predicted=1e3 * _token_s(setting, row, context), remarks=told)


def _token_s(setting: Setting, row: PublishedRow, context: int) -> float:
    mixed = _MIXED.search(row.batch)
    if mixed:
        chunk, decodes = int(mixed[1]), int(mixed[2])
        whole = float(prefill_s(setting, prompt_tokens=float(chunk), drafts=False))
        alone = float(step_cost(setting, geometric(0.0, 0), batch=float(decodes), context=float(context)).total_s)
        beside = float(mixed_prefill_s(setting, prompt_tokens=float(chunk), decode_rows=float(decodes), drafts=False))
        return (alone + beside - whole) / decodes
    if row.data.startswith("prefill"):
        return float(prefill_s(setting, prompt_tokens=float(context), drafts=False)) / context
    batch = batch_of(row)
    step = step_cost(setting, geometric(0.0, 0), batch=float(batch), context=float(context))
    return float(step.total_s) / batch
