"""What do tokens and requests cost in decode-only, prefill-only and mixed passes: rows of SARATHI?

A decode token that rides on a chunk of a prompt costs what it adds to the pass. A whole schedule is
the passes of B requests: prompts in chunks with decodes on top, against prompts and decodes in
passes of their own. Leaves out requests that arrive over time, which the simulator plays, and
pipelines.

Reference: Agrawal et al. 2023, "SARATHI" (arXiv:2308.16369), sections 3 to 5.
"""

import re
from dataclasses import dataclass

from costmodel.answers.estimate import mixed_prefill_s, prefill_s, step_cost
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.setting import Setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.passes.forward import pass_cost
from hardware_profiles.errors import InputError
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.deployed import batch_of, device_of, dtype_of
from real_runs.published_numbers.reading.amounts import token_count
from real_runs.published_numbers.reading.names import model_of
from real_runs.published_numbers.reading.table import PublishedRow

_MIXED = re.compile(r"chunk (\d+) \+ (\d+) decodes")
_CHUNK = re.compile(r"chunk (?:size )?(\d+)")
_RATIO = re.compile(r"P:D (\d+):1")
_TILE = 128  # query tokens that the source rounds passes to


def answers(row: PublishedRow) -> bool:
    """Whether a row describes passes of chunked prompts."""
    return row.facts.service == "chunked-prompts"


def predict(row: PublishedRow, beside: tuple[PublishedRow, ...]) -> Prediction:
    """Milliseconds per token of the pass that a row describes, or what a schedule takes and gains.

    Args:
        row: for which `answers` holds.
        beside: rows of the same source.

    Raises:
        InputError: a model, batch, length or chunk that the row does not state.
    """
    model, (device, count, remark) = model_of(row.target), device_of(row)
    names = DeploymentNames(
        model=model.name,
        device=device,
        engine="transformers",
        dtype=dtype_of(row),
        tensor_parallel=count,
    )
    setting = build_setting(DecodingConfiguration(deployment=names))
    context = token_count(row.prompt)
    if context is None:
        raise InputError("states no length of the requests", key="prompt_len", value=row.prompt)
    remarks = tuple(
        filter(None, (model.remark, remark, "run layer by layer, as the source's own system"))
    )
    if row.unit.startswith("ms/token"):
        return Prediction(row=row, predicted=1e3 * _token_s(setting, row, context), remarks=remarks)
    schedule, assumed = _schedule(row, context)
    if row.data.startswith("decode speedup"):
        return Prediction(
            row=row, predicted=_decode_speedup(setting, schedule, context), remarks=remarks
        )
    remarks = (*remarks, *assumed)
    separate, mixed = _separate_s(setting, schedule), _mixed_s(setting, schedule)
    if row.unit == "s":
        return Prediction(
            row=row, predicted=mixed, speedup=separate / mixed, baseline=separate, remarks=remarks
        )
    return Prediction(row=row, predicted=separate / mixed, remarks=remarks)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Schedule:
    """B requests of one length, whose prompts are computed in chunks.

    Attributes:
        batch: requests B.
        pass_tokens: query tokens of a pass with a chunk: the chunk, and B - 1 decodes.
        prompt: tokens of a prompt.
        output: tokens of an answer.
    """

    batch: int
    pass_tokens: int
    prompt: float
    output: float

    @property
    def chunk(self) -> int:
        """Prompt tokens of a pass."""
        return self.pass_tokens - self.batch + 1

    @property
    def chunks(self) -> float:
        """Passes with a chunk that all prompts take."""
        return self.batch * self.prompt / self.chunk

    @property
    def decodes(self) -> float:
        """Requests that decode in each of them, until no answer is left."""
        return min(self.batch - 1.0, self.batch * self.output / self.chunks)


