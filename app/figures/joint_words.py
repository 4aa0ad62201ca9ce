"""What does a joint search say in words: which design, and how sure is that?"""

from collections.abc import Mapping
from typing import Any

from app.figures.charts import digits

Json = Mapping[str, Any]


def design_words(row: Json) -> str:
    """A design in a cell: `b200-sxm tp2 fp8, eagle-3 K=3`."""
    cache = f"/{row['kv_dtype']} cache" if row["kv_dtype"] != "bf16" else ""
    drafted = "no drafts" if row["topology"] == "off" else f"{row['drafter']} {row['draft']}"
    return f"{row['device']} {row['layout']} {row['dtype']}{cache}, {drafted}"


def headline(answer: Json) -> str:
    """What to run, in plain words (not escaped)."""
    row, objective = answer["choices"][0], answer["objective"]
    several = f"{row['replicas']} replicas" if row["replicas"] > 1 else "1 replica"
    return (
        f"Run {design_words(row)}: {several} on {row['devices']} devices, at most {row['batch_cap']:,} requests of a "
        f"scheduler and {row['token_budget']:,} tokens of an iteration: {digits(row['objective'])} {objective['unit']}"
    )


def sure_words(answer: Json) -> str:
    """How likely the winner is the best, against whom it is closest, and what being wrong costs (not escaped)."""
    row, unit = answer["choices"][0], answer["objective"]["unit"]
    others = [each for each in answer["alternatives"] if each["loses_to_winner_probability"] is not None]
    said = f"Best of those compared with probability {100 * row['best_probability']:.0f} %"
    if others:
        closest = min(others, key=lambda each: each["loses_to_winner_probability"])
        share = 100 * closest["loses_to_winner_probability"]
        said += f"; it beats {design_words(closest)} with {share:.0f} %"
    regret, ratio = answer["expected_regret"], answer["expected_regret_ratio"]
    return f"{said}; expected to lose {digits(regret)} {unit} ({100 * ratio:.1f} %) by being wrong"
