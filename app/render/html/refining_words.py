"""How is a search over policies of masked decoding said in words: which rows, which marks, who
beats the twin?

Shared by the screen and the page. Leaves out tables and figures.
"""

from collections.abc import Mapping
from typing import Any

from app.answers.breakeven.rows import paying_words

Row = Mapping[str, Any]
_PLACE = ("model", "device", "engine", "context", "batch")
_BEST = 3  # policies shown at a batch and context beside the Pareto front


def shown_rows(answer: Row) -> list[Row]:
    """At every batch and context the fastest policies that meet the floor, and the Pareto front."""
    rows: list[Row] = []
    points = [*answer["choices"], *answer["alternatives"]]
    for place in dict.fromkeys(_place(row) for row in [*points, *answer["unmet"]]):
        here = [row for row in points if _place(row) == place and row["feasible"]]
        best = [row for row in here if row["meets_floor"]][:_BEST]
        front = sorted((row for row in here if row["on_front"]), key=lambda row: -row["agreement"])
        rows += [*best, *(row for row in front if row not in best)]
        rows += [row for row in answer["unmet"] if _place(row) == place]
    return rows


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _PLACE)


def rule_words(row: Row) -> str:
    """A commit rule with its thresholds, whose only one needs no name."""
    at = row["at"]
    values = [f"{value:g}" if len(at) == 1 else f"{key} {value:g}" for key, value in at.items()]
    return f"{row['commit']} {', '.join(values)}"


def quality_words(quality: Row) -> str:
    """What agreement is, on how many prompts and how long a canvas it was counted, and what to
    think of it.
    """
    prompts = ", ".join(
        f"{count} prompts (cache {cache})" for cache, count in quality["prompts"].items()
    )
    return (
        f"{quality['definition']}; {prompts}, canvas of {quality['canvas_tokens']} tokens;"
        f" {quality['remark']}"
    )


def marks(row: Row) -> list[str]:
    """What sets a policy apart from others at its batch and context."""
    found = ["front"] if row["on_front"] else []
    found += ["below the floor"] if not row["meets_floor"] else []
    return found + (["bolder than recorded"] if row["beyond_anchors"] else [])


def twin_lines(answer: Row) -> list[str]:
    """From which pace, and at which batches, the chosen policies beat the model decoded token by
    token.
    """
    lines = []
    for row in answer["choices"]:
        needed, pace = row["needed_tokens_per_step"], row["tokens_per_step"]
        where = f"batch {row['batch']:,}, context {row['context']:,}"
        twin = f"one token a pass with a KV cache ({row['twin_tokens_per_s']:,.0f} tokens/s)"
        if needed is None:
            lines.append(f"{where}: no pace beats {twin}")
            continue
        verdict = "wins" if row["speedup"] > 1.0 else "loses"
        low, high = row["needed_tokens_per_step_interval"]
        words = f"needs {needed:.2f} [{low:.2f}–{high:.2f}] tokens per pass to equal {twin}"
        lines.append(f"{where}: {words}; has {pace:.2f} and {verdict}")
    return lines + [paying_words(row) for row in answer["pays"]]


def marked_lines(answer: Row) -> list[str]:
    """Reasons of the policies that have no answer, with how many they are."""
    reasons: dict[str, set[str]] = {}
    for row in answer["alternatives"]:
        if not row["feasible"]:
            reasons.setdefault(row["reason"], set()).add(row["policy"])
    return [f"{len(policies)} of the policies: {reason}" for reason, policies in reasons.items()]
