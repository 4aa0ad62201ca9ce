"""State updates: bytes and FLOPs by hand, independence of the context, copies against replay,
prompts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import mixed_prefill_s, prefill_s
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.architectures.state_layers import STATE_BYTES, StateLayer
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.memory import footprint, kv_bytes, state_bytes
from costmodel.passes.precision import Precision
from costmodel.passes.state_update import CHUNK_TOKENS, held_states, state_update
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

DELTA = StateLayer(
    kind="delta", inner=4096, heads=32, state_size=128, groups=16, kernel=4, inner_norms=128
)
MEMORY = StateLayer(kind="memory", inner=4096, heads=4096)
H100 = load_device("h100-sxm")
HYBRIDS = (
    "qwen3-next-80b-a3b",
    "jamba-1.5-mini",
    "nemotron-h-8b",
    "phi-4-mini-flash",
    "mamba2-2.7b",
)
BF16 = Precision()


def deployment(name, **keywords):
    return Deployment(architecture=load_model(name), device=H100, precision=BF16, **keywords)


def work(n, b=1, layer=DELTA, **keywords):
    return state_update(layer, b, n, activation_bytes=2.0, **keywords)


def test_one_token_reads_and_writes_the_state_once():
    state, window = DELTA.state_values * STATE_BYTES, DELTA.conv_values * 2.0
    inputs = (DELTA.input_values + DELTA.conv_width + 2 * DELTA.inner) * 2.0
    assert float(work(1).bytes) == 2 * (state + window) + inputs
    assert float(work(1, rollback="replay").bytes) == float(work(1).bytes)
    assert float(work(1).flops) == 7 * DELTA.state_values + 2 * DELTA.conv_width * 4


@given(n=st.integers(2, 64), b=st.integers(1, 64))
def test_copies_write_a_state_per_token_and_replay_one(n, b):
    copies, replay = work(n, b), work(n, b, rollback="replay")
    state = DELTA.state_values * STATE_BYTES + DELTA.conv_values * 2.0
    beside = n * 2.0 * (DELTA.input_values + DELTA.conv_width + 2 * DELTA.inner)
    assert float(copies.bytes) == pytest.approx(b * ((1 + n) * state + beside))
    saved = (n - 1) * state - 2.0 * n * 2.0 * DELTA.input_values
    assert float(copies.bytes - replay.bytes) == pytest.approx(b * saved)
    assert replay.flops > copies.flops  # the tokens are worked out against each other


@given(n=st.integers(1, 64), nodes=st.integers(1, 64))
def test_a_tree_costs_what_a_chain_of_its_nodes_does_by_replay(n, nodes):
    """STree: one masked product serves any tree, so that only the number of nodes counts, and more
    cost more."""
    fewer, more = sorted((n, nodes))
    a, b = (work(x, rollback="replay") for x in (fewer, more))
    assert a.flops <= b.flops
    assert a.bytes <= b.bytes


def test_a_memory_unit_has_no_state_to_move():
    """A gate reads another layer's output: three activations per channel and token, no arithmetic
    of its own here."""
    assert float(work(3, 2, layer=MEMORY).bytes) == 2 * 3 * 2.0 * MEMORY.inner * 2.0
    assert float(work(3, 2, layer=MEMORY).flops) == 0.0


def test_prompts_move_the_state_once_per_pass():
    short, long = work(CHUNK_TOKENS, prefill=True), work(64 * CHUNK_TOKENS, prefill=True)
    state = 2.0 * (DELTA.state_values * STATE_BYTES + DELTA.conv_values * 2.0)
    assert float(long.bytes - state) == pytest.approx(64 * float(short.bytes - state))
    assert float(long.flops) == pytest.approx(
        64 * float(short.flops)
    )  # linear in the prompt beyond a chunk
    assert float(work(4096, prefill=True).bytes) < 0.05 * float(work(4096).bytes)


@given(
    name=st.sampled_from(HYBRIDS),
    batch=st.integers(1, 64),
    n=st.integers(1, 8),
    context=st.integers(0, 60_000),
    rollback=st.sampled_from(("copies", "replay")),
)
def test_no_state_update_depends_on_the_context(name, batch, n, context, rollback):
    d = deployment(name, rollback=rollback)
    here, empty = (pass_cost(d, batch=batch, query_tokens=n, context=c) for c in (context, 0))
    assert here.seconds["state"] == empty.seconds["state"]
    if not d.architecture.kv_values_per_token:
        assert here.total_s == empty.total_s


def test_hybrids_pay_for_context_in_their_attending_layers_alone():
    """A quarter of Qwen3-Next's layers attend: the cache read grows by their bytes per token and
    nothing else."""
    d = deployment("qwen3-next-80b-a3b", fidelity="datasheet")
    far, near = (pass_cost(d, batch=8, query_tokens=1, context=c) for c in (32_768, 16_384))
    assert float(far.bytes - near.bytes) == pytest.approx(
        8 * 16_384 * 12 * 2 * 2 * 256 * 2.0, rel=1e-9
    )
    assert far.seconds["moe"] == near.seconds["moe"]


def test_verifying_with_copies_costs_more_than_by_replay_where_states_are_large():
    copies, replay = (
        deployment("mamba2-2.7b", rollback=rollback) for rollback in ("copies", "replay")
    )
    point = {"batch": 16, "query_tokens": 8, "context": 0}
    slow, fast = (float(pass_cost(d, **point).seconds["state"]) for d in (copies, replay))
    print(
        f"\nMamba-2 2.7B, batch 16, 8 tokens: {slow * 1e3:.2f} ms of states by copies,"
        f" {fast * 1e3:.2f} ms by replay"
    )
    assert slow > 2 * fast


def test_of_a_prompt_only_the_last_token_runs_the_cross_decoder():
    """SambaY's second half stores nothing: its prompt passes grow with half of the layers."""
    d = deployment("phi-4-mini-flash", fidelity="datasheet")
    last, every = (
        pass_cost(d, batch=1, query_tokens=8192, context=0, logits=logits, prefill=True)
        for logits in ("last", "all")
    )
    assert float(last.flops) < 0.62 * float(every.flops)


