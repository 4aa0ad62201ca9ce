"""What the client counts is what llama.cpp's server counts, and what it observes is what was
sent."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from real_runs.prompt_set import read_prompts
from real_runs.servers.address import Address
from real_runs.servers.counters import scrape
from real_runs.servers.identify import identify
from real_runs.servers.llama_cpp.launch import launched
from real_runs.servers.load import ROWS, SCRAPES, SentLoad, run_load
from real_runs.servers.passages import passages, token_ids
from simulator.loop.request import Workload
from traces.importers.scrapes import Scrape, observed

pytestmark = [pytest.mark.model, pytest.mark.heavy]
REQUESTS = Workload(
    arrival_s=np.array([0.0, 0.1, 0.2, 0.3]),
    prompt_tokens=np.array([40, 17, 64, 33]),
    output_tokens=np.array([12, 20, 1, 8]),
)
DRAFTING = (
    "--spec-type",
    "ngram-simple",
    "--spec-ngram-simple-size-n",
    "2",
    "--spec-ngram-simple-size-m",
    "3",
)


def test_counts_of_the_client_and_of_the_server_agree(few_layers, tmp_path):
    given = ["--model", str(few_layers), "--ctx-size", "512", "--parallel", "2", *DRAFTING]
    with launched(given, folder=tmp_path / "server") as running:
        server = identify(Address.parse(running.url))
        assert (server.kind, server.slots, server.context) == ("llama.cpp", 2, 256)
        prompts = passages(REQUESTS, token_ids(server, read_prompts()), 0)
        options = {"cache_prompt": False}
        result = run_load(
            SentLoad(
                server=server, workload=REQUESTS, prompts=prompts, out=tmp_path, options=options
            )
        )
        before, after = (Scrape(at_s=0.0, text=(tmp_path / name).read_text()) for name in SCRAPES)
        assert observed(after, scrape(server)).total("llamacpp:tokens_predicted") == 0
    rows = pq.read_table(tmp_path / ROWS).to_pylist()
    assert [row["input_tokens"] for row in rows] == REQUESTS.prompt_tokens.tolist()
    assert [row["output_tokens"] for row in rows] == REQUESTS.output_tokens.tolist()
    assert all(len(row["token_times_s"]) <= row["output_tokens"] for row in rows)
    assert (result.errors, result.short) == ({}, 0)
    span = observed(before, after)
    assert span.total("llamacpp:prompt_tokens") == REQUESTS.prompt_tokens.sum()
    assert span.total("llamacpp:tokens_predicted") == REQUESTS.output_tokens.sum()
    for name in ("draft_tokens", "accepted_tokens"):
        counted = span.total(f"llamacpp:spec_decode_num_{name}") or 0
        assert sum(row[name] or 0 for row in rows) == counted
    assert (result.trace is not None) == bool(result.summary["draft_tokens"])
    if result.trace is not None:
        assert result.trace.summary.accepted_tokens == result.summary["accepted_tokens"]
