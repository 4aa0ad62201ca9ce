"""What draft passes run, and passes of a draft that an engine adds to those of the method."""

from dataclasses import replace

import pytest

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.step import chain_step, tree_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.drafters.drafter import build_drafter
from costmodel.drafters.formats import drafter_bytes
from costmodel.drafters.pass_costs import draft_pass, prompt_draft_s
from costmodel.method import Draft
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree


def setting_of(engine, method="speculative-decoding", draft_model="llama-3.2-1b", tp=1):
    names = DeploymentNames(
        model="llama-3.1-8b", device="h100-sxm", engine=engine, tensor_parallel=tp
    )
    return build_setting(
        DecodingConfiguration(method=method, draft_model=draft_model, deployment=names)
    )


@pytest.mark.parametrize(("batch", "draft_tokens"), [(1, 1), (4, 5)])
def test_a_draft_model_that_follows_its_target_computes_what_is_verified_too(batch, draft_tokens):
    followed, plain = (
        chain_step(
            s.deployment, s.drafter, s.overhead, batch=batch, context=512, draft_tokens=draft_tokens
        )
        for s in (setting_of("llama.cpp"), setting_of("none"))
    )
    s = setting_of("llama.cpp")
    once = draft_pass(
        s.deployment,
        s.drafter,
        s.drafter.stages[0],
        batch=batch,
        query_tokens=draft_tokens + 1,
        context=512,
    ).total_s
    alone = draft_pass(
        s.deployment, s.drafter, s.drafter.stages[0], batch=batch, query_tokens=1, context=512
    ).total_s
    assert followed.draft_s == pytest.approx(float(draft_tokens * alone + once), rel=1e-6)
    assert plain.draft_s < followed.draft_s
    assert (
        chain_step(s.deployment, s.drafter, s.overhead, batch=1, context=9, draft_tokens=0).draft_s
        == 0.0
    )


def test_heads_and_lookups_follow_nothing():
    for method in ("eagle-3", "n-gram"):
        stages = setting_of("llama.cpp", method, None).drafter.stages
        assert not any(stage.follows_target for stage in stages)


def run(step, role):
    """How often a step runs products of a role, and over how many rows each time."""
    return [
        (float(often), float(operation.sizes["rows"]))
        for often, cost in step.draft_passes
        for operation in cost.operations
        if operation.role == role
    ]


@pytest.mark.parametrize("draft_tokens", [1, 3, 7])
@pytest.mark.parametrize("batch", [1, 16])
def test_features_are_fused_once_a_step_and_inputs_in_every_pass(batch, draft_tokens):
    """`combine_hidden_states` of vLLM's proposer and the width of hidden states in SGLang's head
    and in EAGLE's own: the three features of EAGLE-3, of the tokens that were verified; the
    embedding and feature of EAGLE-2 in all passes."""

    def step(method, k):
        s = setting_of("none", method, None)
        return chain_step(
            s.deployment, s.drafter, s.overhead, batch=batch, context=512, draft_tokens=k
        )

    assert run(step("eagle-3", draft_tokens), "fuse") == [(1.0, batch * (draft_tokens + 1.0))]
    every = run(step("eagle-2", draft_tokens), "fuse")
    assert sum(often for often, _ in every) == draft_tokens
    assert every[0][1] == batch * (draft_tokens + 1.0)
    assert run(step("dflash", draft_tokens), "fuse") == [(1.0, batch * (draft_tokens + 1.0))]
    assert not run(step("eagle-3", 0), "fuse")


def test_a_tree_fuses_features_of_a_path_and_its_root():
    s = setting_of("none", "eagle-3", None)
    tree = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (0, 0, 0)])
    step = tree_step(s.deployment, s.drafter, s.overhead, tree, batch=4, context=512)
    assert run(step, "fuse") == [(1.0, 4 * tree.depth)]


@pytest.mark.parametrize(("method", "asked"), [("eagle-3", 1.0), ("eagle-2", 1.0), ("dflash", 5.0)])
def test_tokens_that_are_read_again_are_not_asked_for_the_next(method, asked):
    """`sample_hidden_states` of vLLM's proposer, `last_hidden` of EAGLE's; SGLang's draft-extend
    graphs do so since its pull request 35546."""
    s = setting_of("none", method, None)
    step = chain_step(s.deployment, s.drafter, s.overhead, batch=8, context=512, draft_tokens=5)
    assert {rows for _, rows in run(step, "head")} == {8 * asked}
    asks_once = prompt_draft_s(s.deployment, s.drafter, batch=1, prompt_tokens=4096)
    (stage,) = s.drafter.stages
    at_all = draft_pass(
        s.deployment, s.drafter, stage, batch=1, query_tokens=4096, context=0
    ).seconds
    assert asks_once < sum(at_all.values())


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_every_device_holds_and_runs_the_whole_matrix_that_fuses(tp):
    """ReplicatedLinear in vLLM, torch.nn.Linear in SGLang."""
    s = setting_of("none", "eagle-3", None, tp)
    hidden = s.target.hidden
    fuse = 3.0 * hidden * hidden
    rest = s.drafter.resident_values - fuse
    held = drafter_bytes(s.deployment, s.drafter, tp)
    assert held == pytest.approx(2.0 * (fuse + rest / tp), rel=1e-9)
    step = chain_step(s.deployment, s.drafter, s.overhead, batch=1, context=512, draft_tokens=3)
    (operation,) = (
        each for _, cost in step.draft_passes for each in cost.operations if each.role == "fuse"
    )
    assert float(operation.work.bytes) == pytest.approx(2.0 * fuse, rel=0.01)


def test_a_network_whose_heads_do_not_divide_is_held_whole():
    s = setting_of("none", "eagle-3", None)
    assert drafter_bytes(s.deployment, s.drafter, 3) == drafter_bytes(s.deployment, s.drafter)


def test_features_need_a_pass_over_what_was_verified():
    entry, target = load_method("eagle-3"), setting_of("none").target
    alone = replace(entry, draft=(Draft(by="head", layers=1, features=3),))
    with pytest.raises(InputError, match="features"):
        build_drafter(alone, target)