def test_tensor_parallelism_splits_states():
    one, four = (deployment("nemotron-h-8b", tensor_parallel=n) for n in (1, 4))
    point = {"batch": 64, "query_tokens": 1, "context": 0}
    a, b = (pass_cost(d, **point) for d in (one, four))
    assert float(b.seconds["state"]) < 0.4 * float(a.seconds["state"])
    with pytest.raises(InputError, match="divide the heads"):
        replace(one, tensor_parallel=3)


@pytest.mark.parametrize("name", HYBRIDS)
def test_memory_counts_states_beside_the_cache(name):
    model = load_model(name)
    state = state_bytes(model, BF16)
    assert state >= model.state_values * STATE_BYTES
    empty, filled = (float(kv_bytes(model, BF16, batch=3, context=c)) for c in (0, 256))
    assert empty == pytest.approx(3 * state)
    assert filled - empty == pytest.approx(3 * 256 * model.kv_values_per_token * 2.0)
    assert float(kv_bytes(model, BF16, batch=3, context=0, states=5)) == pytest.approx(5 * empty)


def test_memory_holds_a_state_per_verified_token_or_one():
    model = load_model("mamba2-2.7b")
    copies, replay = (
        float(
            footprint(
                model, BF16, batch=4, context=100, query_tokens=8, rollback=rollback
            ).total_bytes
        )
        for rollback in ("copies", "replay")
    )
    assert copies - replay == pytest.approx(4 * 7 * state_bytes(model, BF16))
    assert state_bytes(load_model("llama-3.1-8b"), BF16) == 0.0
    assert held_states(np.array([1, 8]), "copies").tolist() == [1.0, 8.0]
    assert held_states(np.array([1, 8]), "replay").tolist() == [1.0, 1.0]


def test_prompts_beside_decoding_requests_do_not_move_a_state_per_token():
    """A prompt's rows share products with decodes, but its scan is one pass over the state."""
    setting = build_setting(
        DecodingConfiguration(
            deployment=DeploymentNames(model="mamba2-2.7b", device="h100-sxm", engine="none")
        )
    )
    alone = float(prefill_s(setting, prompt_tokens=4096))
    beside = float(mixed_prefill_s(setting, prompt_tokens=4096, decode_rows=8))
    assert 0.3 * alone < beside < 1.05 * alone
