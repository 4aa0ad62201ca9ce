"""Which command shows what users see of a choice that was made for steady batches?

`optimize` prices batches that are full of requests that decode. Under a load prompts run in
between and requests wait, which `simulate` shows. Leaves out the load itself.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from app.answers.optimize.rows import CellRow
from app.answers.sentences import folded
from simulator.scenario.usual_requests import OUTPUT_TOKENS


def load_lines(cells: Sequence[CellRow], file: Path | None) -> Iterator[str]:
    """That numbers are of steady batches, and the command that serves a load with the same model,
    devices, formats and drafter.

    Args:
        cells: who wins at every batch and context.
        file: that holds the answer; None: it is not written.
    """
    command = "rooftree simulate --users"
    if file is not None:
        users, context = cells[len(cells) // 2].batch, cells[0].context
        command = (
            f"rooftree simulate --config {quote(str(file))} --users {users} --prompt-tokens"
            f" {max(context, 1)} --output-tokens {OUTPUT_TOKENS} --compare autoregressive"
        )
    yield folded(
        "speeds are of batches that are always full, without prompts in between and without"
        " waiting; what users see of a load, with and without drafts, is said by"
    )
    yield f"  {command}"
