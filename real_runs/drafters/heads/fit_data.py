"""On which text is an early exit's bridge fitted?

Help topics of the Python standard library, and the model's own answers to questions reserved for
this: text of both sorts, none of which is recorded. Leaves out the fit itself (`bridge_fit`).
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pydoc_data.topics import topics

import torch

from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer

ANSWER_TOKENS = 96
CHUNK_TOKENS = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class FitData:
    """Text for one fit.

    Attributes:
        questions: each is answered `answers` times at temperature 1, in up to `ANSWER_TOKENS`
            tokens.
        answers: answers per question; 0 for help text alone.
        help_characters: help text taken, in whole topics.
        seed: of the answers.
    """

    questions: tuple[str, ...]
    answers: int
    help_characters: int
    seed: int

    @property
    def title(self) -> str:
        """The data in words."""
        own = f"{self.answers} own answers to each of {len(self.questions)} questions"
        topics = (
            f"{self.help_characters} characters of pydoc_data.topics of Python"
            f" {platform.python_version()}"
        )
        return f"{own}; {topics}"

    @property
    def sha256(self) -> str:
        """Digest of the texts and of what the answers depend on."""
        parts = [
            self.questions,
            self.answers,
            ANSWER_TOKENS,
            self.seed,
            help_topics(self.help_characters),
        ]
        return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()

    def sequences(
        self, model: Llama, tokenizer: Tokenizer, report: Callable[[int, int], None] | None = None
    ) -> list[list[int]]:
        """Token ids: pieces of help text, then question and answer together.

        Args:
            model: answers the questions.
            tokenizer: its tokenizer.
            report: called with (questions answered, questions).
        """
        ids = [token for text in help_topics(self.help_characters) for token in tokenizer.ids(text)]
        pieces = [ids[start : start + CHUNK_TOKENS] for start in range(0, len(ids), CHUNK_TOKENS)]
        texts = [piece for piece in pieces if len(piece) > 1]
        generator = torch.Generator().manual_seed(self.seed)
        for done, question in enumerate(self.questions if self.answers else (), start=1):
            prompt = tokenizer.chat_ids(question)
            texts += [
                prompt + answer
                for answer in sampled_answers(model, prompt, self.answers, generator)
            ]
            if report:
                report(done, len(self.questions))
        return texts


def help_topics(characters: int) -> list[str]:
    """The standard library's help topics, alphabetically, each in full, until `characters` are
    reached.
    """
    texts: list[str] = []
    for name in sorted(topics):
        if sum(map(len, texts)) >= characters:
            break
        texts.append(topics[name])
    return texts


def sampled_answers(
    model: Llama,
    prompt: Sequence[int],
    count: int,
    generator: torch.Generator,
    *,
    tokens: int = ANSWER_TOKENS,
) -> list[list[int]]:
    """Several answers to one prompt in one batch, at temperature 1, each cut after its
    end-of-sequence token.

    Args:
        model: the target.
        prompt: ids.
        count: answers.
        generator: on the CPU.
        tokens: longest answer.
    """
    cache = model.new_cache(len(prompt) + tokens, batch=count)
    pending = torch.tensor([list(prompt)] * count)
    drawn = []
    for _ in range(tokens):
        logits = model.forward(pending, cache, logits="last").logits
        cache.commit(pending.shape[1])
        assert logits is not None
        pending = torch.multinomial(
            torch.softmax(logits[:, 0].cpu(), dim=-1), 1, generator=generator
        )
        drawn.append(pending)
    return [_cut(row, model.config.eos_ids) for row in torch.cat(drawn, dim=1).tolist()]


def _cut(answer: list[int], eos_ids: Sequence[int]) -> list[int]:
    ends = [answer.index(token) + 1 for token in eos_ids if token in answer]
    return answer[: min(ends, default=len(answer))]
