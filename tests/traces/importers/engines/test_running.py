"""What an engine runs, by its counters: draft length, batch, share of drafts; two engines and trees
are refused."""

import pytest

from hardware_profiles.errors import InputError
from traces.importers.engines.ran import EngineFacts
from traces.importers.engines.running import read_running
from traces.kinds.summary import Summary

VLLM = {
    "spec_decode_num_drafts": 4200,
    "spec_decode_num_draft_tokens": 12600,
    "spec_decode_num_accepted_tokens": 6888,
    "generation_tokens": 4200 + 6888 + 40,
    "request_success": 40,
    "prompt_tokens": 36000,
    "iteration_tokens_total_count": 200,
    "request_time_per_output_token_seconds_sum": 0.8,
    "request_time_per_output_token_seconds_count": 40,
}
KEPT = (3150, 2184, 1554)


def vllm(model="llama", positions=KEPT, **counts):
    label = f'engine="0",model_name="{model}"'
    lines = [
        f"vllm:{name}_total{{{label}}} {value}" for name, value in ({**VLLM, **counts}).items()
    ]
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines += [f'{name}{{{label},position="{at}"}} {kept}' for at, kept in enumerate(positions)]
    return "\n".join(lines).replace("_count_total", "_count").replace("_sum_total", "_sum") + "\n"


@pytest.fixture
def files(tmp_path):
    def write(*texts):
        paths = [tmp_path / name for name in ("before.prom", "after.prom")][-len(texts) :]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        return paths

    return write


def test_a_scrape_tells_length_batch_share_and_times(files):
    found = read_running(*files(vllm()))
    assert (found.engine, found.draft_tokens, found.mean_draft_tokens, found.is_mixed) == (
        "vllm",
        3,
        3.0,
        False,
    )
    assert found.batch == 4200 / 200 and "iteration_tokens" in found.batch_from
    assert found.proposal_ratio == 1.0 and found.tpot_s == 0.02
    assert (found.prompt_tokens, found.output_tokens) == (900.0, (4200 + 6888 + 40) / 40)


def lora(running, waiting="", slots=4, at_s=1.79e9):
    labels = (
        f'max_lora="{slots}",running_lora_adapters="{running}",waiting_lora_adapters="{waiting}"'
    )
    return f"vllm:lora_requests_info{{{labels}}} {at_s}\n"


def test_a_scrape_tells_slots_of_adapters_and_how_many_ran(files):
    ran = lora("") + lora("sql,chat") + lora("chat", "law") + lora("chat,law", at_s=1.8e9)
    facts = read_running(*files(vllm() + ran)).facts
    assert (facts.max_loras, facts.adapters) == (4, 3)
    facts = read_running(*files(vllm() + lora("", "law"))).facts
    assert (facts.max_loras, facts.adapters) == (4, None)
    assert read_running(*files(vllm())).facts == EngineFacts()


def test_two_scrapes_tell_what_lies_between(files):
    later = {name: 2 * value for name, value in VLLM.items()} | {
        "generation_tokens": VLLM["generation_tokens"] + 16888
    }
    found = read_running(*files(vllm(), vllm(positions=[2 * kept for kept in KEPT], **later)))
    assert isinstance(found.summary, Summary) and found.summary.drafts == 4200
    assert found.batch == (16888 - 40 - 6888) / 200 and found.proposal_ratio == 4200 / 9960


def test_mixed_lengths_are_seen(files):
    found = read_running(*files(vllm(spec_decode_num_draft_tokens=8400)))
    assert found.is_mixed and (found.draft_tokens, found.mean_draft_tokens) == (3, 2.0)


def test_llama_cpp_states_its_batch(files):
    text = (
        "llamacpp:n_decode_total 100\nllamacpp:n_busy_slots_per_decode"
        " 3.5\nllamacpp:tokens_predicted_total 700\nllamacpp:tokens_predicted_seconds_total"
        " 7\nllamacpp:spec_decode_num_drafts_total 350\nllamacpp:spec_decode_num_draft_tokens_total"
        " 1050\nllamacpp:spec_decode_num_accepted_tokens_total 350\n"
    )
    found = read_running(*files(text))
    assert (found.engine, found.batch, found.tpot_s, found.draft_tokens) == (
        "llama.cpp",
        3.5,
        0.01,
        3,
    )


SGLANG = (
    "sglang:spec_verify_calls_total 1000\nsglang:generation_tokens_total"
    " 2900\nsglang:num_requests_total 100\nsglang:spec_num_draft_tokens"
    " {nodes}\nsglang:spec_num_steps 3\nsglang:num_running_reqs 12\n"
)


def test_sglang_tells_a_mean_and_the_requests_that_ran_last(files):
    found = read_running(*files(SGLANG.format(nodes=4)))
    assert (found.engine, found.draft_tokens, found.batch) == ("sglang", 3, 12.0)
    assert found.summary.tokens_per_step == 2.8 and found.proposal_ratio == 1.0


def test_trees_are_refused(files):
    with pytest.raises(InputError, match=r"trees of 15 draft tokens in 3 levels"):
        read_running(*files(SGLANG.format(nodes=16)))


