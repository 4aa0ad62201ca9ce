"""How is a search over policies of masked decoding shown: the fastest at each batch, the front, and
the twin?
"""

from collections.abc import Mapping
from typing import Any

from app.answers.cells import LISTED, several
from app.answers.numbers import fixed, plain, ranged
from app.render.html.refining_words import (
    marked_lines,
    marks,
    quality_words,
    rule_words,
    shown_rows,
    twin_lines,
)

Row = Mapping[str, Any]


def print_search(answer: Row) -> None:
    """Print the ranked policies, what quality means, when the autoregressive twin is beaten, and
    what is marked.

    Args:
        answer: the object of `optimize` for a method that refines masked blocks.
    """
    from app.render.text import print_table, say

    inputs, quality = answer["inputs"], answer["quality"]
    names = [name for name in LISTED if "," in str(inputs[name])]
    columns = [
        *names,
        "batch",
        "context",
        "rule",
        "block",
        "cache",
        "tokens per pass",
        "agreement",
        "tokens/s",
        "twin",
        "mark",
    ]
    title = " on ".join(several(str(inputs[name]), name) for name in ("model", "device"))
    title += f", {inputs['method']}: {quality['policies']} policies, floor {quality['floor']:.1%}"
    cells = [[*(str(row[name]) for name in names), *_cells(row)] for row in shown_rows(answer)]
    caption = (
        "brackets: of a pace by states that hold less and more, of agreement over prompts, of"
        " speeds the cost model"
    )
    print_table(title, columns, cells, caption=caption, once=[*names, "batch", "context"])
    say(f"agreement: {quality_words(quality)}")
    say("twin: tokens/s over those of the same model decoded one token a pass with a KV cache")
    for line in twin_lines(answer):
        say(line)
    for line in marked_lines(answer):
        say(line)


def _cells(row: Row) -> list[str]:
    first = [plain(row["batch"]), plain(row["context"])]
    if "policy" not in row:
        return [*first, *[""] * 7, row["reason"]]
    speed = ranged(row["tokens_per_s"], row.get("tokens_per_s_interval"))
    share = ranged(row["agreement"], row["agreement_interval"], 3)
    pace = ranged(row["tokens_per_step"], row["tokens_per_step_interval"], 2)
    policy = [rule_words(row), plain(row["block_tokens"]), row["cache"]]
    return [*first, *policy, pace, share, speed, fixed(row["speedup"], 2), ", ".join(marks(row))]
