"""At which prompts, batches and contexts do configurations run?

Cells: a kind of prompt (overlap-heavy or ordinary), a context (prompts as they are, or behind
documents up to a length) and a batch. Cells that loop costs are fitted on have other prompts of
other kinds and other lengths than those that are scored. Leaves out the configurations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file
from real_runs.prompt_set import Prompt, PromptSet, prompt_set
from real_runs.trials.trials import PromptCell

KINDS: dict[str, tuple[str, ...]] = {
    "overlap": ("summarising", "code editing"),
    "ordinary": ("chat", "reasoning"),
    "fit": ("translation", "code completion"),
}
SCORED_CONTEXTS = (0, 512, 1024)  # 0: prompts as they are
FITTED_CONTEXTS = (256, 704)
BATCHES = (1, 4)
_SEPARATOR = "\n\n"


def make_cells(
    prompts: PromptSet,
    count: Callable[[str], int],
    *,
    contexts: Sequence[int] = SCORED_CONTEXTS,
    fitted_contexts: Sequence[int] = FITTED_CONTEXTS,
    batches: Sequence[int] = BATCHES,
    singles: int = 2,
) -> tuple[list[PromptCell], PromptSet]:
    """The cells of a validation, those to fit on first, and the prompts that they name.

    Args:
        prompts: to take from; every kind of `KINDS` must have enough of them.
        count: tokens of a text, its chat frame included.
        contexts: of scored cells.
        fitted_contexts: of cells to fit on; none may be among `contexts`.
        batches: requests that run together, >= 1.
        singles: prompts of a cell with a batch of one.

    Raises:
        InputError: too few prompts, or contexts that are both fitted and scored.
    """
    both = sorted(set(contexts) & set(fitted_contexts))
    if both:
        raise InputError(
            "no context may be both fitted on and scored", key="contexts", value=both[0]
        )
    cells, cell_prompts = [], list[Prompt]()
    for phase, kinds, lengths in (
        ("fit", ("fit",), fitted_contexts),
        ("score", ("overlap", "ordinary"), contexts),
    ):
        for kind in kinds:
            chosen = _chosen(prompts, kind, max(*batches, singles))
            for context in lengths:
                filled = _filled_prompts(chosen, prompts, f"{kind}-{context}", context, count)
                cell_prompts += filled
                for batch in batches:
                    ids = tuple(prompt.id for prompt in filled[: batch if batch > 1 else singles])
                    cells.append(
                        PromptCell(
                            phase=phase,  # type: ignore[arg-type]
                            kind=kind,
                            context=context,
                            batch=batch,
                            prompts=ids,
                        )
                    )
    return cells, prompt_set(f"validation of {prompts.title}", cell_prompts)


def write_prompts(prompts: PromptSet, path: Path) -> None:
    """Write a prompt file that `read_prompts` reads; JSON strings are TOML strings."""
    lines = [f"title = {_quoted(prompts.title)}", ""]
    for prompt in prompts.prompts:
        lines += [
            "[[prompts]]",
            *(f"{key} = {_quoted(value)}" for key, value in prompt.model_dump().items()),
            "",
        ]
    with whole_file(path) as part:
        part.write_text("\n".join(lines), encoding="utf-8")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _chosen(prompts: PromptSet, kind: str, count: int) -> list[Prompt]:
    """The first prompts of the kinds behind a kind, the kinds in turn."""
    by_kind = [
        [prompt for prompt in prompts.prompts if prompt.kind == name] for name in KINDS[kind]
    ]
    turns = [prompt for group in zip(*by_kind, strict=False) for prompt in group]
    if len(turns) < count:
        rule = (
            f"needs {count} prompts of the kinds {' and '.join(KINDS[kind])}, the same number of"
            " each"
        )
        raise InputError(rule, key="prompts", value=len(turns))
    return turns[:count]


def _filled_prompts(
    chosen: Sequence[Prompt],
    prompts: PromptSet,
    label: str,
    context: int,
    count: Callable[[str], int],
) -> list[Prompt]:
    """Prompts behind documents: the texts of prompts that no cell decodes, as many words as fill
    the context.
    """
    used = {prompt.id for prompt in chosen}
    texts = [prompt.text for prompt in prompts.prompts if prompt.id not in used]
    filled = []
    for place, prompt in enumerate(chosen):
        turned = [*texts[7 * place :], *texts[: 7 * place]]
        words = " ".join(turned).split(" ")
        text = prompt.text if not context else _filled(prompt.text, words, context, count)
        filled.append(Prompt(id=f"{label}-{prompt.id}", kind=label, text=text))
    return filled


def _filled(text: str, words: Sequence[str], context: int, count: Callable[[str], int]) -> str:
    """The text behind as many of the words as keep it within a length."""

    def behind(words_before: int) -> str:
        return _SEPARATOR.join([" ".join(words[:words_before]), text]) if words_before else text

    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if count(behind(middle)) <= context:
            low = middle
        else:
            high = middle - 1
    return behind(low)
