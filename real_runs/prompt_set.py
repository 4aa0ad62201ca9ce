"""Which prompts are recorded, and of which kind is each?

Reads a TOML file of prompts (ours by default) and gives it a digest that does not depend on its
layout. Leaves out what the model answers.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardware_profiles.errors import InputError
from hardware_profiles.refusals import refusal
from traces.kinds.naming import naming

_Model = TypeVar("_Model", bound=BaseModel)
_FOLDER = Path(__file__).parent / "prompts"
DEFAULT_PROMPTS = _FOLDER / "six_kinds.toml"
FIT_QUESTIONS = _FOLDER / "bridge_fit.toml"
_LARGEST_FILE_BYTES = 16 << 20


class Prompt(BaseModel):
    """One prompt: a unique id, its kind (the stratum of intervals) and its text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(min_length=1, max_length=200)
    kind: str = Field(min_length=1, max_length=80)
    text: str = Field(min_length=1)


class _PromptFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=80)
    prompts: list[Prompt] = Field(min_length=1, max_length=100_000)


class _QuestionFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    title: str
    questions: list[str] = Field(min_length=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSet:
    """Prompts in recording order.

    Attributes:
        title: name of the set.
        prompts: the prompts.
        sha256: digest of the canonical JSON of title and prompts.
    """

    title: str
    prompts: tuple[Prompt, ...]
    sha256: str

    def first_of_each_kind(self, count: int) -> PromptSet:
        """The first `count` prompts of every kind; the digest is that of the smaller set."""
        taken: dict[str, int] = {}
        chosen = []
        for prompt in self.prompts:
            taken[prompt.kind] = taken.get(prompt.kind, 0) + 1
            if taken[prompt.kind] <= count:
                chosen.append(prompt)
        return prompt_set(self.title, chosen)


def prompt_set(title: str, prompts: list[Prompt]) -> PromptSet:
    """Give prompts their digest.

    Raises:
        InputError: two prompts of the same id.
    """
    ids = [prompt.id for prompt in prompts]
    twice = (
        next((prompt_id for prompt_id in ids if ids.count(prompt_id) > 1), None)
        if len(set(ids)) < len(ids)
        else None
    )
    if twice is not None:
        raise InputError("ids must differ", key="prompts.id", value=twice)
    values = {"title": title, "prompts": [prompt.model_dump() for prompt in prompts]}
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return PromptSet(
        title=title, prompts=tuple(prompts), sha256=hashlib.sha256(canonical.encode()).hexdigest()
    )


def read_prompts(path: str | Path | None = None) -> PromptSet:
    """Read a prompt file.

    Example:
        >>> sorted({prompt.kind for prompt in read_prompts().prompts})[:3]
        ['chat', 'code completion', 'code editing']

    Args:
        path: TOML with `title` and `[[prompts]]` of `id`, `kind`, `text`; None for the shipped set.

    Raises:
        InputError: absent, no TOML, a missing or unknown key, equal ids.
    """
    place = DEFAULT_PROMPTS if path is None else Path(path)
    read = _validated(_PromptFile, place)
    with naming(str(place)):
        return prompt_set(read.title, read.prompts)


def fit_questions(recorded_prompts: PromptSet) -> tuple[str, ...]:
    """Questions for fitting a bridge; none of them is among the prompts to be recorded."""
    recorded = {prompt.text.strip() for prompt in recorded_prompts.prompts}
    return tuple(
        question
        for question in _validated(_QuestionFile, FIT_QUESTIONS).questions
        if question.strip() not in recorded
    )


def _validated(kind: type[_Model], path: Path) -> _Model:
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise InputError(f"must not exceed {_LARGEST_FILE_BYTES} bytes", file=path)
        return kind.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"cannot be read as TOML ({error})", file=path) from None
    except ValidationError as error:
        raise refusal(error, kind, path) from None
