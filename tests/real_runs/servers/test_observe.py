"""Observing: what lies between scrapes, a trace of it, and what is kept of a server that restarts
or is lost."""

import os
import signal

import pytest

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import identify
from real_runs.servers.observe import observe
from tests.real_runs.servers.prometheus_text import histogram
from tests.real_runs.servers.stub_server import METRICS, serving
from tests.traces.importers.samples import LLAMA_COUNTERS, VLLM_SCRAPES

PATIENCE = Patience(connect_s=300.0, silence_s=300.0)
GAUGES = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {}\n"
LLAMA = """# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total {decodes}
# TYPE llamacpp:n_busy_slots_per_decode gauge
llamacpp:n_busy_slots_per_decode {busy}
llamacpp:tokens_predicted_total {tokens}
llamacpp:tokens_predicted_seconds_total {seconds}
"""
GAUGES_OF = {
    "vllm": ("vllm:num_requests_running", "vllm:kv_cache_usage_perc"),
    "sglang": ("sglang:num_running_reqs", "sglang:token_usage"),
    "tensorrt-llm": ("trtllm_num_requests_running", "trtllm_kv_cache_utilization"),
}
HISTOGRAMS = {
    "vllm": ("vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds"),
    "sglang": ("sglang:time_to_first_token_seconds", "sglang:inter_token_latency_seconds"),
    "tensorrt-llm": ("trtllm_time_to_first_token_seconds", "trtllm_time_per_output_token_seconds"),
}


def vllm(at, running):
    return GAUGES.format(running) + VLLM_SCRAPES[at]


def seen(url, scrapes=0):
    """What is observed until so many scrapes were done and Ctrl-C asked for a last one; 0: until it
    ends by itself."""
    done = [0.0]

    def tell(elapsed_s):
        done.append(elapsed_s)
        if len(done) == scrapes:
            raise KeyboardInterrupt

    return observe(
        identify(Address.parse(url)), for_s=60.0, every_s=0.01, patience=PATIENCE, tell=tell
    )


def test_acceptance_is_that_of_the_counters_with_a_window_for_each_interval():
    with serving("vllm", scrapes=[vllm(0, 1), vllm(0, 1), vllm(1, 3)], model="m") as (url, _):
        found = seen(url, scrapes=3)
    assert found.ended == "stopped by Ctrl-C" and found.scrapes == 4
    assert found.trace.level == 0 and found.trace.provenance.model == "m"
    summary = found.trace.summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == (100, 200, 110)
    assert summary.acceptance_by_depth == pytest.approx((0.70, 0.40))
    assert [(window.drafts, window.batch_requests) for window in summary.windows] == [(100, 3)]
    assert found.figures["running"]["most"] == 3


def test_llama_cpp_states_means_and_the_slots_of_its_steps():
    texts = [
        LLAMA.format(decodes=10, busy=1.0, tokens=100, seconds=2),
        LLAMA.format(decodes=30, busy=2, tokens=200, seconds=7),
    ]
    with serving(scrapes=texts) as (url, _):
        found = seen(url, scrapes=2)
    assert found.figures["tpot_s"] == {"mean": 0.05}
    assert found.figures["steps"] == {"gained": 20.0, "requests_per_step": 2.5}
    assert found.figures["output_tokens"]["gained"] == 100
    assert found.trace is None and "no speculative decoding counters" in found.no_trace


def test_nothing_drafted_in_between_is_said():
    with serving(scrapes=["# TYPE a counter\n" + LLAMA_COUNTERS]) as (url, _):
        found = seen(url, scrapes=2)
    assert found.trace is None and found.no_trace == "no draft was verified between the scrapes"


def test_a_restart_ends_it_and_the_span_before_is_kept():
    with serving("vllm", scrapes=[vllm(0, 1), vllm(1, 1), vllm(0, 1)]) as (url, _):
        found = seen(url)
    assert "the engine was restarted" in found.ended and found.scrapes == 2
    assert found.trace.summary.drafts == 100


def test_a_server_that_is_lost_ends_it_and_the_span_before_is_kept():
    with serving("vllm", scrapes=[vllm(0, 1), vllm(1, 1)]) as (url, stub):
        server = identify(Address.parse(url))

        def lose(elapsed_s):
            stub.scrapes.clear()

        found = observe(server, for_s=60.0, every_s=0.01, patience=PATIENCE, tell=lose)
    assert "publishes no counters" in found.ended and found.scrapes == 2 and found.trace is not None


def test_a_server_lost_before_a_second_scrape_is_an_error():
    scrapes = [METRICS, "no counters here"]
    with (
        serving("vllm", scrapes=scrapes) as (url, _),
        pytest.raises(InputError, match="nothing was observed"),
    ):
        seen(url)


def test_ctrl_c_keeps_what_was_seen(monkeypatch):
    def interrupted(seconds):
        os.kill(os.getpid(), signal.SIGINT)

    with serving("vllm", scrapes=[vllm(0, 1), vllm(1, 1)]) as (url, _):
        server = identify(Address.parse(url))
        monkeypatch.setattr("real_runs.servers.observe.time.sleep", interrupted)
        found = observe(server, for_s=60.0, every_s=60.0)
    assert found.ended == "stopped by Ctrl-C" and found.trace.summary.drafts == 100


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("engine", HISTOGRAMS)
def test_times_are_those_that_the_engine_states(engine, named):
    """Of a server that does not name its engine too: its counters do."""
    first, per_token = HISTOGRAMS[engine]

    def text(waits):
        values = dict(zip(GAUGES_OF[engine], (3, 0.6), strict=True))
        levels = [
            f'{name}{{engine="{at}"}} {value}' for at in "01" for name, value in values.items()
        ]
        return "\n".join(
            [histogram(waits, first), histogram([w / 10 for w in waits], per_token), *levels]
        )

    with serving(engine if named else "openai", scrapes=[text([0.2]), text([0.2, 0.4, 0.6])]) as (
        url,
        _,
    ):
        found = seen(url, scrapes=2)
    assert found.server.kind == engine
    assert (
        found.figures["ttft_s"]["mean"] == pytest.approx(0.5)
        and 0.1 <= found.figures["ttft_s"]["p50"] <= 0.5
    )
    assert found.figures["tpot_s"]["mean"] == pytest.approx(0.05)
    assert found.figures["running"]["mean"] == 6 and found.figures["kv_used_ratio"]["most"] == 0.6


def test_however_short_it_is_there_are_two_scrapes():
    with serving("vllm", scrapes=[vllm(0, 1), vllm(1, 1)]) as (url, _):
        found = observe(identify(Address.parse(url)), for_s=1e-9, every_s=5.0)
    assert (found.scrapes, found.ended) == (2, "")
