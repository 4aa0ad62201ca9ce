"""Designs that a joint search finds, simulated, agree with the law that found them."""

import pytest

from app.answers.optimize.joint.simulated import DesignRun, Simulations, Traffic
from costmodel.optimizers.joint.search import joint_search
from tests.costmodel.optimizers.joint.joint_questions import question, slo

TRAFFIC = Traffic(requests=None, prompt_tokens="1024", output_tokens="uniform:128:384")


@pytest.mark.parametrize(
    "changes",
    [{"slo": slo(tpot_ms=25.0)}, {"device_names": ["l4"]}, {"rate_stated": True, "rate": 6.0}],
    ids=["within a limit", "on a small device", "at a rate"],
)
def test_simulated_designs_agree_with_the_law(changes):
    """Of busy replicas the law is 0 to 8 % high in throughput, to 15 % in the time per token; 4
    more for the draws."""
    asked = question(batch_caps=(1, 8, 64), **changes)
    designs = joint_search(asked).ranked[:3]
    assert designs
    for design in designs:
        run = Simulations(asked, TRAFFIC).run(design, [0, 1])
        assert isinstance(run, DesignRun), run
        assert 0.88 <= sum(run.ratios) / len(run.ratios) <= 1.04
        if (
            not asked.rate_stated
        ):  # a replica that is not full takes less time per token than one that is
            assert 0.96 <= design.tpot_s / run.tpot_s <= 1.19
