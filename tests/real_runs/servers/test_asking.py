"""Prompts that are sent together, timed by their tokens; answers that are not whole are no run."""

import pytest

from real_runs.servers import asking
from real_runs.servers.address import Address
from real_runs.servers.asking import FailedRunError, asked_together, slot_options
from real_runs.servers.client import StreamedAnswer
from real_runs.servers.identify import identify
from tests.real_runs.servers.stub_server import serving


def asked(url, **options):
    return asked_together(
        identify(Address.parse(url)), [(1, 2, 3), (4, 5, 6)], max_tokens=8, **options
    )


def test_decoding_counts_from_where_all_requests_decode(monkeypatch):
    def answer(times, **timings):
        return StreamedAnswer(
            due_s=0.0,
            sent_s=0.0,
            first_token_s=times[0],
            last_token_s=times[-1],
            token_times_s=times,
            output_tokens=5,
            token_ids=(1, 2, 3, 4, 5),
            timings=timings or None,
        )

    answers = [
        answer((1.0, 2.0, 3.0, 4.0, 5.0)),
        answer((2.0, 3.0, 3.0, 3.0, 4.0), draft_n=4, draft_n_accepted=2),
    ]
    monkeypatch.setattr(asking, "run_requests", lambda server, requests, users: answers)
    with serving() as (url, _):
        server = identify(Address.parse(url))
    found = asked_together(server, [(1,), (2,)], max_tokens=5)
    assert found["decode_s"] == pytest.approx(3.0)  # from 2.0, the later first token, to 5.0
    assert found["tokens"] == 3 + 4 and found["drafted_tokens"] == 4
    assert found["steps"] == 4 and found["request_steps"] == round((4 + 2) * 7 / 8)
    assert found["ttft_s"] == pytest.approx(1.5) and found["tpot_s"] == pytest.approx(
        (1.0 + 0.5) / 2
    )
    assert found["cpu_s"] == found["decode_s"]  # nothing said what the processor did


def test_requests_run_at_the_same_time_each_in_its_slot():
    with serving(interval_s=0.01) as (url, stub):
        found = asked(url)
    assert stub.most_at_once == 2 and [body["id_slot"] for body in stub.bodies] == [0, 1]
    assert all(body["cache_prompt"] for body in stub.bodies)
    assert 0.03 < found["decode_s"] < 5.0 and found["drafted_tokens"] == 16


def test_other_engines_are_asked_for_nothing_of_slots():
    with serving("vllm", interval_s=0.01) as (url, stub):
        asked(url)
        assert slot_options(identify(Address.parse(url)), 1) == {}
    assert "id_slot" not in stub.bodies[0]


@pytest.mark.parametrize("fault", ["ends", "says", "dies"])
def test_an_answer_that_breaks_off_is_no_run(fault):
    with serving(fault=fault) as (url, _):
        server = identify(Address.parse(url))
        with pytest.raises(FailedRunError):
            asked_together(server, [(1, 2, 3)], max_tokens=8)


def test_answers_that_never_overlap_are_no_run(monkeypatch):
    def answer(*times):
        return StreamedAnswer(due_s=0.0, sent_s=0.0, token_times_s=times, output_tokens=len(times))

    with serving() as (url, _):
        server = identify(Address.parse(url))
    monkeypatch.setattr(
        asking, "run_requests", lambda server, requests, users: [answer(1.0, 1.1), answer(2.0, 2.0)]
    )
    with pytest.raises(FailedRunError, match="before another one began"):
        asked_together(server, [(1,), (2,)], max_tokens=2)


def test_a_server_that_is_gone_is_no_run():
    with serving() as (url, _):
        server = identify(Address.parse(url))
    with pytest.raises(FailedRunError, match="cannot be reached"):
        asked_together(server, [(1, 2, 3)], max_tokens=8)
