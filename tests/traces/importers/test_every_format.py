"""Every format: claimed by itself alone, and read with the totals that were counted by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.traces.importers import samples
from traces.importers.formats import (
    CONFIDENCE_READERS,
    FAMILIES,
    READERS,
    REQUEST_READERS,
    detect,
    format_named,
    import_requests,
    import_trace,
    read_requests_any,
    read_trace_any,
)
from traces.importers.recognition import claims, sample_of
from traces.importers.steps import Steps, stepped
from traces.kinds.acceptance import Provenance
from traces.replay.walk import replay_chain
from traces.storage.acceptance_file import read_acceptance, write_acceptance

EVERY = (*READERS, *REQUEST_READERS, *CONFIDENCE_READERS)
LMDEPLOY_LATER = samples.LMDEPLOY.replace(" 20.0", " 30.0").replace(" 60.0", " 90.0")


def placed(folder, name, text):
    file = folder / name
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", [*samples.ACCEPTANCE, *samples.REQUESTS, *samples.CONFIDENCE])
def test_a_sample_is_claimed_by_its_own_format_alone(tmp_path, name):
    form, text = {**samples.ACCEPTANCE, **samples.REQUESTS, **samples.CONFIDENCE}[name][:2]
    file = placed(tmp_path, name, text)
    known = {other: format_named(other) for other in EVERY}
    assert claims(sample_of(file), known) == [form]
    assert detect(file).name == form


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("vllm", "vllm.log"),
        ("sglang", "sglang.jsonl"),
        ("llama-cpp", "llama.json"),
        ("trtllm-metrics", "stats.json"),
        ("trtllm-metrics", "trtllm.prom"),
        ("spec-bench", "spec-bench.jsonl"),
        ("eagle-eval", "medusa.jsonl"),
        ("trtllm", "perf.json"),
        ("lmdeploy", "lmdeploy.log"),
    ],
)
def test_a_family_stands_for_what_the_file_shows_of_it(tmp_path, family, name):
    form, text, totals, _ = samples.ACCEPTANCE[name]
    file = placed(tmp_path, name, text)
    assert detect(file, family).name == form
    summary = import_trace(family, file).summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == totals


def test_a_family_sorts_out_a_file_of_several_engines(tmp_path):
    both = placed(tmp_path, "both.log", samples.VLLM_LOG + samples.SGLANG_LOG)
    assert (detect(both, "vllm").name, detect(both, "sglang").name) == ("vllm-log", "sglang-log")
    assert {name for names in FAMILIES.values() for name in names} <= {*READERS, *REQUEST_READERS}
    assert not FAMILIES.keys() & {*READERS, *REQUEST_READERS}


def test_every_format_has_a_sample():
    rows = (*samples.ACCEPTANCE.values(), *samples.REQUESTS.values(), *samples.CONFIDENCE.values())
    shown = {row[0] for row in rows}
    assert shown == {*EVERY}


@pytest.mark.parametrize("name", samples.ACCEPTANCE)
def test_acceptance_is_read_with_its_totals(tmp_path, name):
    _, text, totals, rates = samples.ACCEPTANCE[name]
    trace = read_trace_any(placed(tmp_path, name, text))
    if totals is None:
        assert trace.level == 1 and trace.positions == 4
        return
    summary = trace.summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == totals
    assert summary.acceptance_by_depth == pytest.approx(rates or ())
    if totals[0]:
        assert summary.tokens_per_step == pytest.approx(1 + totals[2] / totals[0])
    assert trace.provenance.notes and trace.provenance.recorder_version
    copy = tmp_path / "copy.parquet"
    write_acceptance(trace, copy)
    assert read_acceptance(copy).summary == summary


@pytest.mark.parametrize(
    "name", ["bench.txt", "sglang.txt", "vllm.prom", "table.csv", "llama-old.log", "medusa.jsonl"]
)
def test_lines_may_end_as_on_windows(tmp_path, name):
    _, text, totals, _ = samples.ACCEPTANCE[name]
    file = tmp_path / name
    file.write_bytes(text.replace("\n", "\r\n").encode())
    summary = read_trace_any(file).summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == totals


@pytest.mark.parametrize("name", samples.REQUESTS)
def test_requests_are_read_as_they_stand(tmp_path, name):
    _, text, arrivals, prompts, outputs = samples.REQUESTS[name]
    trace = read_requests_any(placed(tmp_path, name, text))
    assert trace.arrival_s.tolist() == pytest.approx(arrivals)
    assert (trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == (prompts, outputs)


@pytest.mark.parametrize("name", samples.REFUSED)
def test_other_files_are_refused_with_what_they_are(tmp_path, name):
    text, reason = samples.REFUSED[name]
    with pytest.raises(InputError) as caught:
        detect(placed(tmp_path, name, text))
    assert reason in str(caught.value) and name in str(caught.value)


@pytest.mark.parametrize(
    ("form", "texts", "totals"),
    [
        ("vllm-metrics", samples.VLLM_SCRAPES, (100, 200, 110)),
        ("sglang-metrics", samples.SGLANG_SCRAPES, (120, 360, 180)),
        ("lmdeploy-metrics", [samples.LMDEPLOY, LMDEPLOY_LATER], (10, 30, 0)),
        (
            "tensorrt-llm-metrics",
            [samples.TRT_POSITIONS, samples.TRT_POSITIONS.replace("} 20", "} 25")],
            (5, 5, 0),
        ),
    ],
)
def test_two_scrapes_give_what_lies_between(tmp_path, form, texts, totals):
    files = [placed(tmp_path, f"{at}.prom", text) for at, text in enumerate(texts)]
    summary = import_trace(form, files).summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == totals
    with pytest.raises(InputError, match="fell or vanished"):
        import_trace(form, files[::-1])


def test_means_alone_and_batches_are_kept(tmp_path):
    log = read_trace_any(placed(tmp_path, "s.log", samples.SGLANG_LOG))
    assert log.summary.mean_tokens_per_step == pytest.approx((2.17 + 3 * 1.95) / 4)
    assert [(w.batch_requests, w.tokens_per_step) for w in log.summary.windows] == [
        (1, 2.17),
        (3, 1.95),
    ]
    assert log.summary.draft_levels == 3 and "until 0.5.4" in log.provenance.notes
    new = read_trace_any(placed(tmp_path, "n.log", samples.SGLANG_NEW_LOG))
    assert (
        new.summary.draft_levels == 3
        and "accepted drafts over draft tokens" in new.provenance.notes
    )
    bench = read_trace_any(placed(tmp_path, "b.jsonl", samples.lines(samples.SGLANG_BENCH)))
    assert [(w.batch_requests, w.drafts) for w in bench.summary.windows] == [(1, 400), (4, 500)]
    stats = read_trace_any(placed(tmp_path, "t.json", json.dumps(samples.TRT_STATS)))
    assert [(w.batch_requests, w.accepted_tokens) for w in stats.summary.windows] == [
        (8, 12),
        (4, 2),
    ]


def test_a_drafter_that_seldom_proposes_has_a_match_rate(tmp_path):
    trace = read_trace_any(placed(tmp_path, "l.log", samples.LLAMA_STATISTICS))
    assert trace.match_rate == 20 / 80
    assert (trace.provenance.drafter, trace.provenance.method) == ("draft-mtp", "mtp")
    both = samples.LLAMA_STATISTICS.replace("draft-mtp", "ngram_mod", 1)
    file = placed(tmp_path, "two.log", both)
    with pytest.raises(InputError, match="choose one of the drafters ngram_mod, draft-mtp"):
        read_trace_any(file)
    assert import_trace("llama-cpp-log", file, drafter="ngram_mod").summary.drafts == 10


def test_totals_that_fall_begin_another_run(tmp_path):
    later, first = samples.LLAMA_STATISTICS.splitlines()[::-1]
    summary = read_trace_any(placed(tmp_path, "l.log", f"{later}\n{first}\n")).summary
    assert (summary.drafts, summary.accepted_tokens) == (30, 38)


def test_a_table_needs_a_row(tmp_path):
    table = "method,mean_accepted_tokens,K\nEAGLE,3.5,5\nEAGLE2,4.4,6\nEAGLE2,4.1,7\n"
    file = placed(tmp_path, "board.csv", table)
    with pytest.raises(InputError, match="has 3 rows: choose one by --drafter"):
        read_trace_any(file)
    with pytest.raises(InputError, match="must name one row, not 2"):
        import_trace("acceptance-table", file, drafter="EAGLE2")
    chosen = import_trace("acceptance-table", file, drafter="eagle2 7").summary
    assert (chosen.mean_tokens_per_step, chosen.draft_levels) == (4.1, 7)
    assert import_trace("acceptance-table", file, drafter="EAGLE").summary.draft_levels == 5


def test_head_accuracies_become_sibling_vectors(tmp_path):
    heads = "Name,train/medusa0_top1,train/medusa0_top2,train/medusa1_top1\n7b,0.6,0.7,0.3\n"
    trace = read_trace_any(placed(tmp_path, "acc.csv", heads))
    assert trace.summary.sibling_vectors == ((0.6, pytest.approx(0.1)), (0.3,))


def test_a_draft_length_completes_counts_that_do_not_tell_one(tmp_path):
    rate_alone = placed(tmp_path, "perf.json", json.dumps(samples.TRT_RESPONSE))
    assert read_trace_any(rate_alone).summary.tokens_per_step is None
    named = import_trace("tensorrt-llm-responses", rate_alone, draft_tokens=3)
    assert (named.summary.drafts, named.summary.tokens_per_step) == (10, 2.5)
    medusa = placed(tmp_path, "m.jsonl", samples.lines(samples.MEDUSA))
    assert import_trace("answers", medusa, draft_tokens=4).summary.draft_levels == 4
    with pytest.raises(InputError, match="need longer drafts"):
        import_trace("answers", medusa, draft_tokens=1)
    with pytest.raises(InputError, match="the source says 2"):
        import_trace("vllm-log", placed(tmp_path, "v.log", samples.VLLM_LOG), draft_tokens=3)
    with pytest.raises(InputError, match="only counts"):
        import_trace(
            "answers",
            placed(tmp_path, "s.jsonl", samples.lines(samples.SPEC_BENCH)),
            draft_tokens=3,
        )


def test_settings_of_a_sweep_are_not_pooled(tmp_path):
    rows = [
        row | {"steps": steps, "num_draft_tokens": steps + 1}
        for row in samples.SGLANG_BENCH
        for steps in (2, 3)
    ]
    plain = {
        "batch_size": 1,
        "steps": 0,
        "topk": 0,
        "num_draft_tokens": 0,
        "acc_length": 1.0,
        "completion_tokens": 100,
    }
    file = placed(tmp_path, "sweep.jsonl", samples.lines([plain, *rows]))
    with pytest.raises(InputError, match="steps 2, topk 1, draft tokens 3; steps 3"):
        read_trace_any(file)
    assert import_trace("sglang-bench", file, draft_tokens=2).summary.draft_tokens == 1800
    assert detect(file).name == "sglang-bench"


def test_rest_counts_its_turns_apart_and_leaves_idle_steps_out(tmp_path):
    trace = read_trace_any(placed(tmp_path, "rest.jsonl", samples.lines(samples.REST)))
    assert (trace.level, trace.request_ids, trace.output_tokens.tolist()) == (
        1,
        ("81/0", "81/1"),
        [7, 4],
    )
    # lists of 6 and 3 tokens begin behind the first of each turn's 7 and 4
    assert trace.emitted.tolist() == [5, 4, 3, 2, 1, 1, 1, 4, 3, 2, 1]
    assert trace.extra_columns == {"wall_s": [0.1, 0.1]}
    assert (
        "11 new tokens in 5 steps" in trace.provenance.notes
        and "1 steps that emitted nothing" in trace.provenance.notes
    )


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("medusa-vicuna-7b-v1.3-temperature-0.0", "medusa"),
        ("vicuna-7b-v1.3-sps-68m-float16", "speculative-decoding"),
        ("vicuna-7b-v1.3-eagle2-medusa", ""),
        ("vicuna-7b-v1.3", ""),
        ("rest-vicuna-7b", ""),
    ],
)
def test_a_model_named_after_its_method_tells_it(tmp_path, model, method):
    for rows in (samples.MEDUSA, samples.SPEC_BENCH):
        file = placed(
            tmp_path, "a.jsonl", samples.lines([row | {"model_id": model} for row in rows])
        )
        assert read_trace_any(file).provenance.method == method


def test_records_that_say_nothing_of_speculation_are_requests(tmp_path):
    rows = [samples.AIPERF[1] | {"spec_decode_acceptance": None}] * 2
    assert detect(placed(tmp_path, "p.jsonl", samples.lines(rows))).name == "aiperf-requests"


def test_blocks_of_several_runs_are_added_up_by_concurrency(tmp_path):
    second = samples.VLLM_BLOCK.replace("concurrency:             8", "concurrency:             32")
    second = second.replace(
        "Drafts:                                  10", "Drafts:                                  30"
    )
    second = second.replace(
        "tokens:                            20", "tokens:                            60"
    )
    plain = samples.SGLANG_BLOCK.replace("Accept length:                           2.84\n", "")
    file = placed(tmp_path, "sweep.txt", f"{samples.VLLM_BLOCK}\n{plain}\n{second}")
    summary = read_trace_any(file).summary
    assert (summary.drafts, summary.draft_tokens, summary.accepted_tokens) == (40, 80, 18)
    assert [(window.batch_requests, window.drafts) for window in summary.windows] == [
        (8, 10),
        (32, 30),
    ]
    untitled = placed(tmp_path, "twice.txt", "Acceptance length: 2.0\nAcceptance length: 2.5\n")
    with pytest.raises(InputError, match="a title above every block"):
        read_trace_any(untitled)


def test_single_steps_of_responses_become_lengths(tmp_path):
    file = placed(
        tmp_path, "s.json", json.dumps({"metrics": {"speculative_decoding": samples.VLLM_STEPS}})
    )
    trace = read_trace_any(file)
    assert (trace.level, trace.emitted.tolist()) == (1, [3, 2, 1, 1, 2, 1, 2, 1])
    assert trace.drafted.tolist() == [2, 1, 0, 2, 2, 1, 2, 1]


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=40), min_size=1, max_size=5).filter(
        lambda r: any(map(any, r))
    )
)
def test_a_walk_with_the_longest_draft_plays_the_recorded_steps(requests):
    trace = stepped(
        [Steps(request=str(at), emitted=steps) for at, steps in enumerate(requests)],
        "x",
        Provenance(),
    )
    taken = [n for steps in requests for n in steps if n]
    replay = replay_chain(trace, max(taken))
    assert (replay.steps.sum(), replay.tokens.sum()) == (len(taken), sum(taken))
    assert trace.summary.drafts == len(taken)
    shorter = replay_chain(trace, 1)
    assert shorter.steps.sum() >= len(taken)


COUNTS = st.lists(st.integers(0, 10**9), min_size=1, max_size=12).map(
    lambda counts: sorted(counts, reverse=True)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


@given(COUNTS, st.integers(0, 10**6), st.sampled_from(["vllm", "lmdeploy", "llamacpp"]))
def test_counters_become_rates_and_rates_the_counters(folder, accepted, refused, engine):
    drafts = accepted[0] + refused + 1
    name = f"{engine}:spec_decode_num"
    page = [f"{name}_drafts_total {drafts}", f"{name}_draft_tokens_total {drafts * len(accepted)}"]
    page += [f"{name}_accepted_tokens_total {sum(accepted)}"]
    page += [
        f'{name}_accepted_tokens_per_pos_total{{position="{at}"}} {n}'
        for at, n in enumerate(accepted)
    ]
    summary = read_trace_any(placed(folder, "page.prom", "\n".join(page))).summary
    assert [round(rate * summary.drafts) for rate in summary.acceptance_by_depth] == accepted
    assert summary.draft_levels == len(accepted) and summary.accepted_tokens == sum(accepted)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.sampled_from(["list", "map"]))
def test_a_histogram_of_steps_yields_their_rates(folder, accepted, spelling):
    histogram = [accepted.count(depth) for depth in range(6)]
    written = (
        histogram if spelling == "list" else {str(at): n for at, n in enumerate(histogram) if n}
    )
    record = {
        "acceptance_histogram": written,
        "num_spec_steps": len(accepted),
        "num_accepted_draft_tokens": sum(accepted),
        "num_draft_tokens": 5 * len(accepted),
        "num_spec_tokens": 5,
    }
    text = json.dumps({"metrics": {"speculative_decoding": record}})
    summary = read_trace_any(placed(folder, "response.json", text)).summary
    rates = [sum(n >= depth for n in accepted) / len(accepted) for depth in range(1, 6)]
    assert summary.acceptance_by_depth == pytest.approx(rates)
    assert summary.tokens_per_step == pytest.approx(1 + sum(rates))


def test_pipes_and_folders_are_refused(tmp_path):
    import os

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(InputError, match="regular file"):
            detect(path)
    with pytest.raises(InputError):
        import_requests("azure", pipe)
