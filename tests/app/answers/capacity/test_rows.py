"""What the screen says of plans."""

from dataclasses import replace

from app.answers.answer import Table
from app.answers.capacity import answer
from app.questions.capacity import CapacityQuestion
from app.questions.values import Limit


def sentences(plans):
    return " ".join(part for part in plans.shown() if not isinstance(part, Table))


def test_a_plan_for_means_that_misses_in_simulation_is_said():
    plans = answer(
        CapacityQuestion(
            model="llama-3.2-1b",
            rate=5.0,
            prompt=200.0,
            output=40.0,
            slo_tpot=Limit(seconds=0.03),
        )
    )
    (row,) = plans.plans
    assert row.simulated.keeps_limits and "in simulation" not in sentences(plans)
    missed = replace(row, simulated=replace(row.simulated, keeps_limits=False))
    said = sentences(replace(plans, plans=[missed]))
    assert "in simulation h100-sxm tp1 bf16 plain-decoding misses the limits on means" in said
