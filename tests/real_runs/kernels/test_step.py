"""A timed pass is the pass of a verify step, its bytes are weights and cache once, and its rows say
what it was."""

import time
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from costmodel.architectures.architecture import Architecture, Block, FeedForward  # noqa: E402
from costmodel.architectures.attention import Attention  # noqa: E402
from costmodel.architectures.library import load_model  # noqa: E402
from costmodel.passes import ops  # noqa: E402
from hardware_profiles.errors import InputError, UnknownNameError  # noqa: E402
from real_runs.campaigns.measures import copy_rate, step_rates  # noqa: E402
from real_runs.kernels import machine as machines  # noqa: E402
from real_runs.kernels import step, timing  # noqa: E402
from real_runs.kernels.sweep import sweep  # noqa: E402
from real_runs.kernels.timing import Effort  # noqa: E402

CPU = torch.device("cpu")
MACHINE = machines.Machine(
    device=CPU,
    title="CPU",
    profile="",
    cache_bytes=1 << 10,
    memory_bytes=1 << 28,
    threads=1,
    copy_bytes_per_s=1e9,
    gemm_flops_per_s=1e10,
)
BLOCK = Block(
    attention=Attention(heads=4, kv_heads=2, head_dim=8),
    feed_forward=FeedForward(width=48),
    norms=2,
)
TINY = Architecture(
    name="tiny", hidden=32, vocab=97, tied=True, blocks=((BLOCK, 3),), max_context=4096
)
SIZES = {"requests": [1, 2], "query_tokens": [1, 4], "context": [16]}


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    monkeypatch.setattr(
        step, "load_model", lambda name: TINY if name == "tiny" else load_model(name)
    )


def cases(**changes):
    return step.step_cases(
        "tiny", MACHINE, "fp32", **SIZES | {"masks": ["causal", "tree"]} | changes
    )


def test_every_size_comes_once_and_a_tree_of_one_token_not_at_all():
    shapes = [(c.shape["mask"], c.shape["requests"], c.shape["query_tokens"]) for c in cases()]
    wanted = {("causal", b, n) for b in (1, 2) for n in (1, 4)} | {("tree", b, 4) for b in (1, 2)}
    assert len(shapes) == len(wanted) and set(shapes) == wanted


def test_passes_are_timed_and_say_what_they_were(monkeypatch):
    effort = Effort(repeats=3, budget_s=0.002, graph=False)
    monkeypatch.setattr(timing, "LEAST_PROCESS_SHARE", 0.0)
    found = sweep(cases(), MACHINE, effort, deadline=time.monotonic() + 300, names=False)
    assert not found.skipped and len(found.rows) == 6
    for row in found.rows:
        assert (row.operation, row.implementation, row.model, row.layers) == (
            "step",
            "eager",
            "tiny",
            3,
        )
        assert row.rows == row.requests * row.query_tokens and row.cold and not row.graph
    rates = step_rates(found.rows, 1e9)
    assert [rate.copy_ratio for rate in rates] == [
        row.bytes / row.median_s / 1e9 for row in found.rows
    ]
    assert copy_rate(found.rows) is None and step_rates(found.rows, None)[0].copy_ratio is None


@pytest.mark.parametrize("case", range(6))
def test_the_captured_form_answers_what_the_plain_one_does(case):
    chosen = cases()[case]
    shape = chosen.shape
    model = step._model(TINY, CPU, torch.float32)
    sizes = (shape["mask"], shape["requests"], shape["query_tokens"], shape["context"])
    plain = step._builders(lambda: model, *sizes, False, True, 1)["eager"]().calls[0]
    captured = step._builders(lambda: model, *sizes, True, True, 1)["graph"]().calls[0]
    cache = captured.__self__.cache
    written = cache.keys[..., : shape["context"], :].clone()
    assert torch.equal(plain.args[1].keys[..., : shape["context"], :], written)
    for again in range(2):  # passes commit nothing: a call may be repeated
        exact = plain().logits
        torch.testing.assert_close(captured(), exact, rtol=1e-4, atol=1e-5, msg=f"{again}")
    assert torch.equal(cache.keys[..., : shape["context"], :], written)


def test_trees_see_other_tokens_than_chains():
    model = step._model(TINY, CPU, torch.float32)
    answers = []
    for mask in ("causal", "tree"):
        torch.manual_seed(2)
        build = step._builders(lambda: model, mask, 1, 4, 16, False, True, 1)
        torch.manual_seed(2)
        answers.append(build["eager"]().calls[0]().logits)
    assert answers[0].shape == (1, 4, 97)
    assert not torch.allclose(answers[0][:, -1], answers[1][:, -1])


@pytest.mark.parametrize("name", ["smollm2-135m", "llama-3.2-1b", "llama-3.1-8b"])
def test_bytes_are_weights_once_and_each_requests_cache_once(name):
    model = load_model(name)
    one = step.step_work(model, 1, 1, 1024, 2.0)
    assert float(one.bytes) == pytest.approx(
        2.0 * (model.weight_values + 1025 * model.kv_values_per_token)
    )
    verify, batch = step.step_work(model, 1, 9, 1024, 2.0), step.step_work(model, 4, 1, 1024, 2.0)
    assert float(verify.bytes - one.bytes) == pytest.approx(2.0 * 8 * model.kv_values_per_token)
    assert float(batch.bytes - one.bytes) == pytest.approx(
        2.0 * 3 * 1025 * model.kv_values_per_token
    )
    assert float(batch.flops) == pytest.approx(4 * float(one.flops))
    products = 2.0 * model.weight_values
    attention = float(one.flops) - products
    assert 0 < attention < products and float(verify.flops) > 8.9 * float(one.flops)


def test_experts_that_no_token_visits_are_not_read():
    experts = FeedForward(width=16, experts=8, experts_per_token=2)
    mixed = replace(TINY, blocks=((replace(BLOCK, feed_forward=experts), 2),))
    one, many = (step.step_work(mixed, b, 1, 16, 1.0) for b in (1, 512))
    unread = (
        2 * (8 - float(ops.distinct_experts(1, 8, 2, skew=0.0))) * experts.expert_parameters(32)
    )
    cache = 17 * mixed.kv_values_per_token
    assert float(one.bytes) == pytest.approx(mixed.weight_values - unread + cache)
    assert float(many.bytes) == pytest.approx(mixed.weight_values + 512 * cache, rel=1e-6)


def test_fewer_layers_are_asked_for_by_number(monkeypatch):
    assert {case.shape["layers"] for case in cases(layers=2)} == {2}
    with pytest.raises(InputError, match="at most 3"):
        cases(layers=4)
    with pytest.raises(UnknownNameError):
        step.step_cases("tinyy", MACHINE, "fp32", **SIZES)
