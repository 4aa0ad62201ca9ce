"""Scenarios of encoder-decoders: what they assume, and what they refuse."""

import pytest

from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.scenario.build import prepare
from simulator.scenario.file import checked_scenario

REQUESTS = {"count": 20, "rate_per_s": 2.0, "prompt_tokens": "uniform:200:400", "output_tokens": 30}


def written(model="t5-v1.1-large", **sections):
    return checked_scenario(
        {"requests": REQUESTS, "deployment": {"model": model, "device": "h100-sxm"}, **sections}
    )


def test_prompts_are_read_whole_and_their_mean_length_is_known():
    prepared = prepare(written())
    assert (prepared.scheduler.chunked_prefill, prepared.scheduler.prefix_cache) == (False, False)
    assert 200 <= prepared.setting.deployment.source_tokens <= 400
    result = simulate(prepared.scenario(0))
    assert result.finished.all()
    plain = prepare(written("llama-3.2-1b"))
    assert plain.scheduler.chunked_prefill and plain.setting.deployment.source_tokens is None


def test_machine_code_and_python_agree(as_python):
    scenario = prepare(written()).scenario(3)
    one, other = as_python(simulate, scenario), simulate(scenario)
    assert one.clock_s == other.clock_s
    assert (one.first_token_s == other.first_token_s).all()


def test_more_of_the_prompt_takes_longer_to_the_first_token():
    def first(tokens):
        requests = REQUESTS | {"prompt_tokens": tokens, "rate_per_s": 0.1}
        result = simulate(prepare(written(requests=requests)).scenario(0))
        return float((result.first_token_s - result.arrival_s).mean())

    assert first(64) < first(500) < first(2000)


@pytest.mark.parametrize(
    ("model", "sections", "key"),
    [
        ("whisper-large-v2", {}, "deployment.model"),
        ("t5-xxl", {"scheduler": {"chunked_prefill": True}}, "scheduler.chunked_prefill"),
        ("t5-xxl", {"scheduler": {"prefix_cache": True}}, "scheduler.prefix_cache"),
        ("t5-xxl", {"feed_forward": {"tensor_parallel": 1}}, "feed_forward"),
    ],
)
def test_what_an_encoder_excludes_is_refused_by_its_key(model, sections, key):
    with pytest.raises(InputError) as caught:
        prepare(written(model, **sections))
    assert caught.value.key == key
