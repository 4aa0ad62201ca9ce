"""A configuration's link opens the page that shows it, or says what no link can hold."""

import dataclasses

import pytest

from app.dashboard.link import link, state_of
from app.dashboard.question import scenario
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from traces.kinds.tree import Tree

CHAIN = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", device="l4", tensor_parallel=2),
    method="n-gram",
    draft_tokens=7,
    schedule=((1, 8, 7), (9, 64, 2)),
    batch=16,
    context=2048,
)


def test_the_state_says_what_the_configuration_says():
    state = state_of(CHAIN)
    assert (state.page, state.model, state.device, state.tp) == ("map", "llama-3.1-8b", "l4", 2)
    assert (state.method, state.draft_tokens, state.batch, state.context) == ("n-gram", 2, 16, 2048)
    tree = Tree.from_paths([(0,), (1,), (0, 0)])
    found = state_of(
        dataclasses.replace(CHAIN, method="eagle-3", shape=tree, draft_tokens=3, schedule=())
    )
    assert (found.page, found.tree_nodes) == ("tree", 3)
    assert link(CHAIN, host="127.0.0.1", port=8501).startswith(
        "http://127.0.0.1:8501/map?model=llama-3.1-8b&"
    )


def test_the_drafter_is_known_by_what_the_configuration_knows_it_by():
    one = dataclasses.replace(CHAIN, method="eagle-3", acceptance_by_depth=(0.72,))
    assert (state_of(one).known_by, state_of(one).acceptance) == ("rate", "0.72")
    falling = dataclasses.replace(
        one, acceptance_by_depth=(0.78, 0.61, 0.48), schedule=(), draft_tokens=3
    )
    assert (state_of(falling).known_by, state_of(falling).acceptance) == ("rates", "0.78,0.61,0.48")
    recorded = dataclasses.replace(CHAIN, trace="smollm2-135m--prompt-lookup--greedy")
    assert (state_of(recorded).known_by, state_of(recorded).trace) == ("recording", recorded.trace)
    assert state_of(CHAIN).known_by == "published"


def test_modified_numbers_and_a_drafter_of_ones_own_stand_in_the_link():
    where = dataclasses.replace(
        CHAIN.deployment,
        overrides=("device.memory_bytes=48GB", "device.peak_flops_per_s.fp8=5e14"),
    )
    own = dataclasses.replace(
        CHAIN,
        deployment=where,
        method="speculative-decoding",
        acceptance_by_depth=(0.8, 0.6),
        draft_name="ours",
        draft_passes=4,
        draft_bytes=3.5e8,
    )
    state = state_of(own)
    assert (state.memory_gb, state.fp8_tflop_per_s) == (48.0, 500.0)
    assert (state.draft_name, state.draft_passes, state.draft_bytes) == ("ours", 4, "350000000")
    shown = scenario(state)
    assert (shown.own_drafter, shown.draft_passes, shown.draft_bytes) == ("ours", 4, 3.5e8)
    assert load_device(state.device, shown.deployment.overrides) == load_device(
        "l4", where.overrides
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "../l4.toml"},
        {"overrides": ("device.constants.gemm.launch_s=1e-5",)},
        {"overrides": ("device.price_usd_per_hour=0",)},
    ],
)
def test_what_no_link_can_hold_is_refused(changes):
    with pytest.raises(InputError):
        state_of(
            dataclasses.replace(CHAIN, deployment=dataclasses.replace(CHAIN.deployment, **changes))
        )
