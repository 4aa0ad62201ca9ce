"""Masked decoding by a live model: what plain loops write, and what caches leave as it is."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hardware_profiles.errors import InputError  # noqa: E402
from real_runs.decoding.masked.batch import MaskedBatch  # noqa: E402
from real_runs.decoding.masked.drafts import self_verified  # noqa: E402
from real_runs.decoding.masked.loop import MaskedLoop, confidences_of  # noqa: E402
from real_runs.masked.network import KeyValueCache, MaskedModel, MaskedShape  # noqa: E402
from tests.real_runs.decoding.whole_credit import credited  # noqa: E402
from tests.traces.toy_masked import chosen  # noqa: E402
from traces.kinds.confidence import FORWARDS  # noqa: E402
from traces.kinds.refine_policy import RefinePolicy  # noqa: E402

SHAPE = MaskedShape(vocabulary=23, positions=40, width=32, layers=2, heads=2, ffn_width=48)
MASK, PROMPT, CANVAS = 22, [3, 1, 4, 1, 5], 16


@pytest.fixture(scope="module")
def model():
    """Random weights, large enough for attention to matter and for probabilities to differ."""
    made = MaskedModel(SHAPE, seed=2).eval()
    with torch.no_grad():
        for value in made.parameters():
            value.mul_(2.5 if value.ndim == 2 else 1.0)
    return made


@pytest.fixture
def loop(model):
    return MaskedLoop(model, PROMPT, canvas_tokens=CANVAS, mask_id=MASK)


def logits_of(model, tokens):
    with torch.inference_mode():
        logits = model(torch.tensor([[*PROMPT, *tokens]]))[0, len(PROMPT) :].clone()
        logits[:, MASK] = -torch.inf
    return logits


def plain(model, block, picked):
    """Decoding as a loop over torch tensors: `picked` chooses among (probability, position) of the
    block's masks."""
    tokens, passes = [MASK] * CANVAS, 0
    for start in range(0, CANVAS, block):
        while MASK in tokens[start : start + block]:
            probability, ids = logits_of(model, tokens).double().softmax(dim=-1).max(dim=-1)
            open_here = [
                (float(probability[p]), p) for p in range(start, start + block) if tokens[p] == MASK
            ]
            for place in picked(open_here) or [max(open_here)[1]]:
                tokens[place] = int(ids[place])
            passes += 1
    return tokens, passes


@pytest.mark.parametrize("block", [4, 16])
def test_one_token_a_pass_is_the_plain_loop(model, loop, block):
    run = loop.run(RefinePolicy(commit="static", block_tokens=block), "a")
    assert (run.tokens.tolist(), run.passes) == plain(model, block, lambda found: [max(found)[1]])
    assert run.passes == CANVAS
    assert sorted(run.committed_at.tolist()) == list(range(CANVAS))


@pytest.mark.parametrize("confidence", [0.2, 0.5])
def test_a_threshold_is_the_plain_loop(model, loop, confidence):
    run = loop.run(
        RefinePolicy(commit="threshold", at={"confidence": confidence}, block_tokens=8), "a"
    )
    wanted = plain(model, 8, lambda found: [p for c, p in found if c >= confidence])
    assert (run.tokens.tolist(), run.passes) == wanted
    assert run.passes < CANVAS


def test_a_pass_beside_a_cache_is_the_whole_pass_while_nothing_changed(model):
    tokens = torch.tensor([[*PROMPT, *[MASK] * CANVAS]])
    cache = KeyValueCache(SHAPE, batch=1, tokens=tokens.shape[1])
    with torch.inference_mode():
        whole = model(tokens, cache=cache)
        assert torch.allclose(whole, model(tokens), atol=1e-5)
        for start, end in ((5, 13), (13, 21), (5, 21)):
            part = model(tokens[:, start:end], start=start, cache=cache)
            assert torch.allclose(part, whole[:, start:end], atol=1e-4)


@pytest.mark.parametrize(("cache", "kind"), [("prefix", "suffix"), ("dual", "block")])
def test_caches_compute_what_they_say(loop, cache, kind):
    run = loop.run(RefinePolicy(commit="static", block_tokens=8, cache=cache), "a")
    total, steps = len(PROMPT) + CANVAS, run.steps
    assert run.passes == CANVAS
    assert steps["forward"].tolist() == [0, *[FORWARDS.index(kind)] * 7] * 2
    first = 16 if kind == "suffix" else 8
    assert steps["computed_tokens"].tolist() == [total, *[first] * 7, total, *[8] * 7]
    assert (steps["computed_tokens"] + steps["cached_tokens"] == total).all()
    assert (steps["wall_s"] > 0).all()


def test_the_mask_is_never_written(loop):
    said = confidences_of(torch.eye(23)[[22, 0]] * 50, MASK)
    assert said["top_ids"].tolist()[0] != MASK and said["top_ids"].tolist()[1] == 0


def test_what_is_said_of_logits_is_what_a_softmax_says():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0], [10.0, 0.0, 0.0, 0.0]])
    said = confidences_of(logits, 3)
    p = logits[:, :3].double().softmax(dim=-1)
    assert said["doubt"][0] == pytest.approx(float(1 - p[0, 0]), rel=1e-3)
    assert said["doubt"][1] == pytest.approx(2 * np.exp(-10), rel=1e-2)
    assert said["second_prob"][0] == pytest.approx(float(p[0, 1]), rel=1e-3)
    assert said["logit_gap"].tolist() == [1.0, 10.0]
    assert said["entropy"][0] == pytest.approx(float(-(p[0] * p[0].log()).sum()), rel=1e-3)


