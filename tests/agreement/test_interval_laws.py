"""What every interval of the program keeps to, whatever was asked: a surer one holds a less sure
one, its point lies within, more recorded requests narrow it, and smaller errors of the cost model
narrow it."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate, intervals
from costmodel.answers.settings import build_setting
from costmodel.answers.uncertainty import interval
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import engine_names
from costmodel.laws.acceptance import geometric
from hardware_profiles.errors import InputError
from hardware_profiles.loader import device_names
from hardware_profiles.profile import RESIDUAL_RANGE
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.bootstrap import bootstrap_tokens_per_step, request_draws
from traces.replay.walk import replay_chain

MODELS = (
    "vicuna-7b",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "qwen3-30b-a3b",
    "deepseek-v3",
    "gemma-2-9b",
    "nemotron-h-8b",
)
DRAFTERS = ("n-gram", "eagle-3", "medusa")
DRAWS = 400
seeds = st.integers(0, 2**32 - 1)


@st.composite
def recordings(draw):
    """Requests of one to three kinds, each with an acceptance of its own."""
    generator = np.random.default_rng(draw(seeds))
    requests = draw(st.integers(6, 24))
    lengths = generator.integers(20, 80, requests)
    emitted = np.concatenate(
        [
            np.minimum(generator.geometric(1.0 - rate, size), 9)
            for rate, size in zip(generator.uniform(0.2, 0.8, requests), lengths, strict=True)
        ]
    )
    kinds = [str(kind) for kind in generator.integers(0, draw(st.integers(1, 3)), requests)]
    return AcceptanceTrace(
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        emitted=emitted.astype(np.int16),
        prompt_kinds=kinds,
    )


def repeated(trace, times):
    """A recording in which every request was recorded so many times."""
    return AcceptanceTrace(
        offsets=np.concatenate([[0], np.cumsum(np.tile(np.diff(trace.offsets), times))]),
        emitted=np.tile(trace.emitted, times),
        prompt_kinds=list(trace.prompt_kinds) * times,
    )


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200),
    less=st.floats(0.01, 0.98),
    more=seeds,
)
def test_a_surer_interval_holds_a_less_sure_one(values, less, more):
    more = less + (0.99 - less) * more / 2**32
    samples = np.array(values)
    (low, high), (lower, higher) = interval(samples, less), interval(samples, more)
    assert samples.min() <= lower <= low <= high <= higher <= samples.max()
    assert np.mean((samples >= low) & (samples <= high)) >= less - 2 / samples.size


@settings(max_examples=examples(40))
@given(trace=recordings(), draft_tokens=st.integers(1, 8), seed=seeds)
def test_intervals_of_a_recording_nest_hold_their_point_and_narrow_with_more_requests(
    trace, draft_tokens, seed
):
    replay, kinds, generator = (
        replay_chain(trace, draft_tokens),
        trace.prompt_kinds,
        np.random.default_rng(seed),
    )
    draws = request_draws(kinds, generator=generator, draws=2000)
    widest, usual, narrow = (
        bootstrap_tokens_per_step(
            replay, kinds, generator=generator, coverage=coverage, draws=draws
        )
        for coverage in (0.95, 0.8, 0.5)
    )
    assert (
        1.0
        <= widest[0]
        <= usual[0]
        <= narrow[0]
        <= narrow[1]
        <= usual[1]
        <= widest[1]
        <= 1.0 + draft_tokens
    )
    assert usual[0] <= replay.tokens_per_step <= usual[1]
    more = repeated(trace, 4)
    low, high = bootstrap_tokens_per_step(
        replay_chain(more, draft_tokens),
        more.prompt_kinds,
        generator=generator,
        coverage=0.8,
        draws=request_draws(more.prompt_kinds, generator=generator, draws=2000),
    )
    # half as wide; less where a kind of one request, which is drawn with others, has become one of
    # four
    assert high - low <= 0.65 * (usual[1] - usual[0]) + 1e-9


questions = {
    "model": st.sampled_from(MODELS),
    "device": st.sampled_from(device_names()),
    "engine": st.sampled_from(engine_names()),
    "method": st.sampled_from(DRAFTERS),
}


def estimated(names, method, acceptance, batch, context):
    """A setting with its estimate at some points."""
    try:
        setting = build_setting(
            DecodingConfiguration(method=method, deployment=DeploymentNames(**names))
        )
    except InputError:  # an engine that does not run there
        assume(False)
    return setting, estimate(setting, acceptance, batch=batch, context=context)


def with_errors(setting, found, factor):
    """The setting with one half width everywhere for every operation, so many times that of its
    profile."""
    known = setting.device.constants
    operations = {*known.residual_ratio, *found.step.verify, *found.step.draft, *found.plain.verify}
    ratios = {
        name: float(np.clip(factor * known.residual_ratio.get(name, 0.1), *RESIDUAL_RANGE))
        for name in operations
    }
    device = replace(setting.device, constants=replace(known, residual_ratio=ratios))
    overhead = replace(setting.overhead, spread_ratio=factor * setting.overhead.spread_ratio)
    return replace(
        setting, deployment=replace(setting.deployment, device=device), overhead=overhead
    )


@settings(max_examples=examples(25))
@given(
    **questions,
    rate=st.floats(0.1, 0.9),
    draft_tokens=st.integers(1, 7),
    requests=st.integers(0, 40),
    batch=st.lists(st.integers(1, 256), min_size=1, max_size=4),
    context=st.integers(0, 32_768),
    seed=seeds,
)
@example(  # expert kernels there were only ever slower than their form says
    model="qwen3-30b-a3b",
    device="h200-nvl",
    engine="llama.cpp",
    method="n-gram",
    rate=0.5,
    draft_tokens=2,
    requests=0,
    batch=[1, 16],
    context=0,
    seed=0,
)
def test_intervals_of_an_estimate_hold_it_and_widen_with_the_errors(
    method, rate, draft_tokens, requests, batch, context, seed, **names
):
    """Of acceptance that is stated, or that was counted on so many requests."""
    stated = geometric(rate, draft_tokens)
    samples = 1.0 + (stated.tokens_per_step - 1.0) * np.random.default_rng(seed).normal(
        1.0, 0.2, (requests, DRAWS)
    )
    acceptance = replace(stated, samples=samples.mean(axis=0)) if requests else stated
    batch = np.array(batch, dtype=float)
    setting, found = estimated(names, method, acceptance, batch, context)
    points = {"step_s": found.step_s, "tokens_per_s": found.tokens_per_s, "speedup": found.speedup}

    def drawn(each):
        return intervals(each, found, batch=batch, generator=np.random.default_rng(seed))

    of_profile, sure, usual, unsure = (
        drawn(setting),
        *(drawn(with_errors(setting, found, factor)) for factor in (1e-4, 1.0, 2.0)),
    )
    for name, point in points.items():
        for low, high in (getattr(of_profile, name), getattr(usual, name)):
            assert (low <= point).all() and (point <= high).all(), name
        widths = [
            high - low for low, high in (getattr(each, name) for each in (sure, usual, unsure))
        ]
        assert (widths[0] <= widths[1] * 1.1).all() and (widths[1] <= widths[2] * 1.1).all(), name
    assert (usual.step_s[0] > unsure.step_s[0]).all() and (usual.step_s[1] < unsure.step_s[1]).all()
    assert np.allclose(sure.step_s, found.step_s, rtol=1e-3)
    low, high = usual.tokens_per_step
    assert low <= found.acceptance.tokens_per_step <= high
    if low == high:  # sure tokens: a rate's ends are those of the step, the other way round
        tokens = batch * found.acceptance.tokens_per_step
        assert np.allclose(
            usual.tokens_per_s, [tokens / usual.step_s[1], tokens / usual.step_s[0]], rtol=0.01
        )
