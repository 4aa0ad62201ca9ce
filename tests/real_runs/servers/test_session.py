"""Many requests: at their times or by users, bounded, and kept whatever ends them."""

import asyncio
import itertools
import os
import signal

import pytest

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address
from real_runs.servers.client import Completion
from real_runs.servers.exchange import UnreachableError
from real_runs.servers.identify import identify
from real_runs.servers.session import run_requests
from tests.real_runs.servers.stub_server import serving

REQUESTS = [Completion(prompt=(1, 2), max_tokens=4) for _ in range(9)]


def test_users_have_one_request_each_under_way():
    with serving(gathers=3) as (url, stub):
        answers = run_requests(identify(Address.parse(url)), REQUESTS, users=3)
    assert [answer.error for answer in answers] == [None] * 9
    assert stub.most_at_once == 3


def test_users_think_between_requests():
    with serving() as (url, _):
        answers = run_requests(identify(Address.parse(url)), REQUESTS[:3], users=1, think_s=0.05)
    pauses = [b.due_s - a.last_token_s for a, b in itertools.pairwise(answers)]
    assert min(pauses) >= 0.045


def test_arrivals_keep_their_times_whether_or_not_answers_came():
    arrivals = [0.02 * index for index in range(9)]
    with serving(gathers=9) as (url, stub):  # which answers none before all of them have come
        answers = run_requests(identify(Address.parse(url)), REQUESTS, arrivals_s=arrivals)
    gaps = [answer.due_s - answers[0].due_s for answer in answers]
    assert gaps == pytest.approx(arrivals, abs=1e-6)
    assert all(answer.sent_s >= answer.due_s for answer in answers) and stub.most_at_once == 9


def test_no_more_than_so_many_are_under_way_and_the_rest_waits():
    with serving(first_s=0.01) as (url, stub):
        answers = run_requests(
            identify(Address.parse(url)), REQUESTS, arrivals_s=[0.0] * 9, most_at_once=2
        )
    assert stub.most_at_once == 2
    assert answers[-1].sent_s - answers[-1].due_s >= 0.03


@pytest.mark.parametrize(
    "how", [{}, {"users": 1, "arrivals_s": [0.0] * 9}, {"users": 0}, {"arrivals_s": [0.0]}]
)
def test_a_load_that_makes_no_sense_is_refused(how):
    server = object()
    with pytest.raises(InputError):
        run_requests(server, REQUESTS, **how)


def test_a_server_that_dies_ends_the_run_and_keeps_what_it_answered():
    answered = {}
    with serving(fault="dies", fails_from=4) as (url, _):
        server = identify(Address.parse(url))
        with pytest.raises(
            UnreachableError, match=r"cannot be reached .*; 4 of 9 requests were answered before"
        ):
            run_requests(server, REQUESTS, users=1, on_answer=answered.__setitem__)
    assert [answered[index].error is None for index in range(5)] == [True] * 4 + [False]


def interrupt(done, under_way):
    """Ctrl-C, as soon as two are answered."""
    if done == 2:
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_closes_connections_and_keeps_what_was_answered():
    answered = {}
    with serving(interval_s=0.01) as (url, _):
        server = identify(Address.parse(url))
        with pytest.raises(KeyboardInterrupt):
            run_requests(server, REQUESTS, users=1, on_answer=answered.__setitem__, tell=interrupt)
    assert len(answered) == 2 and all(answer.error is None for answer in answered.values())


def test_ctrl_c_ends_it_in_a_notebook_too():
    """Where a loop runs already, the session's runs in a thread beside it."""
    answered = {}

    async def cell(server):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook has it
        run_requests(server, REQUESTS, users=1, on_answer=answered.__setitem__, tell=interrupt)

    before = signal.getsignal(signal.SIGINT)
    try:
        with serving(interval_s=0.01) as (url, _), pytest.raises(KeyboardInterrupt):
            asyncio.run(cell(identify(Address.parse(url))))
    finally:
        signal.signal(signal.SIGINT, before)
    assert 2 <= len(answered) < 9


def test_five_hundred_streams_are_whole():
    request = Completion(prompt=(1, 2), max_tokens=4)
    with serving(interval_s=0.02, gathers=500) as (url, stub):
        answers = run_requests(identify(Address.parse(url)), [request] * 500, users=500)
    assert stub.most_at_once == 500
    for answer in answers:
        written = [float(word) for word in answer.text.split()]
        assert answer.error is None and len(written) == len(answer.token_times_s) == 4
        assert all(at <= seen for at, seen in zip(written, answer.token_times_s, strict=True))


def test_what_fails_in_the_caller_is_raised_as_it_is():
    def full(index, answer):
        raise OSError("disk full")

    with serving() as (url, _), pytest.raises(OSError, match="disk full"):
        run_requests(identify(Address.parse(url)), REQUESTS, users=2, on_answer=full)
