"""Steps: what a chain, a tree and an absent proposal cost."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.steps.step import chain_step, expansion_widths, tree_step
from costmodel.architectures.library import load_model
from costmodel.drafters.drafter import build_drafter
from costmodel.drafters.pass_costs import draft_pass, prompt_draft_s
from costmodel.engine_library import load_engine
from costmodel.engines.record.overhead import BARE, Overhead
from costmodel.method import Batch
from costmodel.method_library import load_method
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device
from traces.kinds.tree import Tree, chain_tree

TARGET = load_model("llama-3.1-8b")
HOST = Deployment(architecture=TARGET, device=load_device("h100-sxm"), precision=Precision())
EAGLE = build_drafter(load_method("eagle-3"), TARGET)
NGRAM = build_drafter(load_method("n-gram"), TARGET)
DRAFT = build_drafter(load_method("speculative-decoding"), TARGET, draft=load_model("llama-3.2-1b"))


def total(drafter, **point):
    return float(
        chain_step(
            HOST, drafter, BARE, **({"batch": 1, "context": 512, "draft_tokens": 3} | point)
        ).total_s
    )


@pytest.mark.parametrize("drafter", [EAGLE, NGRAM, DRAFT], ids=lambda d: d.method.slug)
def test_no_draft_is_a_plain_pass(drafter):
    plain = float(pass_cost(HOST, batch=8, query_tokens=1, context=512).total_s)
    assert total(drafter, batch=8, draft_tokens=0) == pytest.approx(plain, rel=1e-12)


def test_a_chain_is_its_passes():
    single = float(
        draft_pass(HOST, DRAFT, DRAFT.stages[0], batch=2, query_tokens=1, context=512).total_s
    )
    verify = float(pass_cost(HOST, batch=2, query_tokens=5, context=512).total_s)
    assert total(DRAFT, batch=2, draft_tokens=4) == pytest.approx(4 * single + verify, rel=1e-12)


@pytest.mark.parametrize("batch", [1, 256])
def test_phases_that_overlap_take_as_long_as_the_longer_one(batch):
    """Liu et al. 2024, "PEARL" (arXiv:2408.11850), section 4."""
    at = {"batch": batch, "context": 512, "draft_tokens": 4}
    apart = chain_step(HOST, DRAFT, BARE, **at)
    ahead = replace(DRAFT, method=replace(DRAFT.method, batch=Batch(drafts_during_verify=True)))
    together = chain_step(HOST, ahead, BARE, **at)
    assert together.total_s == pytest.approx(max(apart.draft_s, apart.verify_s), rel=1e-12)
    assert apart.total_s == pytest.approx(apart.draft_s + apart.verify_s, rel=1e-12)


def test_feature_drafters_reread_the_last_step():
    first = float(
        draft_pass(
            HOST, EAGLE, EAGLE.stages[0], batch=32, query_tokens=5, context=512, verified=5
        ).total_s
    )
    single = float(
        draft_pass(HOST, EAGLE, EAGLE.stages[0], batch=32, query_tokens=1, context=512).total_s
    )
    verify = float(pass_cost(HOST, batch=32, query_tokens=5, context=512).total_s)
    assert total(EAGLE, batch=32, draft_tokens=4) == pytest.approx(
        first + 3 * single + verify, rel=1e-12
    )


@given(batch=st.integers(1, 200), k=st.integers(0, 15))
def test_longer_drafts_cost_more_on_bare_roofs(batch, k):
    bare = Deployment(
        architecture=TARGET, device=HOST.device, precision=Precision(), fidelity="datasheet"
    )
    costs = chain_step(
        bare, EAGLE, BARE, batch=batch, context=512, draft_tokens=np.array([k, k + 1])
    ).total_s
    assert costs[0] < costs[1]


@given(ratio=st.floats(0.0, 1.0), k=st.integers(1, 12))
def test_one_request_proposes_or_not(ratio, k):
    """At batch 1 the expectation over proposals is exact."""
    with_draft, without = total(NGRAM, draft_tokens=k), total(NGRAM, draft_tokens=0)
    mixed = float(
        chain_step(
            HOST, NGRAM, BARE, batch=1, context=512, draft_tokens=k, proposal_ratio=ratio
        ).total_s
    )
    assert mixed == pytest.approx(ratio * with_draft + (1 - ratio) * without, rel=1e-9)


def test_many_requests_average_over_the_binomial():
    batch, k, ratio = 48, 5, 0.3
    proposing = np.arange(batch + 1)
    weight = np.array([float(w) for w in _binomial(batch, ratio)])
    passes = pass_cost(
        HOST, batch=batch, query_tokens=1 + k * proposing / batch, context=512
    ).total_s
    exact = float(np.sum(weight * passes))
    ours = float(
        chain_step(
            HOST, NGRAM, BARE, batch=batch, context=512, draft_tokens=k, proposal_ratio=ratio
        ).total_s
    )
    assert ours == pytest.approx(exact, rel=2e-3)


def _binomial(n, p):
    from math import comb

    return [comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n + 1)]


def test_a_chain_tree_costs_what_the_chain_does():
    for drafter in (EAGLE, NGRAM, DRAFT):
        as_tree = float(tree_step(HOST, drafter, BARE, chain_tree(4), batch=4, context=512).total_s)
        assert as_tree == pytest.approx(total(drafter, batch=4, draft_tokens=4), rel=1e-12)


def test_a_tree_drafts_by_levels():
    tree = Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])
    assert expansion_widths(tree) == [1, 2, 1]
    assert expansion_widths(chain_tree(3)) == [1, 1, 1]
    assert expansion_widths(chain_tree(0)) == []
    step = tree_step(HOST, DRAFT, BARE, tree, batch=1, context=512)
    passes = [
        float(
            draft_pass(HOST, DRAFT, DRAFT.stages[0], batch=1, query_tokens=w, context=512).total_s
        )
        for w in (1, 2, 1)
    ]
    assert float(step.draft_s) == pytest.approx(sum(passes), rel=1e-12)
    verify = float(pass_cost(HOST, batch=1, query_tokens=8, context=512).total_s)
    assert float(step.verify_s) == pytest.approx(verify, rel=1e-12)


def test_overheads_are_added_once():
    extra = Overhead(
        engine="x",
        versions="",
        step_s=1.0,
        draft_s=0.5,
        request_s=0.01,
        verify_ratio=0.0,
        source="test",
    )
    spec = chain_step(HOST, EAGLE, extra, batch=2, context=0, draft_tokens=np.array([3, 7]))
    tree = tree_step(HOST, EAGLE, extra, chain_tree(5), batch=2, context=0)
    plain = chain_step(HOST, EAGLE, extra, batch=2, context=0, draft_tokens=0)
    assert spec.overhead_s == pytest.approx(1.5 + 0.01 * 2)
    assert float(tree.overhead_s) == pytest.approx(1.5 + 0.01 * 2)
    assert float(plain.overhead_s) == pytest.approx(1.0 + 0.01 * 2)


def test_vllm_overheads_follow_from_the_published_fit():
    """The fit's steps, less this model's passes, leave the three constants of the table."""
    fit = {
        "fixed": 5.88590713e-3,
        "token": 2.10103129e-5,
        "kv": 3.92645679e-8,
        "step": 1.20683946e-3,
    }

    def left(batch, tokens):
        own = float(pass_cost(HOST, batch=batch, query_tokens=tokens, context=180).total_s)
        published = (
            fit["fixed"] + fit["token"] * batch * tokens + fit["kv"] * batch * 180 + fit["step"]
        )
        return published - own

    entry = load_engine("vllm").overhead("head")
    per_request = (
        left(64, 1) - left(1, 1)
    ) / 63  # where each has one token, its seconds are those of the token
    assert entry.request_s == pytest.approx(per_request, rel=0.01)
    assert entry.step_s == pytest.approx(left(1, 1) - per_request, abs=2e-5)
    draft = float(chain_step(HOST, EAGLE, BARE, batch=1, context=180, draft_tokens=3).draft_s)
    assert entry.draft_s == pytest.approx(2.13526175e-3 - draft, rel=0.01)


def test_limits_move_from_bandwidth_to_compute():
    small = chain_step(HOST, EAGLE, BARE, batch=1, context=512, draft_tokens=3)
    large = chain_step(HOST, EAGLE, BARE, batch=512, context=128, draft_tokens=7)
    assert (str(small.limit), str(large.limit)) == ("bandwidth", "compute")


def test_rows_that_leave_early_save_the_layers_behind():
    def pruned(**changes):
        method = load_method("propd")
        verify = replace(method.verify, **changes)
        return build_drafter(replace(method, verify=verify), TARGET)

    point = {"batch": 64, "draft_tokens": 7}
    whole = total(pruned(pruned_after=1.0), **point)
    nobody = total(pruned(pruned_after=0.5, pruned_ratio=1.0), **point)
    everybody = total(pruned(pruned_after=0.5, pruned_ratio=0.0), **point)
    assert nobody == pytest.approx(whole, rel=1e-9)
    assert everybody < total(pruned(pruned_after=0.75, pruned_ratio=0.0), **point) < whole
    assert total(pruned(pruned_after=0.5), batch=64, draft_tokens=0) == total(
        NGRAM, batch=64, draft_tokens=0
    )


def test_a_drafter_that_reads_less_of_the_text_drafts_over_a_shorter_one():
    method = load_method("specvlm")
    (draft,) = method.draft
    shares = [
        build_drafter(replace(method, draft=(replace(draft, context_ratio=r),)), TARGET)
        for r in (1.0, 0.25)
    ]
    whole, part = shares
    point = {"batch": 8, "query_tokens": 1}
    short = draft_pass(HOST, whole, whole.stages[0], **point, context=4000).total_s
    assert float(draft_pass(HOST, part, part.stages[0], **point, context=16_000).total_s) == float(
        short
    )
    assert part.kv_values_per_token == whole.kv_values_per_token / 4
    prompts = [
        float(prompt_draft_s(HOST, each, batch=1, prompt_tokens=8000)) for each in (whole, part)
    ]
    assert prompts[1] == pytest.approx(
        float(prompt_draft_s(HOST, whole, batch=1, prompt_tokens=2000))
    )
    assert prompts[1] < prompts[0]
