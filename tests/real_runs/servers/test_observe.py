"""Observing: what lies between scrapes, a trace of it, and what is kept of a server that restarts or is lost."""

import os
import signal
import threading
import time

import pytest

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import identify
from real_runs.servers.observe import observe
from tests.real_runs.servers.stub_server import METRICS, serving
from tests.traces.importers.samples import LLAMA_COUNTERS, VLLM_SCRAPES

SHORT = {"for_s": 0.12, "every_s": 0.05, "patience": Patience(connect_s=2.0, silence_s=20.0)}
GAUGES = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running {}\n"
LLAMA = """# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total {decodes}
# TYPE llamacpp:n_busy_slots_per_decode gauge
llamacpp:n_busy_slots_per_decode {busy}
llamacpp:tokens_predicted_total {tokens}
llamacpp:tokens_predicted_seconds_total {seconds}
"""


def vllm(at, running):
    return GAUGES.format(running) + VLLM_SCRAPES[at]


def seen(url, **options):
    return observe(identify(Address.parse(url)), **(SHORT | options))


def test_acceptance_is_that_of_the_counters_with_a_window_for_each_interval():
    with serving("vllm", scrapes=[vllm(0, 1), vllm(0, 1), vllm(1, 3)], model="m") as (url, _):
        found = seen(url)
    assert found.ended == "" and found.scrapes >= 3
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
        found = seen(url)
    assert found.figures["tpot_s"] == {"mean": 0.05}
    assert found.figures["steps"] == {"gained": 20.0, "requests_per_step": 2.5}
    assert found.figures["output_tokens"]["gained"] == 100
    assert found.trace is None and "no speculative decoding counters" in found.no_trace


def test_nothing_drafted_in_between_is_said():
    with serving(scrapes=["# TYPE a counter\n" + LLAMA_COUNTERS]) as (url, _):
        found = seen(url)
    assert found.trace is None and found.no_trace == "no draft was verified between the scrapes"


def test_a_restart_ends_it_and_the_span_before_is_kept():
    with serving("vllm", scrapes=[vllm(0, 1), vllm(1, 1), vllm(0, 1)]) as (url, _):
        found = seen(url, for_s=5.0)
    assert "the engine was restarted" in found.ended and found.scrapes == 2
    assert found.trace.summary.drafts == 100


def test_a_server_that_is_lost_ends_it_and_the_span_before_is_kept():
    with serving("vllm", scrapes=[vllm(0, 1), vllm(1, 1)]) as (url, stub):
        server = identify(Address.parse(url))

        def lose(elapsed_s):
            stub.scrapes.clear()

        found = observe(server, **(SHORT | {"for_s": 5.0}), tell=lose)
    assert "publishes no counters" in found.ended and found.scrapes == 2 and found.trace is not None


def test_a_server_lost_before_a_second_scrape_is_an_error():
    scrapes = [METRICS, "no counters here"]
    with serving("vllm", scrapes=scrapes) as (url, _), pytest.raises(InputError, match="nothing was observed"):
        seen(url)


def test_ctrl_c_keeps_what_was_seen():
    def interrupt():
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    with serving("vllm", scrapes=[vllm(0, 1), vllm(1, 1)]) as (url, _):
        server = identify(Address.parse(url))
        thread = threading.Thread(target=interrupt)
        thread.start()
        found = observe(server, for_s=60.0, every_s=60.0)
        thread.join()
    assert found.ended == "stopped by Ctrl-C" and found.trace.summary.drafts == 100
