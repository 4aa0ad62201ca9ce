"""Small joint questions."""

from dataclasses import replace

from costmodel.answers.workload import Limits, load_of_means
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.sources import rates_source
from costmodel.optimizers.joint.space import JointQuestion, all_placements
from costmodel.optimizers.layouts import usual_layouts
from costmodel.optimizers.recommend import compare

EAGLE = rates_source("eagle-3", (0.78, 0.61, 0.48, 0.37))
LOOKUP = rates_source("n-gram", (0.5,), match_rate=0.4)


def question(
    model="llama-3.1-8b",
    *,
    prompt=1024,
    output=256,
    rate=10.0,
    device_names=("h100-sxm", "l4"),
    layouts=None,
    weight_formats=(None,),
    **changes,
):
    """Two kinds of devices, at most two of each, two drafters."""
    where = DecodingConfiguration(deployment=DeploymentNames(model=model))
    usual = JointQuestion(
        compared=compare(where, [EAGLE, LOOKUP], draft_tokens=(1, 3)),
        placements=all_placements(device_names, layouts or usual_layouts(model, 2), weight_formats),
        most_devices=changes.get("most_devices", 2),
        batch_caps=(1, 4, 16, 64, 256),
        token_budgets=(1024, 4096),
        load=load_of_means(requests_per_s=rate, prompt_tokens=prompt, output_tokens=output),
    )
    return replace(usual, **changes)


def slo(tpot_ms=None, ttft_ms=None):
    """Limits in milliseconds."""
    return Limits(tpot_s=tpot_ms and tpot_ms / 1e3, ttft_s=ttft_ms and ttft_ms / 1e3)
