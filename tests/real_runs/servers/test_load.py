"""A load: exact lengths, rows that the simulator reads, and nothing lost whatever ends it."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hardware_profiles.errors import InputError
from real_runs.prompt_set import read_prompts
from real_runs.servers.address import Address
from real_runs.servers.engines import KINDS
from real_runs.servers.exchange import Patience
from real_runs.servers.identify import identify
from real_runs.servers.load import ACCEPTANCE, PART, ROWS, SCRAPES, SentLoad, run_load
from real_runs.servers.passages import passages, token_ids
from simulator.loop.request import Workload
from tests.real_runs.servers.stub_server import serving
from tests.traces.importers.samples import VLLM_SCRAPES
from traces.importers.formats import read_requests_any
from traces.storage.acceptance_file import read_acceptance

LENGTHS = {"prompt_tokens": np.array([5, 70, 20, 33]), "output_tokens": np.array([4, 3, 6, 2])}
ARRIVALS = np.array([0.0, 0.02, 0.03, 0.05])


def workload(**changes):
    return Workload(**({"arrival_s": ARRIVALS} | LENGTHS | changes))


def load(url, out, *, requests=None, **options):
    requests = requests or workload()
    server = identify(Address.parse(url))
    prompts = passages(requests, token_ids(server, read_prompts()), 0)
    patience = Patience(connect_s=300.0, silence_s=300.0)
    return SentLoad(
        server=server, workload=requests, prompts=prompts, out=out, patience=patience, **options
    )


def rows(out):
    return pq.read_table(out / ROWS).to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_requests_are_sent_with_their_lengths_at_their_times(tmp_path, kind):
    with serving(kind, interval_s=0.002) as (url, stub):
        result = run_load(load(url, tmp_path))
    assert sorted(len(body["prompt"]) for body in stub.bodies) == sorted(
        LENGTHS["prompt_tokens"].tolist()
    )
    found = rows(tmp_path)
    assert [row["request"] for row in found] == [0, 1, 2, 3]
    assert [row["input_tokens"] for row in found] == LENGTHS["prompt_tokens"].tolist()
    assert [row["output_tokens"] for row in found] == LENGTHS["output_tokens"].tolist()
    gaps = [row["arrival_s"] - found[0]["arrival_s"] for row in found]
    assert gaps == pytest.approx(ARRIVALS.tolist(), abs=1e-6)
    for row in found:
        assert row["arrival_s"] <= row["sent_s"] <= row["first_token_s"] <= row["last_token_s"]
        assert (
            row["token_times_s"] == sorted(row["token_times_s"])
            and len(row["token_times_s"]) == row["output_tokens"]
        )
        assert (
            (row["draft_tokens"] is not None)
            == (row["scheduled_s"] is not None)
            == (kind == "llama.cpp")
        )
    assert (result.short, result.errors, result.resumed, result.requests) == (0, {}, 0, 4)
    assert not (tmp_path / PART).exists()
    assert {path.name for path in tmp_path.iterdir()} == {
        ROWS,
        "counters-before.txt",
        "counters-after.txt",
    }


def test_the_rows_are_a_request_trace(tmp_path):
    with serving() as (url, _):
        run_load(load(url, tmp_path))
    trace = read_requests_any(tmp_path / ROWS)
    assert trace.prompt_tokens.tolist() == LENGTHS["prompt_tokens"].tolist()
    assert trace.output_tokens.tolist() == LENGTHS["output_tokens"].tolist()


def test_the_summary_is_that_of_the_rows(tmp_path):
    with serving(interval_s=0.01, first_s=0.02) as (url, _):
        summary = run_load(load(url, tmp_path)).summary
    found = rows(tmp_path)
    waits = [row["first_token_s"] - row["arrival_s"] for row in found]
    assert summary["ttft_s"]["mean"] == pytest.approx(np.mean(waits)) and min(waits) >= 0.02
    spans = [
        (row["last_token_s"] - row["first_token_s"]) / (row["output_tokens"] - 1) for row in found
    ]
    assert summary["tpot_s"]["mean"] == pytest.approx(np.mean(spans))
    gaps = np.concatenate([np.diff(row["token_times_s"]) for row in found])
    assert summary["itl_s"]["p99"] <= gaps.max() and summary["itl_s"]["mean"] >= gaps.mean()
    assert summary["output_tokens"] == 15 and summary["tokens_per_s"] == pytest.approx(
        15 / summary["clock_s"]
    )
    assert (summary["draft_tokens"], summary["accepted_tokens"]) == (15, 7)


def test_acceptance_is_that_of_the_counters_around_the_load(tmp_path):
    with serving("vllm", scrapes=["# TYPE a counter\n" + text for text in VLLM_SCRAPES]) as (
        url,
        _,
    ):
        result = run_load(load(url, tmp_path))
    written = read_acceptance(tmp_path / ACCEPTANCE)
    assert written.summary == result.trace.summary and written.summary.drafts == 100


def test_users_send_one_request_at_a_time(tmp_path):
    with serving(interval_s=0.002) as (url, stub):
        run_load(load(url, tmp_path, requests=workload(users=1, arrival_s=np.zeros(4))))
    assert stub.most_at_once == 1
    found = rows(tmp_path)
    assert all(after["arrival_s"] >= before["last_token_s"] for before, after in pairwise(found))


def test_failed_requests_are_counted_and_sent_again(tmp_path):
    with serving(fault="refuses", fails_from=2) as (url, _):
        result = run_load(load(url, tmp_path, requests=workload(users=1)))
    assert result.errors == {"HTTP 503: no room": 2} and len(rows(tmp_path)) == 2
    with serving(scrapes=["# TYPE a counter\na_total 7\n"]) as (url, stub):
        with pytest.raises(InputError, match="resume it or delete it"):
            run_load(load(url, tmp_path, requests=workload(users=1)))
        with pytest.raises(InputError, match="requests_sha256: the recording was begun with"):
            run_load(load(url, tmp_path, requests=workload(users=2), resume=True))
        result = run_load(load(url, tmp_path, requests=workload(users=1), resume=True))
        assert len(stub.bodies) == 2
        with pytest.raises(InputError, match="holds a load that is finished"):
            run_load(load(url, tmp_path, requests=workload(users=1), resume=True))
    assert (result.resumed, result.errors) == (2, {})
    assert (
        "a_total 7" in (tmp_path / SCRAPES[0]).read_text()
    )  # the engine that answers now, not the one before
    assert [row["request"] for row in rows(tmp_path)] == [0, 1, 2, 3]


def test_a_server_that_dies_leaves_what_it_answered(tmp_path):
    with (
        serving(fault="dies", fails_from=2) as (url, _),
        pytest.raises(InputError, match="cannot be reached"),
    ):
        run_load(load(url, tmp_path, requests=workload(users=1)))
    assert [row["request"] for row in rows(tmp_path)] == [0, 1] and (tmp_path / PART).exists()


def test_a_load_without_any_answer_says_why(tmp_path):
    wanted = "no request was answered: answered something else than JSON"
    with serving(fault="html") as (url, _), pytest.raises(InputError, match=wanted):
        run_load(load(url, tmp_path))
    assert not (tmp_path / ROWS).exists()


def test_ctrl_c_keeps_what_was_answered_and_resuming_sends_the_rest(tmp_path):
    def interrupt(what, answered, total):
        if answered == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with serving(interval_s=0.002) as (url, stub):
        asked = load(url, tmp_path, requests=workload(users=1))
        with pytest.raises(KeyboardInterrupt):
            run_load(asked, interrupt)
        assert [row["request"] for row in rows(tmp_path)] == [0, 1]
        result = run_load(replace(asked, resume=True))
        assert result.resumed == 2 and len(stub.bodies) <= 5
    found = rows(tmp_path)
    assert [row["request"] for row in found] == [0, 1, 2, 3]
    assert all(after["arrival_s"] >= before["last_token_s"] for before, after in pairwise(found))


def test_a_request_that_the_server_cannot_hold_is_refused_before_anything_is_sent(tmp_path):
    with (
        serving() as (url, stub),
        pytest.raises(InputError, match=r"request 1: .*at most 4096 tokens.*got 5003"),
    ):
        load(url, tmp_path, requests=workload(prompt_tokens=np.array([5, 5000, 2, 2])))
    assert stub.bodies == []


def test_prompts_share_the_blocks_that_they_are_said_to_share():
    shared = ((1, 2), (1, 3), (), (1, 2))
    requests = workload(
        prefix_ids=shared, prefix_block_tokens=4, prompt_tokens=np.array([9, 9, 9, 5])
    )
    text = np.arange(1000)
    for tokens in (text, None):
        first, second, third, short = passages(requests, tokens, 7)
        assert first[:4] == second[:4] == short[:4] and first[4:8] != second[4:8]
        assert first[4] == short[4] and third[:4] != first[:4]
        assert [len(prompt) for prompt in (first, second, third, short)] == [9, 9, 9, 5]
        assert (
            passages(requests, tokens, 7)
            == [first, second, third, short]
            != passages(requests, tokens, 8)
        )


def test_nothing_is_left_behind_of_a_client_that_is_killed(tmp_path):
    """Answers that were whole are on the disk; the request that was under way is not there."""
    code = (
        "import sys; from pathlib import Path; import tests.real_runs.servers.test_load as t;"
        "t.run_load(t.load(sys.argv[1], Path(sys.argv[2]), requests=t.workload(users=1)))"
    )
    part = tmp_path / PART
    with serving(fault="silent", fails_from=2) as (url, _):
        words = [sys.executable, "-c", code, url, str(tmp_path)]
        process = subprocess.Popen(words, cwd=Path(__file__).parents[3], stdout=subprocess.DEVNULL)
        try:
            while process.poll() is None and not (
                part.exists() and part.read_bytes().count(b"\n") == 3
            ):
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
    assert [json.loads(line)["request"] for line in part.read_text().splitlines()[1:]] == [0, 1]
