"""The recordings that are shipped: complete, consistent with each other, and reproducible."""

import hashlib
import itertools
from collections import Counter

import numpy as np
import pytest

from real_runs.prompt_set import read_prompts
from real_runs.recording.files import SHOWN_DRAFT_TOKENS, results_by_kind
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import read_acceptance

# tokens per step at three draft tokens, SmolLM2-135M-Instruct on one CPU thread, float32
GOLDEN = {
    ("prompt-lookup", "greedy"): 1.6288,
    ("prompt-lookup", "t0.8"): 1.3166,
    ("early-exit", "greedy"): 1.2453,
    ("early-exit", "t0.8"): 1.2173,
}
FILES = pytest.mark.parametrize(("drafter", "mode"), list(GOLDEN))


@pytest.fixture(scope="module")
def shipped(root):
    def read(drafter, mode):
        return read_acceptance(
            root / "traces" / "recorded" / f"smollm2-135m--{drafter}--{mode}.parquet"
        )

    return read


@FILES
def test_recordings_are_large_enough_and_small_enough(shipped, drafter, mode):
    trace = shipped(drafter, mode)
    assert trace.positions >= 4000
    counts = Counter(trace.prompt_kinds)
    assert len(counts) == 6
    assert min(counts.values()) >= 6
    from pathlib import Path

    assert Path(trace.file).stat().st_size < 1 << 20


@FILES
def test_recordings_are_of_the_shipped_prompts(shipped, drafter, mode):
    trace, prompts = shipped(drafter, mode), read_prompts()
    assert trace.provenance.dataset_sha256 == prompts.sha256
    assert trace.request_ids == tuple(prompt.id for prompt in prompts.prompts)
    assert trace.prompt_kinds == tuple(prompt.kind for prompt in prompts.prompts)
    assert trace.provenance.dtype == "float32"


@FILES
def test_tokens_per_step(shipped, drafter, mode):
    trace = shipped(drafter, mode)
    rates = [replay_chain(trace, count).tokens_per_step for count in range(21)]
    assert rates[3] == pytest.approx(GOLDEN[drafter, mode], abs=5e-5)
    assert rates[0] == 1.0
    # with candidates that extend one another, a longer draft may still start a later step at a
    # harder token, but never by more than the text's own noise
    assert all(b > a - 0.01 for a, b in itertools.pairwise(rates))
    assert all(rate <= count + 1 for count, rate in enumerate(rates))


@FILES
def test_stated_results_are_those_of_the_rows(shipped, drafter, mode):
    trace = shipped(drafter, mode)
    stated = trace.provenance.extra["results"]
    assert stated == results_by_kind(trace)
    assert list(stated["all"]["tokens_per_step"]) == [str(count) for count in SHOWN_DRAFT_TOKENS]


@pytest.mark.parametrize("mode", ["greedy", "t0.8"])
def test_both_drafters_watched_the_same_text(shipped, mode):
    lookup, early = shipped("prompt-lookup", mode), shipped("early-exit", mode)
    for name in ("output_sha256", "ended", "looped_tokens", "wall_s"):
        assert lookup.extra_columns[name] == early.extra_columns[name]
    assert np.array_equal(lookup.offsets, early.offsets)


def test_texts_that_copy_their_prompt_gain_most_from_prompt_lookup(shipped):
    results = shipped("prompt-lookup", "greedy").provenance.extra["results"]
    rate = {kind: results[kind]["tokens_per_step"]["5"] for kind in results}
    assert min(rate["code editing"], rate["summarising"]) > max(rate["chat"], rate["reasoning"])


def test_looped_share_is_stated_and_from_looped_answers_alone(shipped):
    for drafter, mode in GOLDEN:
        trace = shipped(drafter, mode)
        looped = np.array(trace.extra_columns["looped_tokens"])
        ended = np.array(trace.extra_columns["ended"])
        assert ((looped > 0) == (ended == "loop")).all()
        assert trace.provenance.extra["looped_ratio"] == looped.sum() / trace.positions < 0.1


@pytest.mark.model
@pytest.mark.heavy
@pytest.mark.parametrize(("mode", "temperature"), [("greedy", 0.0), ("t0.8", 0.8)])
def test_a_recorded_request_can_be_recorded_again(shipped, shipped_model, mode, temperature):
    """Where torch and the processor are those of the recording; others may round a near tie the
    other way."""
    import torch

    from real_runs.decoding.generate import generate
    from real_runs.decoding.sampling import Sampler
    from real_runs.drafters.prompt_lookup import lookup_lengths
    from real_runs.models.device import device_title

    trace = shipped("prompt-lookup", mode)
    here = (torch.__version__, f"{device_title(torch.device('cpu'))}, 1 thread(s)")
    if here != (trace.provenance.extra["torch"], trace.provenance.device):
        pytest.skip("recorded with another torch or on another processor")
    model, tokenizer = shipped_model
    for request in np.argsort(trace.output_tokens)[:2]:
        prompt = read_prompts().prompts[request]
        ids = tokenizer.chat_ids(prompt.text)
        sampler = Sampler(temperature=temperature, seed=0, request=prompt.id, positions=160)
        made = generate(model, ids, sampler, max_new_tokens=160)
        digest = hashlib.sha256(" ".join(map(str, made.tokens)).encode()).hexdigest()
        assert digest == trace.extra_columns["output_sha256"][request]
        lengths = lookup_lengths(ids, made.tokens)
        rows = slice(trace.offsets[request], trace.offsets[request + 1])
        assert np.array_equal(lengths.emitted, trace.emitted[rows])
        assert np.array_equal(lengths.drafted, trace.drafted[rows])
