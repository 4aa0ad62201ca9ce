"""Which command shows what users see of a choice that was made for steady batches?

`optimize` prices batches that are full of requests that decode. Under a load prompts run in
between and requests wait, which `simulate` shows. Leaves out the load itself.
"""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from app.answers.optimize.rows import CellRow
from simulator.scenario.usual_requests import OUTPUT_TOKENS


def load_line(cells: Sequence[CellRow], file: Path) -> str:
    """The command that serves a load with the same model, devices, formats and drafter, and without
    drafts. Answers differ in length, as users whose answers end together would wait for one
    another's prompts.

    Args:
        cells: who wins at every batch and context, at least one.
        file: that holds the answer.
    """
    users, context = cells[len(cells) // 2].batch, cells[0].context
    return (
        f"under a load: rooftree simulate --config {quote(str(file))} --users {users}"
        f" --prompt-tokens {max(context, 1)} --output-tokens exponential:{OUTPUT_TOKENS}"
        " --compare autoregressive"
    )
