"""Jacobi decoding: a window of guesses behind the text, which every pass corrects."""

from __future__ import annotations

from real_runs.drafters.drafter import Drafter, RecordedDrafter, observed_lengths
from real_runs.drafters.jacobi import jacobi_lengths
from real_runs.models.llama import Llama


def jacobi_drafter(model: Llama, columns: int) -> RecordedDrafter:
    """A window of guesses behind the text, which every pass corrects."""
    return RecordedDrafter(
        title=f"Jacobi decoding, a window of {columns} guesses",
        parameters={"columns": columns, "first_guesses": "drawn from the prompt"},
        notes=(
            "The window depends on the steps before: replay is exact for this size, walked from the"
            " first step on; other positions were never a step's start and hold 1. The text was"
            " known, so that passes computed the window alone."
        ),
        observe=observed_lengths(
            lambda prompt, output: jacobi_lengths(model, prompt, output, columns)
        ),
        policy_draft_tokens=columns,
    )


DRAFTER = Drafter(
    method="jacobi-decoding",
    records="lengths",
    observe=lambda target: jacobi_drafter(target.model, target.options.lookahead[0]),
)