def test_tensorrt_llm_counts_by_position(files):
    label = '{model_name="m",token_position="%d"} %d\n'
    text = "".join(
        f"trtllm_spec_decode_{name}_tokens_total" + label % (at, count)
        for name, counts in (("drafted", (900, 900)), ("accepted", (600, 400)))
        for at, count in enumerate(counts, 1)
    )
    found = read_running(*files(text))
    assert (found.engine, found.draft_tokens, found.batch) == ("tensorrt-llm", 2, None)


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        (vllm(), SGLANG.format(nodes=4), "after.prom.*is of sglang.*before.prom of vllm"),
        ("prose\n", vllm(), "before.prom.*holds no counters"),
        (vllm(), "vllm:num_requests_running 3\n", "none of speculation"),
        (
            vllm(spec_decode_num_drafts=5000, request_success=30),
            vllm(),
            "restarted, or scrapes swapped",
        ),
        (vllm(), vllm(), "no draft"),
        (vllm(), vllm("llama") + vllm("qwen"), "choose one of the models"),
    ],
)
def test_refusals_name_the_file(files, before, after, rule):
    with pytest.raises(InputError, match=rule):
        read_running(*files(before, after))


def test_several_models_are_told_apart_by_who_is_served(files):
    both = vllm("llama") + vllm("qwen", spec_decode_num_drafts=4300)
    assert (
        read_running(*files(both), is_served=lambda label: label == "qwen").summary.drafts == 4300
    )
    assert read_running(*files(both), model="llama").summary.drafts == 4200


STARTED = (
    "INFO 11-20 10:00:01 [core.py:58] Initializing a V1 LLM engine (v0.11.0) with config:"
    " model='meta-llama/Llama-3.1-8B-Instruct', speculative_config=SpeculativeConfig(method='eagle3',"
    " num_spec_tokens=3), tensor_parallel_size=2, pipeline_parallel_size=1\n"
    "INFO 11-20 10:00:09 [kv_cache_utils.py:864] GPU KV cache size: 812,000 tokens\n"
)


def vllm_log(windows=10, running=24):
    """Lines that vLLM prints every ten seconds: what it generated, and what it speculated."""
    lines = [
        f"INFO 11-20 10:01:{at:02d} {line}"
        for at in range(windows)
        for line in (
            "[loggers.py:123] Engine 000: Avg prompt throughput: 900.0 tokens/s, Avg generation"
            f" throughput: 6000.0 tokens/s, Running: {running} reqs, Waiting: 0 reqs, GPU KV cache"
            " usage: 4.4%",
            "[metrics.py:96] SpecDecoding metrics: Mean acceptance length: 2.60, Accepted throughput:"
            " 500 tokens/s, Drafted throughput: 900 tokens/s, Accepted: 3200 tokens, Drafted: 6000"
            " tokens, Per-position acceptance rate: 0.750, 0.500, 0.350, Avg Draft acceptance rate:"
            " 53.3%",
        )
    ]
    return "\n".join(lines) + "\n"


SGLANG_LOG = (
    "[2025-11-20 10:00:00] server_args=ServerArgs(model_path='meta-llama/Llama-3.1-8B-Instruct',"
    " tp_size=4, max_running_requests=64, speculative_algorithm='EAGLE3')\n"
) + "".join(
    f"[2025-11-20 10:27:{at:02d} TP0] Decode batch. #running-req: {running}, #token: 108, token usage:"
    f" 0.00, accept len: {length}, accept rate: {rate}, cuda graph: True, gen throughput (token/s):"
    f" {100.0 * running}, #queue-req: 0, \n"
    for at, (running, length, rate) in enumerate([(8, 2.17, 0.54), (12, 1.95, 0.49)] * 5)
)


def test_a_log_of_vllm_tells_what_ran_and_what_was_started(files):
    found = read_running(*files(STARTED + vllm_log()))
    assert (found.engine, found.draft_tokens, found.batch, found.reported_by) == (
        "vllm",
        3,
        24.0,
        "log",
    )
    assert found.tpot_s == pytest.approx(24 / 6000) and found.summary.drafts == 20_000
    about = found.trace.provenance
    assert (about.model, about.method) == ("meta-llama/Llama-3.1-8B-Instruct", "eagle3")
    assert (found.facts.tensor_parallel, found.facts.cache_tokens) == (2, 812_000)


def test_a_log_without_its_start_tells_what_ran_alone(files):
    found = read_running(*files(vllm_log()))
    assert (found.trace.provenance.model, found.trace.provenance.method) == ("", "")
    assert found.facts == EngineFacts()


def test_a_log_of_sglang_tells_the_same(files):
    found = read_running(*files(SGLANG_LOG))
    assert (found.engine, found.draft_tokens, found.batch) == ("sglang", 3, 10.0)
    assert found.tpot_s == pytest.approx(0.01)
    assert (found.facts.tensor_parallel, found.facts.max_requests) == (4, 64)
    assert found.trace.provenance.method == "eagle3"


def test_a_log_stands_alone(files):
    with pytest.raises(InputError, match=r"before\.prom.*is a log, which tells all by itself"):
        read_running(*files(vllm_log(), vllm()))


def test_ranks_of_counters_tell_the_tensor_parallel_size(files):
    ranks = "".join(
        f'sglang:spec_verify_calls_total{{tp_rank="{rank}"}} 1000\n' for rank in range(4)
    )
    text = ranks + SGLANG.format(nodes=4).partition("\n")[2]
    assert read_running(*files(text)).facts.tensor_parallel == 4
    assert read_running(*files(SGLANG.format(nodes=4))).facts.tensor_parallel is None