@pytest.mark.parametrize("drafts", [1, 2, 4, 8])
def test_confirmed_drafts_write_the_plain_text_in_no_more_passes(model, loop, drafts):
    static = loop.run(RefinePolicy(commit="static", block_tokens=8), "a")
    policy = RefinePolicy(commit="self_verified", at={"drafts": drafts}, block_tokens=8)
    run = self_verified(model, PROMPT, policy, canvas_tokens=CANVAS, mask_id=MASK)
    assert run.tokens[0].tolist() == static.tokens.tolist()
    assert run.steps[0] <= static.passes if drafts > 1 else run.steps[0] == static.passes
    assert [n for _, n, _, _ in run.forwards] == [len(PROMPT) + CANVAS] * run.steps[0]
    assert max(states for states, *_ in run.forwards) == drafts


@pytest.mark.parametrize("cache", ["none", "prefix", "dual"])
@pytest.mark.parametrize("rule", [("static", {}), ("threshold", {"confidence": 0.3})])
def test_canvases_decoded_together_are_those_decoded_alone(model, cache, rule):
    """Prompts that leave blocks at different passes, so that forwards are shared by some canvases
    alone."""
    prompts = [PROMPT, [9, 2, 6, 5, 3], [5, 8, 9, 7, 9]]
    policy = RefinePolicy(commit=rule[0], at=rule[1], block_tokens=8, cache=cache)
    together = MaskedBatch(model, prompts, canvas_tokens=CANVAS, mask_id=MASK).run(
        policy, ("a", "b", "c")
    )
    alone = [
        MaskedLoop(model, each, canvas_tokens=CANVAS, mask_id=MASK).run(policy, name)
        for each, name in zip(prompts, "abc", strict=True)
    ]
    assert together.tokens.tolist() == [run.tokens.tolist() for run in alone]
    assert together.steps.tolist() == [run.passes for run in alone]
    computed = sum(int(run.steps["computed_tokens"].sum()) for run in alone)
    assert sum(canvases * tokens for canvases, tokens, _, _ in together.forwards) == computed


@pytest.mark.parametrize(
    "policy",
    [
        RefinePolicy(commit="credit", at={"confidence": 0.3}, block_tokens=8),
        RefinePolicy(commit="history", at={"confidence": 0.2, "passes": 3}, block_tokens=8),
        RefinePolicy(
            commit="phases",
            at={"confidence": 0.25, "reach_confidence": 0.2, "passes": 2},
            block_tokens=16,
        ),
    ],
    ids=lambda each: each.commit,
)
def test_rules_that_remember_are_their_plain_loops(model, loop, policy):
    run = loop.run(policy, "a")
    tokens, passes = [MASK] * CANVAS, 0
    for start in range(0, CANVAS, policy.block_tokens):
        block, memory, step = range(start, start + policy.block_tokens), {}, 0
        while any(tokens[p] == MASK for p in block):
            said = confidences_of(logits_of(model, tokens), MASK)
            cells = {
                p: (int(said["top_ids"][p]), float(said["doubt"][p]), 0.0, 0.0)
                for p in range(CANVAS)
                if tokens[p] == MASK
            }
            for place in chosen(policy, cells, block, step, CANVAS, memory):
                tokens[place] = cells[place][0]
            step, passes = step + 1, passes + 1
    assert (run.tokens.tolist(), run.passes) == (tokens, passes)


@pytest.mark.parametrize("at", [{"weight": 0.0}, {"decay": 0.0}, {"decay": 0.0, "weight": 3.0}])
@pytest.mark.parametrize("confidence", [0.2, 0.4])
def test_credit_of_the_likeliest_token_is_all_credit_where_none_is_left_of_others(
    model, loop, at, confidence
):
    """Without weight, or without memory beyond the pass, entries of the vocabulary have no credit
    but the likeliest."""
    policy = RefinePolicy(commit="credit", at={"confidence": confidence, **at}, block_tokens=8)
    run = loop.run(policy, "a")
    tokens, passes = credited(model, PROMPT, policy, canvas_tokens=CANVAS, mask_id=MASK)
    assert (run.tokens.tolist(), run.passes) == (tokens.tolist(), passes)


def test_what_is_refused(model, loop):
    with pytest.raises(InputError, match="room in 40 positions"):
        MaskedLoop(model, PROMPT, canvas_tokens=64, mask_id=MASK)
    with pytest.raises(InputError, match="must divide the canvas"):
        loop.run(RefinePolicy(commit="static", block_tokens=5), "a")
    with pytest.raises(InputError, match="beside a cache"):
        loop.run(RefinePolicy(commit="gap", block_tokens=8, cache="dual"), "a")
    with pytest.raises(InputError, match="equally long"):
        MaskedBatch(model, [PROMPT, PROMPT[:2]], canvas_tokens=CANVAS, mask_id=MASK)
    with pytest.raises(InputError, match="confirm its own drafts"):
        self_verified(
            model, PROMPT, RefinePolicy(commit="static"), canvas_tokens=CANVAS, mask_id=MASK
        )
    with pytest.raises(InputError, match="twice the heads"):
        MaskedShape(vocabulary=9, positions=9, width=30, layers=1, heads=4, ffn_width=8)
