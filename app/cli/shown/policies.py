"""The tables of `rooftree replay --held-out`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def print_policies(rows: Sequence[Mapping[str, Any]], inputs: Mapping[str, Any]) -> None:
    """Print what every policy does on the requests that it did not see, and by how much our choice
    is faster.

    Args:
        rows: one per batch.
        inputs: of the answer.
    """
    from app.answers.numbers import plain, ranged
    from app.render.text import print_table, say

    for row in rows:
        cells = [
            [
                policy["policy"],
                _drafts(policy["drafts"]),
                f"{policy['tokens_per_step']:.3f}",
                ranged(policy["tokens_per_s"], policy["tokens_per_s_interval"], 0),
            ]
            for policy in row["policies"]
        ]
        for every, key in (
            ("request", "per_request_tokens_per_s"),
            ("step", "per_step_tokens_per_s"),
        ):
            if (bound := row["oracle"][key]) is not None:
                cells.append(
                    [f"oracle: the best length for every {every}", "", "", plain(round(bound))]
                )
        title = f"batch {row['batch']}, {row['method']} for {row['model']} on {inputs['device']}"
        print_table(
            title,
            ["policy", "what it runs", "tokens/step", "tokens/s"],
            cells,
            caption="brackets: 80 % intervals",
        )
        low, high = row["gain_interval"]
        say(
            f"rooftree against {row['best_published']}, the best other over all halves:"
            f" {row['gain_ratio']:+.1%} [{low:+.1%}, {high:+.1%}]; against the best of each half:"
            f" {row['half_gain_ratio']:+.1%}"
        )


def _drafts(often: Sequence[Mapping[str, Any]]) -> str:
    """What was run, the most frequent first, with on how many halves where it differs."""
    if len(often) == 1:
        return str(often[0]["draft"])
    words = [f"{each['draft']} ({each['halves']})" for each in often[:3]]
    return ", ".join(words) + (f", {len(often) - 3} more" if len(often) > 3 else "")
