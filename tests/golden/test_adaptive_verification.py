"""Verification chosen at every step and drafts of one length, predicted beside what threads of the
engines measured: who wins at which load, and by how much.

None of the threads says how sure the drafters were, so that one recording is drawn whose drafter is
right as often as it says; and none runs a model and device that both are profiled. The numbers are
facts of the threads that stand beside them. What the model leaves out is said where it shows: the
choice itself, and graphs that a changing width cannot replay, cost 5 to 8 % of a step at small
batches in both engines.
"""

from functools import cache

import pytest

from costmodel.answers.chains import step_seconds
from costmodel.answers.settings import build_setting
from costmodel.answers.verify_widths import verify_seconds
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import MATCHING, accepted_by, geometric
from costmodel.laws.controllers import cost_chain
from costmodel.method import Stop
from tests.traces.confident_texts import confident_text

K = 7
# vllm pull request 52362 (August 2026): DSpark on DeepSeek-V4-Flash under ROCm, ShareGPT, 512 tokens
# of output; tokens/s by concurrency of no speculation, K=7 verified whole, and adaptive verification
VLLM = {
    4: (381.53, 970.33, 902.37),
    16: (1342.83, 2909.52, 2773.69),
    64: (4094.75, 6712.35, 7144.12),
    128: (6340.78, 8778.87, 10356.48),
    256: (8878.57, 7852.42, 13324.67),
}
# sglang pull request 36136 (August 2026): DFlash2 on MT-bench, whole blocks and dynamic verification
SGLANG = {1: (704.6, 679.7), 8: (2671.3, 2627.3), 12: (2857.7, 3166.2), 32: (3411.1, 4101.2)}
# vllm issue 49986 (July 2026): gemma-4-31b in fp8 and a drafter on an H100 NVL, 256 requests; static
# K=3 over no speculation by context
BY_CONTEXT = {400: 2139.8 / 2711.7, 900: 1838.9 / 1987.1, 4000: 1692.8 / 1535.9}


@cache
def recording():
    """Stretches of easy and hard text; 2.6 tokens a step of seven draft tokens."""
    return confident_text([0.3, 0.6, 0.8, 0.95], stretch=12, positions=24_000)


@cache
def predicted(batch, method="dspark", context=600.0):
    """Tokens/s of no speculation, whole verification and chosen widths."""
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="vllm")
    setting = build_setting(DecodingConfiguration(method=method, deployment=names))
    seconds = verify_seconds(setting, K, batch=batch, context=context)
    ways = [
        accepted_by(recording(), MATCHING, 0, None),
        accepted_by(recording(), MATCHING, K, None),
        cost_chain(recording(), K, Stop(rule="cost"), None, seconds=seconds, batch=batch),
    ]
    taken = step_seconds(setting, ways, batch=float(batch), context=context)
    return [batch * way.tokens_per_step / float(s) for way, s in zip(ways, taken, strict=True)]


def test_where_width_is_chosen_the_gain_grows_with_the_batch():
    print("\nrequests, chosen width over whole drafts: predicted, measured")
    gains = {}
    for batch, (plain, whole, chosen) in VLLM.items():
        ours = predicted(batch)
        gains[batch] = ours[2] / ours[1], chosen / whole
        print(batch, *(f"{gain:.2f}" for gain in gains[batch]))
        # at 256 five layers that draft cost a model of 8B more than they gain, unlike one of 284B
        assert chosen > plain and (ours[2] > ours[0] or batch > 128)
    for batch in (64, 128, 256):
        ours, measured = gains[batch]
        assert ours > 1.05 and measured > 1.05, "a chosen width wins"
    assert gains[128][0] == pytest.approx(gains[128][1], rel=0.1)
    for batch in (4, 16):
        assert 1.0 <= gains[batch][0] < 1.02, "nothing to be had: what is measured is its price"
    for side in (0, 1):
        grown = [gains[batch][side] for batch in (16, 64, 128, 256)]
        assert grown == sorted(grown)


def test_whole_drafts_fall_below_no_speculation_at_the_largest_batch():
    """Measured between 128 and 256 requests; predicted from 128 on, on another model and device."""
    measured = {batch: whole / plain for batch, (plain, whole, _) in VLLM.items()}
    ours = {batch: predicted(batch)[1] / predicted(batch)[0] for batch in VLLM}
    assert measured[4] > 1.0 > measured[256] and ours[4] > 1.0 > ours[256]
    for ratios in (measured, ours):
        assert sorted(ratios.values(), reverse=True) == list(ratios.values())


def test_the_same_shape_in_another_engine():
    gains = {batch: chosen / whole for batch, (whole, chosen) in SGLANG.items()}
    ours = {batch: (rates := predicted(batch, "dflash-2"))[2] / rates[1] for batch in SGLANG}
    print("\nrequests, chosen width over whole blocks: predicted, measured")
    for batch in SGLANG:
        print(batch, f"{ours[batch]:.2f}", f"{gains[batch]:.2f}")
    assert gains[1] < 1.0 <= ours[1] < 1.01
    assert ours[32] > ours[8] and gains[32] > gains[8]


def test_by_context_one_number_of_tokens_tells_who_wins():
    """Fitted to the shortest context, predicted for the others."""
    names = DeploymentNames(model="gemma-4-31b", device="h100-nvl", engine="vllm", dtype="fp8")
    setting = build_setting(DecodingConfiguration(method="eagle-3", deployment=names))

    def longer(context):
        steps = [geometric(0.0, 3), geometric(0.0, 0)]
        drafted_s, plain_s = step_seconds(setting, steps, batch=256.0, context=context + 50.0)
        return float(drafted_s / plain_s)

    tokens = BY_CONTEXT[400] * longer(400)
    assert 1.0 < tokens < 4.0
    print("\ncontext, K=3 over no speculation: predicted, measured")
    for context, measured in BY_CONTEXT.items():
        ours = tokens / longer(context)
        print(context, f"{ours:.2f}", f"{measured:.2f}")
        assert ours == pytest.approx(measured, rel=0.1)
        assert (ours > 1.0) == (measured > 1.0)
