"""Small joint questions."""

from dataclasses import replace

from costmodel.answers.workload import Limits, load_of_means
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.optimizers.drafters.sources import prompts_sources, rates_source
from costmodel.optimizers.joint.space import JointQuestion, all_placements
from costmodel.optimizers.layouts import usual_layouts
from costmodel.optimizers.recommend import compare
from tests.traces.toy_masked import toy_prompts
from traces.kinds.refine_policy import RefinePolicy

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


def masked_question(
    method="fast-dllm",
    *,
    prompt=1024,
    output=256,
    rate=1.0,
    layouts=None,
    sure=(0.5, 0.9),
    block=16,
    caches=("none", "dual"),
    **changes,
):
    """Policies of a method of masked blocks on one kind of device, at most two of it."""
    where = DecodingConfiguration(method=method, deployment=DeploymentNames(model="llama-3.1-8b"))
    policies = [
        RefinePolicy(commit="threshold", at={"confidence": at}, block_tokens=block, cache=cache)
        for at in sure
        for cache in caches
    ]
    sources = prompts_sources(toy_prompts("none", "dual"), method)
    usual = JointQuestion(
        compared=compare(where, sources, policies=policies),
        placements=all_placements(["h100-sxm"], layouts or usual_layouts("llama-3.1-8b", 2)),
        most_devices=2,
        batch_caps=(1, 4, 16),
        token_budgets=(8192,),
        load=load_of_means(requests_per_s=rate, prompt_tokens=prompt, output_tokens=output),
    )
    return replace(usual, **changes)


def slo(tpot_ms=None, ttft_ms=None):
    """Limits in milliseconds."""
    return Limits(tpot_s=tpot_ms and tpot_ms / 1e3, ttft_s=ttft_ms and ttft_ms / 1e3)
