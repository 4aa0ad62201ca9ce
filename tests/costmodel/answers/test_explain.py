"""A step taken apart: the parts sum to the whole, roofs follow the hardware, sentences name what
bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.explain import ROOFS, explain, operation_shares
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import chain_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import Acceptance, geometric
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree

pytestmark = pytest.mark.heavy

METHODS = ("plain-decoding", "n-gram", "eagle-3", "medusa", "mtp", "early-exit")
SETTINGS = {
    (model, method, engine, tp): build_setting(
        DecodingConfiguration(
            method=method,
            deployment=DeploymentNames(
                model=model, device="h100-sxm", engine=engine, tensor_parallel=tp
            ),
        )
    )
    for model, method, engine, tp in (
        *(("llama-3.1-8b", method, "vllm", 1) for method in METHODS),
        ("llama-3.1-70b", "eagle-3", "none", 4),
        ("mixtral-8x7b", "n-gram", "sglang", 2),
        ("deepseek-v2-lite", "mtp", "vllm", 1),
        ("gemma-2-9b", "early-exit", "transformers", 1),
    )
}
EAGLE = SETTINGS["llama-3.1-8b", "eagle-3", "vllm", 1]
BARE = build_setting(
    DecodingConfiguration(
        method="eagle-3",
        deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none"),
    )
)
SPLIT = build_setting(
    DecodingConfiguration(
        method="n-gram",
        deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm", split_verify=False),
    )
)


def told(setting, acceptance, batch=1, context=1024):
    return explain(
        setting, acceptance, batch=batch, context=context, generator=np.random.default_rng(0)
    )


@pytest.mark.parametrize("key", SETTINGS, ids=lambda key: "-".join(map(str, key)))
@pytest.mark.parametrize(("batch", "context"), [(1, 0), (1, 1024), (48, 4096), (512, 300)])
def test_the_parts_sum_to_the_step(key, batch, context):
    setting = SETTINGS[key]
    accepted = geometric(0.7, 0 if key[1] == "plain-decoding" else 4)
    result = estimate(setting, accepted, batch=batch, context=context)
    shares = operation_shares(setting, accepted, result.step, batch=batch, context=context)
    assert sum(s.seconds for s in shares) == pytest.approx(float(result.step_s), rel=1e-9)
    for phase, whole in (("draft", result.step.draft_s), ("verify", result.step.verify_s)):
        assert sum(s.seconds for s in shares if s.phase == phase) == pytest.approx(
            float(whole), rel=1e-9
        )
    for share in shares:
        assert set(share.by_roof_s) == set(ROOFS)
        assert sum(share.by_roof_s.values()) == pytest.approx(share.seconds, rel=1e-9)
        assert min(share.by_roof_s.values()) >= 0.0
    assert [s.seconds for s in shares] == sorted((s.seconds for s in shares), reverse=True)


@given(share=st.floats(0.05, 0.95), batch=st.integers(1, 64))
def test_the_parts_sum_where_the_drafter_rests(share, batch):
    resting = Acceptance(
        draft_tokens=4, tokens_per_step=1.4, proposal_ratio=share, proposed_tokens=2.5
    )
    setting = SETTINGS["llama-3.1-8b", "n-gram", "vllm", 1]
    result = estimate(setting, resting, batch=batch, context=700)
    shares = operation_shares(setting, resting, result.step, batch=batch, context=700)
    assert sum(s.seconds for s in shares) == pytest.approx(float(result.step_s), rel=1e-9)


def test_a_tree_is_explained_like_a_chain():
    tree = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])
    shaped = Acceptance(draft_tokens=5, tokens_per_step=2.2, proposed_tokens=5.0, tree=tree)
    found = told(EAGLE, shaped)
    assert sum(o.seconds for o in found.operations) == pytest.approx(found.step_s, rel=1e-9)
    assert sum(found.by_roof_s.values()) == pytest.approx(found.step_s, rel=1e-9)


def test_roles_and_phases_are_named():
    names = {o.name for o in told(EAGLE, geometric(0.7, 3)).operations}
    projections = {f"verify gemm {role}" for role in ("qkv", "output", "gate_up", "down")}
    assert projections <= names
    assert {
        "draft gemm fuse",
        "verify attention",
        "verify head",
        "verify sampler",
        "engine overhead",
    } <= names
    assert not any(
        name.startswith("draft")
        for name in {o.name for o in told(EAGLE, geometric(0.7, 0)).operations}
    )
    assert any(
        o.operation == "moe"
        for o in told(SETTINGS["mixtral-8x7b", "n-gram", "sglang", 2], geometric(0.5, 2)).operations
    )
    assert any(
        o.operation == "mla"
        for o in told(SETTINGS["deepseek-v2-lite", "mtp", "vllm", 1], geometric(0.5, 1)).operations
    )


def test_roofs_are_the_ones_that_operations_meet():
    small = {o.name: o for o in told(BARE, geometric(0.7, 3)).operations}
    assert small["verify gemm gate_up"].bound == "bandwidth"
    assert small["verify sampler"].bound == "launch" and small["verify sampler"].intensity is None
    large = {o.name: o for o in told(BARE, geometric(0.7, 3), batch=512).operations}
    assert large["verify gemm gate_up"].bound == "compute"
    wide = told(SETTINGS["llama-3.1-70b", "eagle-3", "none", 4], geometric(0.7, 3), batch=256)
    assert {o.name: o.bound for o in wide.operations}["verify allreduce"] == "link"


@given(batch=st.integers(1, 256), context=st.integers(0, 8192))
def test_on_bare_roofs_there_is_no_fixed_time(batch, context):
    bare = build_setting(
        DecodingConfiguration(
            method="n-gram",
            deployment=DeploymentNames(
                model="llama-3.2-1b", device="h100-sxm", engine="none", fidelity="datasheet"
            ),
        )
    )
    found = told(bare, geometric(0.5, 3), batch=batch, context=context)
    assert found.by_roof_s["launch"] == pytest.approx(0.0, abs=1e-6 * found.step_s)
    assert found.by_roof_s["overhead"] == found.by_roof_s["link"] == 0.0
    for o in found.operations:
        assert max(o.bandwidth_ratio, o.compute_ratio) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("batch", [1, 64])
def test_nothing_achieves_more_than_its_device_can(batch):
    for o in told(EAGLE, geometric(0.7, 3), batch=batch).operations:
        assert 0.0 <= o.bandwidth_ratio <= 1.0 and 0.0 <= o.compute_ratio <= 1.05


def test_intensity_is_flops_over_bytes_and_grows_with_the_draft():
    few, many = ({o.name: o for o in told(BARE, geometric(0.7, k)).operations} for k in (0, 7))
    name = "verify gemm gate_up"
    assert few[name].intensity == pytest.approx(few[name].flops / few[name].bytes)
    assert (
        many[name].intensity > 7 * few[name].intensity
    )  # the weights are read once for eight tokens


def test_attention_that_cannot_split_waits_for_its_walk():
    found = {o.name: o for o in told(SPLIT, geometric(0.5, 3), context=32_768).operations}
    assert found["verify attention"].bound == "launch"


def test_the_sentence_names_the_bound_and_the_remedy():
    assert "fewer bits per weight" in told(BARE, geometric(0.7, 3)).sentence
    assert (
        "fewer bits per cached value"
        in told(BARE, geometric(0.7, 3), batch=64, context=8192).sentence
    )
    assert "draft fewer tokens" in told(BARE, geometric(0.7, 7), batch=512, context=128).sentence
    tiny = build_setting(
        DecodingConfiguration(
            method="n-gram",
            deployment=DeploymentNames(model="smollm2-135m", device="h100-sxm", engine="none"),
        )
    )
    assert "Launches" in told(tiny, geometric(0.5, 0)).sentence
    slow = build_setting(
        DecodingConfiguration(
            method="n-gram",
            deployment=DeploymentNames(model="smollm2-135m", device="h100-sxm", engine="vllm"),
        )
    )
    assert "vllm's work" in told(slow, geometric(0.5, 3), batch=64).sentence


def test_what_cannot_be_costed_cannot_be_explained():
    with pytest.raises(InputError, match="batch"):
        told(EAGLE, geometric(0.7, 3), batch=0)


def test_passes_hold_the_operations_that_they_sum():
    """`explain` reads what `forward` and `step` recorded; their sums must agree."""
    d = EAGLE.deployment
    step = chain_step(d, EAGLE.drafter, EAGLE.overhead, batch=8, context=512, draft_tokens=3)
    for weight, cost in (*step.draft_passes, *step.verify_passes):
        assert sum(o.calls * float(o.timing.seconds) for o in cost.operations) == pytest.approx(
            float(cost.total_s)
        )
        assert sum(o.calls * float(o.work.bytes) for o in cost.operations) == pytest.approx(
            float(cost.bytes)
        )
        assert float(weight) > 0
