"""What does a joint search say in words: which design, and how sure is that?"""

from collections.abc import Mapping
from typing import Any

from app.render.charts.charts import digits

Json = Mapping[str, Any]


def design_words(row: Json) -> str:
    """A design in a cell: `b200-sxm tp2 fp8, eagle-3 K=3`."""
    cache = f"/{row['kv_dtype']} cache" if row["kv_dtype"] != "bf16" else ""
    drafted = "no drafts" if row["topology"] == "off" else f"{row['drafter']} {row['draft']}"
    return f"{row['device']} {row['layout']} {row['dtype']}{cache}, {drafted}"


def marked_words(row: Json) -> str:
    """A design in a cell, and what it misses."""
    missed = (
        ""
        if row["meets_limits"]
        else ", misses limits"
        if row["carries_load"]
        else ", carries a part of the load"
    )
    return design_words(row) + missed


def headline(answer: Json) -> str:
    """What to run, in plain words (not escaped)."""
    row, objective = answer["choices"][0], answer["objective"]
    several = f"{row['replicas']} replicas" if row["replicas"] > 1 else "1 replica"
    design = (
        f"{design_words(row)}: {several} on {row['devices']} devices, at most {row['batch_cap']:,}"
        f" requests of a scheduler and {row['token_budget']:,} tokens of an iteration:"
        f" {digits(row['objective'])} {objective['unit']}"
    )
    if not row["carries_load"]:
        return f"{uncarried_words(answer)} Nearest is {design}"
    return f"Run {design}" if row["meets_limits"] else f"{unmet_words(answer)} Nearest is {design}"


def unmet_words(answer: Json) -> str:
    """That nothing meets the limits, and what the nearest design takes; empty where something does
    (not escaped).
    """
    row = answer["choices"][0]
    if row["meets_limits"] or not row["carries_load"]:
        return ""
    seen = row["simulated"] or row
    grows = "" if seen.get("sustained", True) else ", and its backlog grows"
    return (
        f"No design meets the limits ({answer['limits']['meaning']}): the nearest takes a mean TTFT"
        f" of {digits(1e3 * seen['ttft_s'])} ms and a mean TPOT of {digits(1e3 * seen['tpot_s'])}"
        f" ms{grows}."
    )


def uncarried_words(answer: Json) -> str:
    """That the stated rate is not carried, and what is; empty where it is carried (not escaped)."""
    if answer["choices"][0]["carries_load"]:
        return ""
    return (
        f"The load is not carried: of {digits(answer['load_per_s'])} requests/s at most "
        f"{digits(answer['carried_per_s'])} are served."
    )


def sure_words(answer: Json) -> str:
    """How likely the winner is the best, against whom it is closest, and what being wrong costs
    (not escaped).
    """
    row, unit = answer["choices"][0], answer["objective"]["unit"]
    others = [
        each for each in answer["alternatives"] if each["loses_to_winner_probability"] is not None
    ]
    said = f"Best of those compared with probability {100 * row['best_probability']:.0f} %"
    if others:
        closest = min(others, key=lambda each: each["loses_to_winner_probability"])
        share = 100 * closest["loses_to_winner_probability"]
        said += f"; it beats {design_words(closest)} with {share:.0f} %"
    regret, ratio = answer["expected_regret"], answer["expected_regret_ratio"]
    return f"{said}; expected to lose {digits(regret)} {unit} ({100 * ratio:.1f} %) by being wrong"
