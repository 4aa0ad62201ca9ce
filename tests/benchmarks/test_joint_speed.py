"""A joint search over four kinds of devices, with its simulations."""

from dataclasses import replace

import pytest

from app.answers.optimize.confirmed import confirmed_search
from app.answers.optimize.simulated import DesignRun, Simulations
from app.answers.sizing.traffic import Traffic
from costmodel.answers.workload import Limits, load_of_means
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.default_drafters import default_drafters
from costmodel.optimizers.joint.search import joint_search
from costmodel.optimizers.joint.space import JointQuestion, all_placements
from costmodel.optimizers.layouts import usual_layouts
from costmodel.optimizers.recommend import compare

TRAFFIC = Traffic(requests=None, prompt_tokens="1024", output_tokens="uniform:128:384")


def question(model):
    """Eight devices of each of four kinds, every layout, weights and cache in 16 and 8 bits, the
    usual drafters."""
    asked, drafters = default_drafters(
        DecodingConfiguration(deployment=DeploymentNames(model=model))
    )
    return JointQuestion(
        compared=compare(asked, drafters),
        most_devices=8,
        placements=all_placements(
            ["h100-sxm", "h200-sxm", "b200-sxm", "mi300x"],
            usual_layouts(model, 8),
            (None, "fp8"),
            (None, "fp8"),
        ),
        slo=Limits(tpot_s=0.03),
        load=load_of_means(requests_per_s=1.0, prompt_tokens=1024, output_tokens=256),
    )


@pytest.mark.parametrize(
    "model", ["llama-3.1-8b", pytest.param("qwen3-30b-a3b", marks=pytest.mark.heavy)]
)
def test_four_kinds_of_devices(benchmark, cpu_s, aim, model):
    asked = question(model)
    found = benchmark.pedantic(confirmed_search, args=(asked, TRAFFIC), rounds=1)
    assert found.finalists[0].run is not None
    searched = found.optimum
    print(
        f"\n{searched.considered:,} designs, {searched.evaluated:,} evaluated, {searched.pruned} of"
        f" {searched.nodes} nodes pruned, {found.simulations} simulations"
    )
    aim(
        f"CPU s of a joint search for {model}",
        cpu_s(lambda: confirmed_search(asked, TRAFFIC), rounds=1),
        most=30,
    )
    bare = cpu_s(lambda: joint_search(asked), rounds=1)
    aim(
        "share of the time without pruning",
        bare / cpu_s(lambda: joint_search(asked, prune=False), rounds=1),
        most=1.0,
    )


def test_short_simulations(benchmark, cpu_s, aim):
    """Designs one after another, each prepared anew and run on three seeds."""
    asked = replace(
        question("llama-3.1-8b"),
        placements=all_placements(["h100-sxm"], usual_layouts("llama-3.1-8b", 8)),
    )
    designs = [each for each in joint_search(asked, ranked=50).front if each.batch <= 128]

    def runs():
        return [Simulations(asked, TRAFFIC).run(design, range(3)) for design in designs]

    assert all(isinstance(run, DesignRun) for run in benchmark.pedantic(runs, rounds=1))
    each = cpu_s(runs, rounds=1) / (3 * len(designs))
    aim(f"CPU s of 1,000 short simulations, from {3 * len(designs)}", 1000 * each, most=60)
