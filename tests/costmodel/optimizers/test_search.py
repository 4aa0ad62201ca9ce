"""The search: optimal by brute force, honest about memory and limits, reproducible."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.estimate import estimate, needed_bytes
from costmodel.answers.fit import fits
from costmodel.answers.settings import build_setting
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.optimizers.against_off import under_schedule
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.chain_gains import gain_doubt
from costmodel.optimizers.context_schedules import context_schedules
from costmodel.optimizers.pricing import evaluate
from costmodel.optimizers.search import search
from hardware_profiles.errors import InfeasibleError

pytestmark = pytest.mark.heavy

BATCHES, CONTEXTS = (1, 4, 16, 64, 256), (256, 1024)


def contender(method="eagle-3", rate=0.7, device="h100-sxm", lengths=range(9), **options):
    where = DeploymentNames(model="llama-3.1-8b", device=device)
    asked = DecodingConfiguration(method=method, deployment=where, **options)
    return Contender(
        configuration=asked,
        setting=build_setting(asked),
        candidates=[geometric(rate, k) for k in lengths],
    )


def found(*contenders, batches=BATCHES, contexts=CONTEXTS, **options):
    return search(contenders, batches=batches, contexts=contexts, seed=3, **options)


def test_every_winner_is_the_best_of_all():
    one, other = contender(), contender("n-gram", rate=0.5)
    for ranked in found(one, other).ranked:
        best = ranked[0]
        for rival in (one, other):
            for candidate in rival.candidates:
                rate = estimate(
                    rival.setting, candidate, batch=best.batch, context=best.context
                ).tokens_per_s
                if fits(rival.setting, candidate, batch=best.batch, context=best.context):
                    assert best.tokens_per_s >= float(rate) * (1 - 1e-12)
        assert [c.tokens_per_s for c in ranked] == sorted(
            (c.tokens_per_s for c in ranked), reverse=True
        )


def test_a_useless_drafter_is_off_everywhere():
    answer = found(contender(rate=0.01))
    assert {ranked[0].topology for ranked in answer.ranked} == {"off"}
    assert all(s.schedule.ranges == ((1, 256, 0),) for s in answer.schedules)
    assert all(float(ranked[0].result.speedup) == pytest.approx(1.0) for ranked in answer.ranked)


def test_schedules_agree_with_the_winners_they_compress():
    answer = found(contender())
    for s in answer.schedules:
        assert 0.0 <= s.schedule.loss_ratio <= s.schedule.worst_loss_ratio <= 0.03
        lengths = [k for _, _, k in s.schedule.ranges]
        assert lengths[0] == max(lengths) and lengths[-1] == min(lengths), (
            "longer drafts at smaller batches"
        )


@pytest.mark.parametrize("device", ["h100-sxm", "a100-sxm-80", "mi300x"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
@pytest.mark.parametrize("rate", [0.5, 0.7, 0.85])
def test_a_schedule_loses_little_at_every_batch_whichever_were_asked_about(model, device, rate):
    names = DeploymentNames(model=model, device=device, engine="vllm")
    asked = DecodingConfiguration(method="eagle-3", deployment=names)
    drafts = [geometric(rate, k) for k in range(9)]
    runner = Contender(configuration=asked, setting=build_setting(asked), candidates=drafts)
    batches = np.arange(1, 257)
    at = {"batch": batches[:, None], "context": np.array([[1024.0]])}
    loaded = under_schedule(runner, drafts)  # whose drafter takes room and time at K = 0, too
    scheduled, plain = (evaluate(one, **at).value[:, :, 0] for one in (loaded, runner))
    for grid in ([256], [1, 8, 64, 256]):
        (found,) = search([runner], batches=grid, contexts=[1024]).schedules
        lengths = np.array([found.schedule.draft_tokens_at(batch) for batch in batches.tolist()])
        rates = scheduled.copy()
        if not lengths.any() and found.against_off is not None:
            assert found.against_off.gain_ratio <= 0.0
            rates[0] = plain[0]  # a server without the drafter
        lost = 1.0 - rates[lengths, np.arange(256)] / rates.max(axis=0)
        doubt, best = gain_doubt(loaded, 1024), rates.argmax(axis=0)
        for batch in np.flatnonzero(
            (lost > 0.005 + 1e-12) & lengths.any()
        ).tolist():  # where a narrow range would gain less than that
            assert -np.log1p(-lost[batch]) <= 1.2 * doubt(
                batch + 1, int(best[batch]), int(lengths[batch])
            )
        assert found.schedule.worst_loss_ratio == pytest.approx(lost.max(), abs=1e-12)


def test_one_schedule_for_all_contexts_loses_what_running_it_loses():
    one = contender("eagle-3", lengths=range(6))
    answer = found(one, batches=(1, 16, 64, 256), contexts=(256, 4096, 16_384))
    [shared] = context_schedules(answer)
    assert set(shared.losses) == {256, 4096, 16_384} and shared.configuration.context is None
    for context, (lost, own) in shared.losses.items():
        ran = []
        for batch in (1, 16, 64, 256):
            allowed = [
                a for a in one.candidates if fits(one.setting, a, batch=batch, context=context)
            ]
            if allowed:
                rates = {
                    a.draft_tokens: float(
                        estimate(one.setting, a, batch=batch, context=context).tokens_per_s
                    )
                    for a in allowed
                }
                ran.append(1 - rates[shared.schedule.draft_tokens_at(batch)] / max(rates.values()))
        assert lost == pytest.approx(np.mean(ran)) and own <= lost + 0.005 + 1e-12
    assert max(lost for lost, _ in shared.losses.values()) > 0
    assert context_schedules(found(one, contexts=(256,))) == []


def test_the_same_seed_gives_the_same_answer():
    one, two = found(contender()), found(contender())
    for a, b in zip(one.ranked, two.ranked, strict=True):
        assert np.array_equal(a[0].intervals.speedup, b[0].intervals.speedup)


def test_intervals_of_a_choice_do_not_depend_on_what_competes():
    one, other = contender(), contender("medusa", rate=0.6)
    (alone,) = found(one, batches=(16,), contexts=(256,)).ranked
    among = [choice for ranked in found(other, one).ranked for choice in ranked]
    same = [c for c in among if (c.contender, c.batch, c.context) == (one, 16, 256)]
    assert len(same) == 1
    for name in ("step_s", "tokens_per_step", "tokens_per_s", "speedup"):
        ends = [getattr(choice.intervals, name) for choice in (same[0], alone[0])]
        assert np.array_equal(*ends), name


def test_a_batch_too_large_is_marked_or_dropped():
    small = contender(device="rtx-4090")
    marked = found(small, contexts=(4096,))
    assert [each.batch for each in marked.unmet] == [16, 64, 256]
    assert all(each.misses == "memory" and "GiB" in each.reason for each in marked.unmet)
    assert marked.unmet[0].reason.startswith(
        "llama-3.1-8b on rtx-4090 at batch 16, context 4096 needs "
    )
    answer = found(small, contexts=(4096,), drop_unfit=True)
    assert answer.dropped_batches == [16, 64, 256] and not answer.unmet
    assert len(answer.ranked) == len(marked.ranked) == len(BATCHES) - 3


def allowed(at, limits):
    """Whether a candidate alone fits and meets limits, where it was picked or came nearest."""
    alone = replace(at.contender, candidates=[at.acceptance])
    evaluation = evaluate(alone, batch=at.batch, context=at.context, limits=limits)
    return bool(evaluation.allowed.all())


def test_a_limit_that_some_batches_miss_leaves_the_others():
    limits = Limits(tpot_s=0.006)
    answer = found(contender(), limits=limits)
    met = {(choices[0].batch, choices[0].context) for choices in answer.ranked}
    assert (
        met and answer.unmet and met.isdisjoint((each.batch, each.context) for each in answer.unmet)
    )
    for each in answer.unmet:
        assert each.misses == "limits" and "no configuration meets mean TPOT <= 6 ms" in each.reason
        assert not allowed(each, limits)
    for choices in answer.ranked:
        best = choices[0]
        assert allowed(best, limits)


def test_no_memory_at_all_is_refused_even_when_dropping():
    with pytest.raises(InfeasibleError, match=r"needs .* GiB"):
        where = DeploymentNames(model="llama-3.1-70b", device="rtx-4090")
        asked = DecodingConfiguration(method="n-gram", deployment=where)
        found(
            Contender(
                configuration=asked, setting=build_setting(asked), candidates=[geometric(0, 0)]
            ),
            drop_unfit=True,
        )


def test_latency_limits_hold():
    free = found(contender(), contexts=(1024,))
    bound = 0.004
    batches = (1, 4)
    limited = found(contender(), batches=batches, contexts=(1024,), limits=Limits(tpot_s=bound))
    for ranked in limited.ranked:
        choice = ranked[0]
        assert float(choice.result.step_s) / choice.acceptance.tokens_per_step <= bound
    assert len(free.ranked) == len(BATCHES)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(tpot_s=1e-6), "mean TPOT <= 0.001 ms"),
        (Limits(ttft_s=1e-6), "mean TTFT <= 0.001 ms"),
    ],
)
def test_limits_that_nothing_meets_are_infeasible(limits, text):
    with pytest.raises(
        InfeasibleError, match=f"no configuration meets {text}; plain decoding has TTFT"
    ):
        found(contender(), limits=limits)


def test_a_drafter_that_leaves_no_room_is_not_chosen():
    """At a batch that fits only without the drafter's weights, speculation is off whatever it would
    gain."""
    one = contender(device="rtx-4090", lengths=(0, 3))
    batches = np.arange(1, 200)
    plain = fits(one.setting, one.candidates[0], batch=batches, context=1024)
    draft = fits(one.setting, one.candidates[1], batch=batches, context=1024)
    between = int(batches[plain & ~draft][0])
    answer = found(one, batches=(1, between), contexts=(1024,))
    assert [ranked[0].topology for ranked in answer.ranked] == ["chain", "off"]


@pytest.mark.parametrize("method", ["eagle-3", "n-gram", "medusa", "mtp", "early-exit"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
def test_a_longer_draft_never_needs_less_memory(method, engine):
    """Where the longest candidate fits, all do, so that only it is asked about."""
    names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine=engine)
    setting = build_setting(DecodingConfiguration(method=method, deployment=names))
    sizes = [
        float(needed_bytes(setting, geometric(0.5, k), batch=64, context=4096))
        for k in (0, 1, 4, 16, 64)
    ]
    assert sizes == sorted(sizes)
