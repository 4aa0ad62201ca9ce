"""On which text are drafting heads trained, and which states and probabilities did the target have
while it wrote it?

The model writes both sides of short conversations: questions that it makes up after its own chat
template's opening, questions reserved for fitting, and its answers to either, at several
temperatures. Some rows are help text of the standard library, only read. All rows grow together,
one token a pass, so that the states and the likeliest tokens that heads learn from are read from
the same passes. Nothing that is recorded is among it. Leaves out the training.

Reference: Xu et al., Magpie, arXiv 2406.08464, sec. 2 (questions from a template's opening alone).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch

from hardware_profiles.errors import InputError
from real_runs.drafters.heads.fit_data import help_topics
from real_runs.models.bridge import unit_rms
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer

LIKELIEST = 32
_ROWS_AT_ONCE = 96
_MOST_STATE_BYTES = 2 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadData:
    """Text for one training.

    Attributes:
        questions: reserved for fitting; every second written row starts with one of them.
        rows: rows that the model writes.
        help_rows: rows of help text.
        row_tokens: tokens of every row.
        temperatures: of answers, row by row in turn, each > 0.
        seed: of sampling.

    Raises:
        InputError: sizes or temperatures out of range.
    """

    questions: tuple[str, ...]
    rows: int = 160
    help_rows: int = 16
    row_tokens: int = 320
    temperatures: tuple[float, ...] = (0.3, 0.8)
    seed: int = 0

    def __post_init__(self) -> None:
        rules = {
            "rows": 0 <= self.rows <= 100_000,
            "help_rows": 0 <= self.help_rows <= 100_000 and self.rows + self.help_rows >= 1,
            "row_tokens": 8 <= self.row_tokens <= 8192,
            "temperatures": bool(self.temperatures)
            and all(0 < temperature < 100 for temperature in self.temperatures),
        }
        for key, holds in rules.items():
            if not holds:
                raise InputError("is out of range or empty", key=key, value=getattr(self, key))

    @property
    def title(self) -> str:
        """The data in words."""
        written = f"{self.rows} rows of {self.row_tokens} tokens of own questions and answers"
        temperatures = "/".join(f"{temperature:g}" for temperature in self.temperatures)
        return (
            f"{written} at temperatures {temperatures}; {self.help_rows} rows of pydoc_data.topics"
        )

    @property
    def sha256(self) -> str:
        """Digest of the texts given and of what the written ones depend on, the model excluded."""
        texts = help_topics(8 * self.row_tokens * self.help_rows)
        values = json.dumps([asdict(self), LIKELIEST, texts], ensure_ascii=False)
        return hashlib.sha256(values.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadText:
    """Text as the target read it: R rows of T tokens.

    Attributes:
        tokens: ids, int64 [R, T].
        states: by layer count, float16 [R, T, width]: states after every token, at a root mean
            square of 1.
        likeliest: the target's `LIKELIEST` likeliest next tokens after every token, int32 [R, T,
            likeliest].
        probabilities: theirs at temperature 1, float16 [R, T, likeliest].
    """

    tokens: torch.Tensor
    states: dict[int, torch.Tensor]
    likeliest: torch.Tensor
    probabilities: torch.Tensor

    @property
    def rows(self) -> int:
        """Rows R."""
        return int(self.tokens.shape[0])


def write_text(
    model: Llama,
    tokenizer: Tokenizer,
    data: HeadData,
    *,
    layers: Sequence[int],
    report: Callable[[int, int], None] | None = None,
) -> HeadText:
    """Let the model write, and read, the text.

    Args:
        model: the target.
        tokenizer: its tokenizer.
        data: what to write.
        layers: layer counts whose states are kept.
        report: called with (tokens read, tokens).

    Raises:
        InputError: states that would not fit into memory.
    """
    rows = data.rows + data.help_rows
    needed = 2 * rows * data.row_tokens * model.config.width * len(layers)
    if needed > _MOST_STATE_BYTES:
        raise InputError(
            f"states must fit into {_MOST_STATE_BYTES} bytes", key="rows", value=needed
        )
    script = _Script(model, tokenizer, data)
    generator = torch.Generator().manual_seed(data.seed)
    parts, read = [], 0
    for first in range(0, rows, _ROWS_AT_ONCE):
        prompts = script.rows[first : first + _ROWS_AT_ONCE]
        heats = script.temperatures[first : first + _ROWS_AT_ONCE]

        def passed(tokens: int, before: int = read) -> None:
            if report:
                report(before + tokens, rows * data.row_tokens)

        parts.append(
            _written(model, script, prompts, heats, layers, data.row_tokens, generator, passed)
        )
        read += len(prompts) * data.row_tokens
    return HeadText(
        tokens=torch.cat([part.tokens for part in parts]),
        states={layer: torch.cat([part.states[layer] for part in parts]) for layer in layers},
        likeliest=torch.cat([part.likeliest for part in parts]),
        probabilities=torch.cat([part.probabilities for part in parts]),
    )


class _Script:
    """What every row is given to read before it writes, and what follows the end of a question or
    an answer.
    """

    def __init__(self, model: Llama, tokenizer: Tokenizer, data: HeadData) -> None:
        one, other = tokenizer.chat_ids("A"), tokenizer.chat_ids("7")
        same = _common(one, other)
        self.opening = one[:same] or list(model.config.eos_ids[:1]) or [0]
        closing = one[len(one) - _common(one[::-1], other[::-1]) :] if same < len(one) else []
        self.closing = closing[1:] if closing and closing[0] in model.config.eos_ids else closing
        chats = [tokenizer.chat_ids(question) for question in data.questions]
        self.rows: list[list[int]] = []
        self.temperatures: list[float] = []
        for row in range(data.rows):
            self.rows.append(chats[row // 2 % len(chats)] if chats and row % 2 else self.opening)
            self.temperatures.append(data.temperatures[row // 2 % len(data.temperatures)])
        topics = help_topics(8 * data.row_tokens * data.help_rows)
        ids = [token for text in topics for token in tokenizer.ids(text)]
        for row in range(data.help_rows):
            self.rows.append(
                ids[row * data.row_tokens : (row + 1) * data.row_tokens] or self.opening
            )
            self.temperatures.append(1.0)


def _written(
    model: Llama,
    script: _Script,
    prompts: Sequence[Sequence[int]],
    temperatures: Sequence[float],
    layers: Sequence[int],
    length: int,
    generator: torch.Generator,
    report: Callable[[int], None],
) -> HeadText:
    """One batch of rows, token by token: given tokens first, then sampled ones."""
    count, eos = len(prompts), set(model.config.eos_ids)
    queues = [list(row) for row in prompts]
    asking = [list(row) == script.opening for row in prompts]
    heat = torch.tensor(temperatures)
    cache = model.new_cache(length, batch=count)
    tokens = torch.zeros(count, length, dtype=torch.int64)
    states = {
        layer: torch.zeros(count, length, model.config.width, dtype=torch.float16)
        for layer in layers
    }
    likeliest = torch.zeros(
        count, length, min(LIKELIEST, model.config.vocabulary), dtype=torch.int32
    )
    probabilities = torch.zeros(likeliest.shape, dtype=torch.float16)
    drawn = [0] * count
    for at in range(length):
        tokens[:, at] = torch.tensor(
            [queue.pop(0) if queue else drawn[row] for row, queue in enumerate(queues)]
        )
        output = model.forward(tokens[:, at : at + 1], cache, logits="last", capture=layers)
        cache.commit(1)
        assert output.logits is not None
        for layer in layers:
            states[layer][:, at] = unit_rms(output.hidden[layer][:, 0].float()).half().cpu()
        logits = output.logits[:, 0].cpu()
        best = (logits - logits.logsumexp(dim=-1, keepdim=True)).topk(likeliest.shape[2])
        likeliest[:, at], probabilities[:, at] = best.indices.int(), best.values.exp().half()
        cooled = torch.where(torch.tensor(asking), 1.0, heat)
        drawn = torch.multinomial(
            torch.softmax(logits / cooled[:, None], -1), 1, generator=generator
        )[:, 0].tolist()
        for row, token in enumerate(drawn):
            if not queues[row] and token in eos:
                queues[row] = [token, *(script.closing if asking[row] else script.opening)]
                asking[row] = not asking[row]
        report(count * (at + 1))
    return HeadText(tokens=tokens, states=states, likeliest=likeliest, probabilities=probabilities)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length