def _schedule(row: PublishedRow, length: int) -> tuple[_Schedule, tuple[str, ...]]:
    """The schedule that a row describes, and what was assumed of it.

    Raises:
        InputError: neither a chunk nor a ratio of prompt to answer, or a chunk that leaves no room
            for a prompt.
    """
    batch, chunk, ratio = batch_of(row), _CHUNK.search(row.data), _RATIO.search(row.prompt)
    if chunk is None and ratio is None:
        raise InputError(
            "states neither a chunk nor a ratio of prompt to answer", key="dataset", value=row.data
        )
    if batch < 2:
        raise InputError("a chunk and a decode are two requests", key="batch", value=batch)
    assumed = []
    if ratio is not None:
        parts = float(ratio[1])
    else:
        assert chunk is not None
        parts = int(chunk[1]) / (batch - 1)
        assumed.append(
            f"prompts ASSUMED {parts:.3g} times as long as answers, so that chunks and decodes end"
            " together"
        )
    tokens = (
        int(chunk[1]) if chunk is not None else _TILE * max(round(parts * (batch - 1) / _TILE), 1)
    )
    if chunk is None:
        assumed.append(
            f"the chunk is not stated: {tokens} tokens ASSUMED, with which chunks and decodes end"
            " together"
        )
    if tokens <= batch:
        raise InputError(
            "leaves no room for a prompt beside the decodes", key="dataset", value=row.data
        )
    output = length / (1.0 + parts)
    return _Schedule(batch=batch, pass_tokens=tokens, prompt=length - output, output=output), tuple(
        assumed
    )


def _separate_s(setting: Setting, s: _Schedule) -> float:
    """Seconds of all requests whose prompts and decodes have passes of their own."""
    prompts = float(prefill_s(setting, prompt_tokens=s.prompt, batch=float(s.batch), drafts=False))
    return prompts + s.output * _decode_s(setting, float(s.batch), s.prompt + s.output / 2.0)


def _mixed_s(setting: Setting, s: _Schedule) -> float:
    """Seconds of all requests whose decodes ride on the chunks of prompts, as long as there are
    any.
    """
    context = s.prompt + s.output / 2.0
    pass_s = _decode_s(setting, s.decodes, context)
    pass_s += float(
        mixed_prefill_s(setting, prompt_tokens=float(s.chunk), decode_rows=s.decodes, drafts=False)
    )
    pass_s += _reread_s(setting, float(s.chunk), max(s.prompt - s.chunk, 0.0) / 2.0)
    left = max(s.batch * s.output - s.chunks * s.decodes, 0.0) / s.batch
    return s.chunks * pass_s + left * _decode_s(setting, float(s.batch), context)


def _decode_speedup(setting: Setting, s: _Schedule, context: int) -> float:
    """How much less a token takes that rides on a chunk than one in a pass of decodes alone."""
    alone = _decode_s(setting, float(s.batch), float(context)) / s.batch
    return alone / _riding_token_s(setting, s.chunk, s.batch - 1, context)


def _token_s(setting: Setting, row: PublishedRow, context: int) -> float:
    mixed = _MIXED.search(row.batch)
    if mixed:
        return _riding_token_s(setting, int(mixed[1]), int(mixed[2]), context)
    if row.data.startswith("prefill"):
        return float(prefill_s(setting, prompt_tokens=float(context), drafts=False)) / context
    batch = batch_of(row)
    return _decode_s(setting, float(batch), float(context)) / batch


def _riding_token_s(setting: Setting, chunk: int, decodes: int, context: int) -> float:
    """What each decode token adds to a pass with a chunk."""
    whole = float(prefill_s(setting, prompt_tokens=float(chunk), drafts=False))
    alone = _decode_s(setting, float(decodes), float(context))
    beside = float(
        mixed_prefill_s(
            setting, prompt_tokens=float(chunk), decode_rows=float(decodes), drafts=False
        )
    )
    return (alone + beside - whole) / decodes


def _decode_s(setting: Setting, batch: float, context: float) -> float:
    """Seconds of a pass in which requests decode and nothing else."""
    return float(step_cost(setting, geometric(0.0, 0), batch=batch, context=context).total_s)


def _reread_s(setting: Setting, chunk: float, before: float) -> float:
    """Seconds in which the attention of a chunk reads what stands before it in its prompt."""
    reads, fresh = (
        pass_cost(
            setting.deployment,
            batch=1.0,
            query_tokens=chunk,
            context=tokens_before,
            logits="none",
            prefill=True,
        ).seconds
        for tokens_before in (before, 0.0)
    )
    return float(reads["attention"] - fresh["attention"])
